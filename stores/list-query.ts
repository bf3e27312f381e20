import { EngineError } from '../protocol/error.ts';
import { canonicalJson, type JsonValue, omitUndefined, toJson } from '../protocol/json.ts';
import { hasLabels } from '../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import {
  type FeedQuery,
  type ListFilter,
  listFilterSchema,
  type Page,
  type RunRecord,
} from '../protocol/store.ts';
import { threadKeyOf } from './run-record.ts';

const DEFAULT_LIMIT = 50;

/** A place in a list: the last run of a page. `runId` may be in the form that the store sorts by. */
type ListPlace = { createdAt: number; runId: string };

/** A validated filter. `text` is folded like titles (`foldText`); `after` is the place in the cursor. */
export type ListQuery = Omit<ListFilter, 'cursor' | 'onDamaged'> &
  Required<Pick<ListFilter, 'labels' | 'order' | 'limit'>> & {
    after?: ListPlace;
    cursorAt(place: ListPlace): string;
  };

const NAMES = optionNames<ListFilter>()(
  'status agent labels thread latest parent text since before order limit cursor onDamaged',
);

export function readListFilter(given: ListFilter): ListQuery {
  refuseUnknownOptions('store.list', given, NAMES, 'input-invalid');
  const { onDamaged: _, ...filter } = given;
  const parsed = listFilterSchema.safeParse(omitUndefined(filter));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalidFilter(`${issue?.path.join('.') || 'a member'}: ${issue?.message}`);
  }
  const { cursor, limit = DEFAULT_LIMIT, ...conditions } = parsed.data;
  const { labels = {}, text, order = 'desc', ...rest } = conditions;
  const key = canonicalJson(toJson({ ...rest, labels, order, text: text ?? null }));
  return {
    ...rest,
    labels,
    order,
    limit,
    ...(text !== undefined && { text: foldText(text) }),
    ...(cursor !== undefined && { after: readCursor(cursor, key) }),
    cursorAt: ({ createdAt, runId }) => encode([createdAt, runId, key]),
  };
}

type Listed = Pick<
  RunRecord,
  'status' | 'agent' | 'labels' | 'thread' | 'place' | 'parent' | 'title' | 'createdAt' | 'runId'
>;

/** Returns the matching records after the place of the cursor, in the order of the list; `limit` is not applied. */
export function choose<Record extends Listed>(records: readonly Record[], query: ListQuery): Record[] {
  const { status, agent, labels, thread, latest, parent, text, since, before, order, after } = query;
  const inThread = thread === undefined ? records : records.filter(record => isIn(record, thread));
  const found = latest === true ? latestOf(inThread) : inThread;
  const sign = order === 'asc' ? 1 : -1;
  const compare = (a: ListPlace, b: ListPlace) =>
    sign * (a.createdAt - b.createdAt || (a.runId < b.runId ? -1 : 1));
  return found
    .filter(
      record =>
        (status === undefined || record.status === status) &&
        (agent === undefined || record.agent === agent) &&
        (parent === undefined || record.parent?.runId === parent) &&
        (since === undefined || record.createdAt >= since) &&
        (before === undefined || record.createdAt < before) &&
        hasLabels(record.labels, labels) &&
        (text === undefined || foldText(record.title).includes(text)) &&
        (after === undefined || (record.runId !== after.runId && compare(record, after) > 0)),
    )
    .sort(compare);
}

function isIn({ thread, labels }: Listed, wanted: NonNullable<ListQuery['thread']>): boolean {
  if (typeof wanted === 'string') return thread === wanted;
  return thread === wanted.id && canonicalJson({ ...labels }) === canonicalJson({ ...wanted.labels });
}

/** `threadKeyOf` the runs of the thread that is listed, if it is one. */
export function threadKeyIn({ thread }: Pick<ListQuery, 'thread'>): string | undefined {
  return typeof thread === 'object' ? threadKeyOf({ thread: thread.id, labels: thread.labels }) : undefined;
}

function latestOf<Record extends Listed>(records: readonly Record[]): Record[] {
  const byThread = new Map<string, Record>();
  for (const record of records) {
    const { thread, labels, place } = record;
    if (thread === undefined || place === undefined) continue;
    const key = canonicalJson([thread, { ...labels }]);
    if (place > (byThread.get(key)?.place ?? 0)) byThread.set(key, record);
  }
  return [...byThread.values()];
}

export function foldText(text: string): string {
  return text.toWellFormed().toLowerCase();
}

function readCursor(cursor: string, key: string): ListPlace {
  const [createdAt, runId, filter] = decode(cursor);
  if (typeof createdAt !== 'number' || typeof runId !== 'string')
    throw invalidFilter('cursor: not from a list');
  if (filter !== key) throw invalidFilter('cursor: from a list with another filter or order');
  return { createdAt, runId };
}

function encode(value: JsonValue): string {
  const ascii = JSON.stringify(value).replaceAll(
    /[\u007f-\uffff]/g,
    unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return btoa(ascii).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function decode(cursor: string): unknown[] {
  try {
    const value: unknown = JSON.parse(atob(cursor.replaceAll('-', '+').replaceAll('_', '/')));
    return Array.isArray(value) ? value : [];
  } catch {
    return [];
  }
}

function invalidFilter(fault: string): EngineError {
  return new EngineError('input-invalid', `The filter of the list is invalid: ${fault}.`);
}

export const WHOLE: Page = { entries: Number.POSITIVE_INFINITY, chars: Number.POSITIVE_INFINITY };

/** Returns the rows of one page; `measure` returns the characters of a row. Consumes no further rows. */
export function takePage<Row>(
  rows: Iterable<Row>,
  { entries, chars }: Page,
  measure: (row: Row) => number,
): Row[] {
  const taken: Row[] = [];
  let size = 0;
  for (const row of rows) {
    taken.push(row);
    size += measure(row);
    if (taken.length >= entries || size >= chars) break;
  }
  return taken;
}

/** A place in a feed: the number of an append in the store, and the seq of the last entry of it that was read. */
export type FeedPlace = { position: number; seq: number };

const START: FeedPlace = { position: 0, seq: 0 };
const MOST_ENTRIES = 1_000;

export function toCursor({ position, seq }: FeedPlace): string {
  return `${position}.${seq}`;
}

/** Returns the place and the limit, from 1 to 1,000, of a query. Throws `input-invalid` for an unknown cursor. */
export function readFeedQuery({ after, limit = 100 }: FeedQuery): FeedPlace & { limit: number } {
  const found = after === undefined ? undefined : /^(\d{1,15})\.(\d{1,15})$/.exec(after);
  if (found === null) throw new EngineError('input-invalid', 'The cursor is not one of a feed.');
  const place = found === undefined ? START : { position: Number(found[1]), seq: Number(found[2]) };
  return { ...place, limit: Math.max(1, Math.min(limit, MOST_ENTRIES)) };
}
