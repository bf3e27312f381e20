import { describeBar, findOpenBar } from '../../machines/duties.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { formatNumber } from '../../protocol/listing/format-number.ts';
import type { Answer } from '../../protocol/open/answer.ts';
import type { Person } from '../../protocol/run-command.ts';
import { type InboxItem, isOpenItem } from '../../protocol/run-view.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { describeShownCall } from '../../visualizer/page/render/describe-call.ts';
import { describeWait } from '../commands/runs.ts';
import { formatDistance, plural } from '../render/format.ts';
import { bold, dim, type Output, yellow } from '../render/output.ts';
import { HEADINGS, STATUS_STYLES, showOpen } from '../render/show-open.ts';
import type { Line } from './screen.ts';

/** All that a decision needs: what is open as `show` prints it, its run, and what the run has spent. */
export function describeItem(item: InboxItem, record: RunRecord | undefined, now: number): Line[] {
  const { call, title, agent, runId, since } = item;
  const fact = (label: string, text: string): Line => [dim(`  ${label.padEnd(12)}`), text];
  const [heading = [], ...facts]: Line[] = isOpenItem(call)
    ? collect(output => showOpen(output, call, HEADINGS[call.kind], now))
    : [[yellow(call.reason)], ...(call.url === undefined ? [] : [fact('address', call.url)])];
  return [
    heading,
    fact('run', `${title} (${runId})`),
    fact('agent', agent),
    fact('waits', `since ${new Date(since).toISOString()} (${formatDistance(since, now)})`),
    ...(record === undefined ? [] : [fact('spent', describeSpent(record))]),
    ...facts,
  ];
}

function collect(show: (output: Pick<Output, 'line'>) => void): Line[] {
  const lines: Line[] = [];
  show({ line: (...segments) => void lines.push(segments) });
  return lines;
}

export function describeRecord(record: RunRecord, now: number): Line[] {
  const { runId, title, agent, status, state, why, labels, createdAt, updatedAt, errorCode, parent } = record;
  const fact = (label: string, text: string | undefined): Line[] =>
    text === undefined || text === '' ? [] : [[dim(`  ${label.padEnd(12)}`), text]];
  return [
    [bold(title || runId)],
    [dim(`  ${'status'.padEnd(12)}`), { style: STATUS_STYLES[status], text: status }],
    ...fact('state', state),
    ...fact('why', why),
    ...fact('waits for', describeWait(record)),
    ...fact('error', errorCode),
    ...fact('agent', agent),
    ...fact('run', runId),
    ...fact('started by', parent === undefined ? undefined : `${parent.callId} of ${parent.runId}`),
    ...fact(
      'labels',
      Object.entries(labels)
        .map(([name, value]) => `${name}=${value}`)
        .join(' '),
    ),
    ...fact('begun', formatDistance(createdAt, now)),
    ...fact('last event', formatDistance(updatedAt, now)),
    ...fact('spent', describeSpent(record)),
    [''],
    [dim(`  agentchart show ${runId}`)],
  ];
}

function describeSpent({ turns, tokens, cost }: RunRecord): string {
  const money = cost > 0 ? `, cost ${Number(cost.toPrecision(3))}` : '';
  return `${plural(turns, 'turn')}, ${formatNumber(tokens)} tokens${money}`;
}

/** `refund of $42.00 for B-2`, `the answer`, or the tool server of a sign-in. */
export function nameSubject({ call }: InboxItem): string {
  if (call.kind === 'sign-in') return call.server;
  return call.kind === 'review' ? 'the answer' : describeShownCall(call.name, call.input);
}

/** What a press asks before the answer is given. */
export function describeQuestion(item: InboxItem, answer: Answer): string {
  const where = item.title === '' ? '' : ` in “${shorten(item.title)}”`;
  const verb = answer.type === 'approve' ? 'Approve' : (VERBS[item.kind] ?? 'Reject');
  const because =
    answer.type === 'reject' && answer.reason !== undefined ? `, because “${shorten(answer.reason)}”` : '';
  return `${verb} ${nameSubject(item)}${where}${because}?`;
}

const VERBS: Readonly<Partial<Record<InboxItem['kind'], string>>> = {
  question: 'Decline the question of',
  review: 'Send back',
};

/** What is told once the answer has been taken. */
export function describeDone(item: InboxItem, { type }: Answer): string {
  const done = type === 'reject' ? (REJECTED[item.kind] ?? 'Rejected') : 'Approved';
  return `${done}: ${nameSubject(item)}.`;
}

const REJECTED: Readonly<Partial<Record<InboxItem['kind'], string>>> = {
  question: 'Declined',
  review: 'Sent back',
};

/** Why this answer cannot be given with one key, for people; `null` if it can. */
export function findHurdle(item: InboxItem, type: 'approve' | 'reject', person: Person): string | null {
  const { kind, call } = item;
  if (call.kind === 'sign-in') return `${call.reason} Press e.`;
  if (kind === 'doubt' || kind === 'result' || (kind === 'question' && type === 'approve'))
    return `${OTHERWISE[kind]} Press e.`;
  if (call.kind === 'result') return null;
  const bar = findOpenBar(call, omitUndefined({ by: person.name, groups: person.groups }));
  return bar === null ? null : `You cannot decide this: ${describeBar(bar, person.name)}.`;
}

const OTHERWISE = {
  doubt: 'It is not known whether this happened: say so, or try again.',
  result: 'This call needs its result.',
  question: 'This tool asks something.',
} as const;

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60).trimEnd()}…` : text;
}
