import { callIdOf, type InboxItem, isOpenItem } from '../../protocol/run-view.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { nameOf } from '../../visualizer/page/inbox/inbox-rows.ts';
import { describeWait } from '../commands/runs.ts';
import { formatClock } from '../render/format.ts';
import { dim, type Output, yellow } from '../render/output.ts';
import { HEADINGS, STATUS_STYLES } from '../render/show-open.ts';
import { type Board, describeDifference } from './board.ts';
import { nameSubject } from './describe-decision.ts';
import { itemKey, markOf } from './watch-session.ts';

/** Prints boards as lines: at first the runs that have not ended and what is open, then what has changed. */
export class ChangePrinter {
  readonly #output: Output;
  #runs: ReadonlyMap<string, RunRecord> | null = null;
  #items: ReadonlyMap<string, InboxItem> = new Map();

  constructor(output: Output) {
    this.#output = output;
  }

  print({ runs, items }: Board, now: number): void {
    const before = this.#runs;
    for (const record of runs.toReversed()) {
      const known = before?.get(record.runId);
      const isNews = before === null ? isUnended(record) : known === undefined || differs(known, record);
      if (isNews) this.#printRun(record, now);
    }
    const open = new Map(items.map(item => [itemKey(item), item]));
    const marks = new Set([...this.#items.values()].map(markOf));
    for (const item of open.values()) if (!marks.has(markOf(item))) this.#printOpen(item, now);
    for (const [key, item] of this.#items) if (!open.has(key)) this.#printClosed(item, now);
    this.#runs = new Map([...(before ?? []), ...runs.map(record => [record.runId, record] as const)]);
    this.#items = open;
  }

  #printRun(record: RunRecord, now: number): void {
    const { runId, agent, title, status, state, waitsFor, errorCode, createdAt, updatedAt, seq } = record;
    const value = { runId, agent, title, status, state, waitsFor, errorCode, createdAt, updatedAt, seq };
    const waits = errorCode ?? describeWait(record);
    this.#output.tell(
      { type: 'run', ...value },
      dim(`${formatClock(now)}  `),
      `${runId}  `,
      { style: STATUS_STYLES[status], text: status },
      `  ${title}${waits === '' ? '' : `  ${waits}`}`,
    );
  }

  #printOpen(item: InboxItem, now: number): void {
    this.#output.tell(
      { type: 'open', ...item },
      dim(`${formatClock(now)}  `),
      `${item.runId}  `,
      yellow(
        `${nameSubject(item)} ${isOpenItem(item.call) ? HEADINGS[item.call.kind] : 'waits for a sign-in'}`,
      ),
      `  ${describeDifference(item)}`,
    );
  }

  #printClosed({ runId, call, kind }: InboxItem, now: number): void {
    const name = call.kind === 'review' ? 'the answer' : nameOf(call);
    this.#output.tell(
      { type: 'closed', kind, runId, callId: callIdOf(call) },
      dim(`${formatClock(now)}  `),
      `${runId}  ${name} is no longer open`,
    );
  }
}

function isUnended({ status }: RunRecord): boolean {
  return status === 'running' || status === 'waiting';
}

function differs(before: RunRecord, after: RunRecord): boolean {
  return before.status !== after.status || describeWait(before) !== describeWait(after);
}
