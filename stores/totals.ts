import { EngineError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import {
  MOST_TOTALS,
  type Totals,
  type TotalsQuery,
  type TotalsRow,
  totalsQuerySchema,
} from '../protocol/listing/totals.ts';
import type { TotalsFilter } from '../protocol/store.ts';
import {
  comparePoints,
  isInDoubt,
  type ListedRuns,
  type ListQuery,
  match,
  readListFilter,
} from './list-query.ts';

/** A member that runs are grouped by; a label by its name. */
export type Group =
  | { member: 'status' | 'agent' | 'model' | 'errorCode' }
  | { member: 'label'; name: string };

/** What to add up: the runs of `list`, by `groups`, and by the time of their creation in steps of `every` ms. */
export type SumQuery = { list: ListQuery; groups: readonly Group[]; every: number | undefined };

const OF_PAGES = ['sort', 'order', 'skip', 'limit', 'cursor', 'onDamaged'];

/** Throws `input-invalid`. */
export function readTotalsQuery(filter: TotalsFilter, query: TotalsQuery): SumQuery {
  for (const name of OF_PAGES)
    if (Object.hasOwn(filter, name)) throw invalid(`${name}: has no meaning for totals`);
  const parsed = totalsQuerySchema.safeParse(omitUndefined({ ...query }));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalid(`${issue?.path.join('.') || 'a member'}: ${issue?.message}`);
  }
  const { by = [], every } = parsed.data;
  const groups = by.map(
    (group): Group =>
      typeof group === 'string' ? { member: group } : { member: 'label', name: group.label },
  );
  if (new Set(groups.map(({ member }) => member)).size < groups.length)
    throw invalid('by: expected each member once, and at most one label');
  return { list: readListFilter(filter), groups, every };
}

function invalid(fault: string): EngineError {
  return new EngineError('input-invalid', `The totals cannot be read: ${fault}.`);
}

/** `rows` may be one more than fit. */
export function toTotals(rows: readonly TotalsRow[]): Totals {
  return rows.length > MOST_TOTALS ? { rows: rows.slice(0, MOST_TOTALS), more: true } : { rows: [...rows] };
}

/** Adds up the runs of a store that looks at each. */
export function addUp<Item>(items: readonly Item[], query: SumQuery, read: ListedRuns<Item>): Totals {
  const { list, groups, every } = query;
  const rows = new Map<string, TotalsRow>();
  if (groups.length === 0 && every === undefined) rows.set('[null]', emptyRow());
  for (const item of match(items, list, read)) {
    const record = read.recordOf(item);
    const progress = read.progressOf(item);
    const at = every === undefined ? undefined : Math.floor(record.createdAt / every) * every;
    const values = groups.map(group => memberOf(group, record, progress));
    const key = JSON.stringify([at ?? null, ...values]);
    const row = rows.get(key) ?? { ...emptyRow(), ...groupKeysOf(groups, values, at) };
    rows.set(key, row);
    row.runs += 1;
    if (record.status === 'waiting' && isInDoubt(progress)) row.doubts += 1;
    row.turns += progress?.turns ?? 0;
    row.tokens += progress?.tokens ?? 0;
    row.cached += progress?.cached?.tokens ?? 0;
    row.cachedOf += progress?.cached?.of ?? 0;
    row.cost += progress?.cost ?? 0;
    row.activeMs += progress?.activeMs ?? 0;
  }
  return toTotals([...rows.values()].sort(orderOf(groups)));
}

function memberOf<Item>(
  group: Group,
  { status, agent, labels }: ReturnType<ListedRuns<Item>['recordOf']>,
  progress: ReturnType<ListedRuns<Item>['progressOf']>,
): string | undefined {
  switch (group.member) {
    case 'status':
      return status;
    case 'agent':
      return agent;
    case 'label':
      return Object.hasOwn(labels, group.name) ? labels[group.name] : undefined;
    default:
      return progress?.[group.member];
  }
}

/** The members that tell a row from others. `values` are those of the groups. */
export function groupKeysOf(
  groups: readonly Group[],
  values: readonly (string | undefined)[],
  at: number | undefined,
) {
  const members = Object.fromEntries(groups.map(({ member }, index) => [member, values[index]]));
  return omitUndefined<{ at?: number } & Partial<Record<Group['member'], string>>>({
    ...omitUndefined({ at }),
    ...members,
  });
}

function emptyRow() {
  return { runs: 0, turns: 0, tokens: 0, cached: 0, cachedOf: 0, cost: 0, activeMs: 0, doubts: 0 };
}

function orderOf(groups: readonly Group[]) {
  return (one: TotalsRow, other: TotalsRow): number => {
    const byTime = (other.at ?? 0) - (one.at ?? 0);
    if (byTime !== 0) return byTime;
    for (const { member } of groups) {
      const [left, right] = [one[member], other[member]];
      if (left === right) continue;
      if (left === undefined || right === undefined) return left === undefined ? -1 : 1;
      return comparePoints(asStored(member, left), asStored(member, right));
    }
    return 0;
  };
}

/** As databases have it. */
function asStored(member: Group['member'], value: string): string {
  return member === 'label' ? value : JSON.stringify(value).slice(1, -1);
}
