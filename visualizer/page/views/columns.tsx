import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { NOTES_ID } from '../../../protocol/notes.ts';
import { address, setQuery } from '../app/router.ts';
import type { RunSummary } from '../data/request.ts';
import { formatAgo, formatDay } from '../render/format.ts';
import { StatusBadge } from '../ui/button.tsx';
import { Safe } from '../ui/text.tsx';
import { LabelChips } from './label-chips.tsx';
import { listedStatus } from './run-filter.ts';

export type Column = {
  name: string;
  title: string;
  /** Of its track in the grid. */
  width: string;
  /** What the server sorts by, and which order a first press asks for. */
  sort?: readonly [by: string, first: 'asc' | 'desc'];
  /** The width of the window, in px, from which it is shown by default; `never`: only if it is chosen. */
  from?: number | 'never';
  cell(run: RunSummary): ComponentChildren;
};

const number = (value: number, text: string): ComponentChildren => (value > 0 ? text : '');

/** In their order. `title` is always there. */
export const COLUMNS: readonly Column[] = [
  { name: 'status', title: 'Status', width: '88px', sort: ['status', 'desc'], cell: drawStatus },
  { name: 'title', title: 'Title', width: 'minmax(120px, 3fr)', sort: ['title', 'asc'], cell: () => null },
  {
    name: 'labels',
    title: 'Labels',
    width: 'minmax(0, 1.5fr)',
    from: 1_300,
    cell: run => <LabelChips run={run} />,
  },
  {
    name: 'agent',
    title: 'Agent',
    width: 'minmax(0, 1fr)',
    sort: ['agent', 'asc'],
    cell: ({ agent }) => <Safe text={agent} />,
  },
  {
    name: 'model',
    title: 'Model',
    width: 'minmax(0, 1fr)',
    from: 'never',
    cell: ({ model = '' }) => <Safe text={model} />,
  },
  { name: 'why', title: 'Why', width: 'minmax(0, 1.5fr)', cell: run => <Safe text={describeState(run)} /> },
  {
    name: 'turns',
    title: 'Turns',
    width: '56px',
    from: 'never',
    cell: ({ turns }) => number(turns, formatNumber(turns)),
  },
  {
    name: 'worked',
    title: 'At work',
    width: '72px',
    sort: ['worked', 'desc'],
    from: 1_200,
    cell: ({ activeMs }) => formatDuration(activeMs),
  },
  {
    name: 'cost',
    title: 'Cost',
    width: '72px',
    sort: ['cost', 'desc'],
    cell: ({ cost }) => number(cost, formatCost(cost)),
  },
  {
    name: 'tokens',
    title: 'Tokens',
    width: '84px',
    sort: ['tokens', 'desc'],
    from: 1_000,
    cell: ({ tokens }) => number(tokens, formatNumber(tokens)),
  },
  {
    name: 'created',
    title: 'Created',
    width: '96px',
    sort: ['created', 'desc'],
    from: 'never',
    cell: ({ createdAt }) => drawTime(createdAt, ''),
  },
  {
    name: 'changed',
    title: 'Changed',
    width: '96px',
    sort: ['updated', 'desc'],
    cell: ({ updatedAt, createdAt }) => drawTime(updatedAt, `Started ${formatDay(createdAt)}`),
  },
];

const KEY = 'agentchart.columns';

const kept = signal(localStorage.getItem(KEY));

/** The names of the columns that the address has, or those saved in this browser; `null` for the default. */
export function chosenColumns(): readonly string[] | null {
  const text = address.value.searchParams.get('columns') ?? kept.value;
  return text === null ? null : text.split(',');
}

export function chooseColumns(names: readonly string[] | null): void {
  if (address.peek().searchParams.has('columns')) setQuery({ columns: null });
  kept.value = names === null ? null : names.join(',');
  if (names === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, names.join(','));
}

/** The columns of a window of this width, in px. */
export function shownColumns(width: number): Column[] {
  const chosen = chosenColumns();
  return COLUMNS.filter(({ name, from = 0 }) => {
    if (name === 'title') return true;
    return chosen === null ? from !== 'never' && width >= from : chosen.includes(name);
  });
}

function drawStatus(run: RunSummary): ComponentChildren {
  if (run.runId.startsWith(NOTES_ID)) return <span class="status is-cancelled">notes</span>;
  return <StatusBadge status={listedStatus(run)} />;
}

function drawTime(at: number, title: string): ComponentChildren {
  return <time title={title || formatDay(at)}>{formatAgo(at, Date.now())}</time>;
}

function describeState({ status, waitsFor, errorCode, incomplete, state }: RunSummary): string {
  if (status === 'failed') return errorCode ?? '';
  if (status === 'finished') return incomplete === undefined ? '' : `incomplete: ${incomplete.reason}`;
  if (status !== 'waiting') return status === 'running' ? state : '';
  const calls = (waitsFor ?? []).map(({ type, name }) => `${WAITS[type]} ${name}`);
  return calls.length === 0 ? state.replace('resting.', '') : [...new Set(calls)].join(', ');
}

const WAITS = {
  approval: 'approve',
  result: 'result of',
  doubt: 'in doubt:',
  question: 'answer',
  review: 'review',
  'sign-in': 'sign in at',
} as const;
