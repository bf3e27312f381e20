import { callIdOf, isOpenItem } from '../../../protocol/run-view.ts';
import { type InboxItem, labelsOf } from '../data/request.ts';
import { subjectOf } from '../model/subject-of.ts';
import { describeInputs } from '../render/describe-call.ts';
import { formatPreview } from '../render/format.ts';

export const KINDS: Readonly<Record<InboxItem['kind'], string>> = {
  approval: 'approve',
  result: 'answer',
  doubt: 'in doubt',
  question: 'question',
  review: 'review',
  'sign-in': 'sign in',
};

/** What the list shows: an item, its rank when it got its place, and whether it has been resolved since. */
export type InboxLine = { key: string; item: InboxItem; rank: number; isGone: boolean };

/** Names an item, also after its input changed. */
export function inboxKeyOf({ runId, call }: InboxItem): string {
  return rowKey({ runId, callId: callIdOf(call) });
}

export const rowKey = ({ runId, callId }: { runId: string; callId: string }): string => `${runId}/${callId}`;

export function nameOf(call: InboxItem['call']): string {
  return isOpenItem(call) ? subjectOf(call).name : call.server;
}

export function addressOf({ runId, call }: Pick<InboxItem, 'runId' | 'call'>, query = ''): string {
  return `/inbox/${encodeURIComponent(runId)}/${encodeURIComponent(callIdOf(call))}${query}`;
}

/** In the order of work: doubts, then what `isMine` says waits for this person; each by its longest wait. */
export function sortRows(items: readonly InboxItem[], isMine: (item: InboxItem) => boolean): InboxLine[] {
  const rankOf = (item: InboxItem): number => {
    if (item.kind === 'doubt') return 0;
    return isMine(item) ? 1 : 2;
  };
  return items
    .map(item => ({ key: inboxKeyOf(item), item, rank: rankOf(item), isGone: false }))
    .sort((one, other) => one.rank - other.rank || one.item.since - other.item.since);
}

/** Rows that follow each other; `title` if several are of one family of runs. */
export type RowGroup = { key: string; title?: string; rows: readonly InboxLine[] };

/** Rows of one rank and one family of runs stand together, at the place of the first. */
export function groupRows(rows: readonly InboxLine[]): RowGroup[] {
  const families = Map.groupBy(rows, ({ rank, item }) => `${rank} ${item.rootId}`);
  return [...families].map(([key, members]) => ({
    key,
    rows: members,
    ...(members.length > 1 && { title: members[0]?.item.title || members[0]?.item.agent || '' }),
  }));
}

/**
 * What tells a row from the others: the reason for its approval, or else its values. A reason that another row gives for a
 * call of the same tool tells nothing.
 */
export function describeRows(rows: readonly InboxLine[]): Map<string, string> {
  const reasonOf = ({ item: { kind, call } }: InboxLine): string =>
    (kind === 'approval' && call.reason) || '';
  const shared = Map.groupBy(rows, row => `${nameOf(row.item.call)} ${reasonOf(row)}`);
  return new Map(
    rows.map(row => {
      const reason = reasonOf(row);
      const isAlone = shared.get(`${nameOf(row.item.call)} ${reason}`)?.length === 1;
      return [row.key, reason !== '' && isAlone ? reason : describeItem(row.item)];
    }),
  );
}

const LONGEST = 160;

function describeItem({ call }: InboxItem): string {
  if (!isOpenItem(call)) return call.reason;
  if (call.kind === 'question') return call.questions.map(({ message }) => message).join(' · ');
  if (call.kind === 'review') return formatPreview(subjectOf(call).value, LONGEST);
  return describeInputs(call.input) || (call.reason ?? '');
}

/** Which rows to show, as in the address. A label is `NAME=VALUE`. */
export type InboxFilter = {
  text: string;
  agent: string;
  tool: string;
  label: string;
  kind: string;
  mine: boolean;
};

export function readFilter(query: URLSearchParams): InboxFilter {
  const read = (name: string): string => query.get(name) ?? '';
  return {
    text: read('text'),
    agent: read('agent'),
    tool: read('tool'),
    label: read('label'),
    kind: read('kind'),
    mine: query.get('mine') === 'true',
  };
}

export function filterRows(
  rows: readonly InboxLine[],
  filter: InboxFilter,
  isMine: (item: InboxItem) => boolean,
): InboxLine[] {
  const { text, agent, tool, label, kind, mine } = filter;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(({ item }) => {
    const { call } = item;
    if (agent !== '' && item.agent !== agent) return false;
    if (tool !== '' && nameOf(call) !== tool) return false;
    if (label !== '' && !labelsOf(item).includes(label)) return false;
    if (kind !== '' && item.kind !== kind) return false;
    if (mine && !isMine(item)) return false;
    if (words.length === 0) return true;
    const all = JSON.stringify([item.agent, item.title, labelsOf(item), item.startedBy, call]).toLowerCase();
    return words.every(word => all.includes(word));
  });
}
