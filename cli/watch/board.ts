import {
  describeApprovals,
  describeDeadlock,
  describeDuties,
  findOpenBar,
  hasDuties,
} from '../../machines/duties.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { Person } from '../../protocol/run-command.ts';
import type { InboxItem } from '../../protocol/run-view.ts';
import type { RunRecord, RunStatus, Store } from '../../protocol/store.ts';
import { Inbox } from '../../server/runs/inbox/read-inbox.ts';
import { nameOf } from '../../visualizer/page/inbox/inbox-rows.ts';
import { describeInputs } from '../../visualizer/page/render/describe-call.ts';

/** The runs and the open decisions of a store. `more`: there are more of them than are shown. */
export type Board = {
  runs: readonly RunRecord[];
  items: readonly InboxItem[];
  /** The runs of both, by id. */
  records: ReadonlyMap<string, RunRecord>;
  more: { runs: boolean; items: boolean };
  /** Of the whole store; absent where a store does not count. */
  counts?: Record<RunStatus, number>;
};

export const EMPTY_BOARD: Board = {
  runs: [],
  items: [],
  records: new Map(),
  more: { runs: false, items: false },
};

const MOST_RUNS = 200;
const MOST_WAITING = 500;

/** After so many ms without a new entry the lists are read again: deleted runs leave no entry. */
const OLDEST_MS = 5_000;

type BoardOptions = { store: Store; labels?: Labels | undefined; person: Person };

/** Reads the board of a store again when something has changed. */
export class BoardReader {
  readonly #options: BoardOptions;
  readonly #inbox: Inbox;
  #last: { text: string; end: string | undefined; at: number; board: Board } | null = null;

  constructor(options: BoardOptions) {
    this.#options = options;
    this.#inbox = new Inbox(options.store);
  }

  /** Returns the board as it is at `now`; the same object if nothing has changed. `text` filters both lists. */
  async read(text: string, now: number): Promise<Board> {
    const { store } = this.#options;
    const end = await store.feed?.end();
    const last = this.#last;
    const isCurrent = last !== null && last.text === text && end !== undefined && last.end === end;
    if (isCurrent && now - last.at < OLDEST_MS) return last.board;
    const board = await this.#readLists(text);
    this.#last = { text, end, at: now, board };
    return board;
  }

  async #readLists(text: string): Promise<Board> {
    const { store, labels, person } = this.#options;
    const filter = { ...omitUndefined({ labels }), onDamaged: () => {} };
    const listed = store.list({ ...filter, limit: MOST_RUNS, ...(text !== '' && { text }) });
    const [runs, waiting, counts] = await Promise.all([
      listed,
      store.list({ ...filter, status: 'waiting', order: 'asc', limit: MOST_WAITING }),
      store.count?.(),
    ]);
    const items: InboxItem[] = [];
    for (const record of waiting.runs) items.push(...(await this.#inbox.itemsOf(record)));
    return {
      runs: runs.runs,
      items: items.filter(item => matches(item, text)).toSorted(byUrgency(person)),
      records: new Map([...runs.runs, ...waiting.runs].map(record => [record.runId, record])),
      more: { runs: runs.next !== undefined, items: waiting.next !== undefined },
      ...omitUndefined({ counts }),
    };
  }
}

/** Doubts first, then what this person may decide, then what has waited longest. */
function byUrgency(person: Person) {
  const rank = ({ kind, call }: InboxItem) => {
    if (kind === 'doubt') return 0;
    return isOpenFor(person, call) ? 1 : 2;
  };
  return (left: InboxItem, right: InboxItem) => rank(left) - rank(right) || left.since - right.since;
}

/** Whether this person may decide, and has not. */
export function isOpenFor(person: Person, call: InboxItem['call']): boolean {
  if (call.kind === 'result' || call.kind === 'sign-in') return true;
  const decider = omitUndefined({ by: person.name, groups: person.groups });
  return findOpenBar(call, decider) === null && call.approvedBy?.includes(person.name) !== true;
}

function matches(item: InboxItem, text: string): boolean {
  const { kind, agent, title, runId, call } = item;
  const words = [kind, agent, title, runId, nameOf(call), describeDifference(item)];
  return words.join('\n').toLowerCase().includes(text.toLowerCase());
}

/** What tells the item from others of its tool: the reason, and the first inputs. */
export function describeDifference({ call }: InboxItem): string {
  if (call.kind === 'sign-in') return call.reason;
  if (call.kind === 'review') return call.reason ?? call.answer;
  if (call.kind === 'question') return call.questions.map(({ message }) => message).join(' ');
  const inputs = describeInputs(call.input);
  return [call.reason, inputs].filter(Boolean).join(' · ');
}

/** Who may decide, and who has, for people; empty without duties. */
export function describeWho({ call }: InboxItem): string {
  if (call.kind === 'result' || call.kind === 'sign-in' || !hasDuties(call)) return '';
  const more = [describeApprovals(call), describeDeadlock(call)].filter(Boolean);
  return [`needs ${describeDuties(call)}`, ...more].join('; ');
}
