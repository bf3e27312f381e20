import type { RunSummary } from '../data/request.ts';

/** What the buttons of the list choose by. `in doubt`: waits for the decision of a doubt. */
export const STATUSES = ['waiting', 'in doubt', 'running', 'finished', 'failed', 'cancelled'] as const;

/** Members that are empty choose all. In the address they have the same names. */
export type RunFilter = {
  status: string;
  text: string;
  agent: string;
  model: string;
  error: string;
  /** Each as `NAME=VALUE`. */
  labels: readonly string[];
  /** Created in the last that many hours. */
  hours: string;
  /** Empty for those that wait first, then the newest. */
  sort: string;
  order: string;
  /** Threads, sessions and sub-agents take the row of one run. */
  isFolded: boolean;
};

export function readRunFilter(query: URLSearchParams): RunFilter {
  const of = (name: string): string => query.get(name) ?? '';
  const labels = query.getAll('label');
  return {
    status: of('status'),
    text: of('text'),
    agent: of('agent'),
    model: of('model'),
    error: of('error'),
    labels,
    hours: of('hours'),
    sort: of('sort'),
    order: of('order'),
    isFolded: of('folded') !== 'false' && !labels.some(label => label.startsWith('session=')),
  };
}

/** Whether the list has all runs, in any order. */
export function choosesAll({ status, text, agent, model, error, labels, hours }: RunFilter): boolean {
  return status + text + agent + model + error + labels.join('') + hours === '';
}

/** The requests whose runs make the list, one after the other. */
export function listQueries(filter: RunFilter): URLSearchParams[] {
  const { status, sort, order } = filter;
  if (status === '' && sort === '')
    return [listQuery(filter, { status: 'waiting' }), listQuery(filter, { waiting: 'false' })];
  const query = listQuery(filter, status === 'in doubt' ? { doubt: 'true' } : { status });
  if (sort !== '') query.set('sort', sort);
  if (order !== '') query.set('order', order);
  return [query];
}

/** The filter without its status, for its totals. */
export function totalsParams(filter: RunFilter): URLSearchParams {
  return listQuery(filter, {});
}

function listQuery(filter: RunFilter, more: Readonly<Record<string, string>>): URLSearchParams {
  const { text, agent, model, error, labels, hours, isFolded } = filter;
  const since = Number(hours) > 0 ? String(startOf(Number(hours))) : '';
  const members = { text, agent, model, errorCode: error, since, folded: isFolded ? 'true' : '', ...more };
  const query = new URLSearchParams(Object.entries(members).filter(([, value]) => value !== ''));
  for (const label of labels) query.append('label', label);
  return query;
}

const MINUTE_MS = 60_000;

/** The address of the list of all runs that were created in the last hours, with more of its parameters. */
export function runsSince(hours: number, more: Readonly<Record<string, string>>): string {
  return `/runs?${new URLSearchParams({ hours: String(hours), ...more, folded: 'false' })}`;
}

/** To the minute, so that the pages of one list have one start. */
export function startOf(hours: number): number {
  return Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS - hours * 60 * MINUTE_MS;
}

/** The status that a list shows: those in doubt are apart from the others that wait. */
export function listedStatus({ status, waitsFor }: RunSummary): string {
  return status === 'waiting' && waitsFor?.some(({ type }) => type === 'doubt') ? 'in doubt' : status;
}
