import { EngineError } from '../protocol/error.ts';
import { canonicalJson, type JsonValue, omitUndefined, toJson } from '../protocol/json.ts';
import { hasLabels, type Labels } from '../protocol/listing/label.ts';
import { LEAST_INDEXED, MOST_SCANNED, searchedNamesOf, wordsIn } from '../protocol/listing/words.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import {
  type FeedQuery,
  type ListFilter,
  listFilterSchema,
  type Page,
  type Progress,
  type RunRecord,
} from '../protocol/store.ts';
import { threadKeyOf } from './run-record.ts';

const DEFAULT_LIMIT = 50;

/**
 * A place in a list: the last run of a page. `value` is what the runs are sorted by; `runId` may be in the form that the
 * store sorts by.
 */
type ListPlace = { value: SortValue; createdAt: number; runId: string };

export type SortValue = string | number;

/** A validated filter. `text` is folded like titles (`foldText`); `after` is the place in the cursor. */
export type ListQuery = Omit<ListFilter, 'cursor' | 'onDamaged'> &
  Required<Pick<ListFilter, 'labels' | 'sort' | 'order' | 'skip' | 'limit'>> & {
    after?: ListPlace;
    /** Those of `text`. */
    words?: readonly string[];
    cursorAt(place: ListPlace): string;
  };

const NAMES = optionNames<ListFilter>()(
  'status agent labels thread latest folded doubt waiting model errorCode parent text since before sort order skip limit cursor onDamaged',
);

export function readListFilter(given: ListFilter): ListQuery {
  refuseUnknownOptions('store.list', given, NAMES, 'input-invalid');
  const { onDamaged: _, ...filter } = given;
  const parsed = listFilterSchema.safeParse(omitUndefined(filter));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalidFilter(`${issue?.path.join('.') || 'a member'}: ${issue?.message}`);
  }
  const { cursor, limit = DEFAULT_LIMIT, skip = 0, ...conditions } = parsed.data;
  const { labels = {}, text, sort = 'created', order = 'desc', ...rest } = conditions;
  if (cursor !== undefined && skip > 0) throw invalidFilter('skip: not together with cursor');
  const key = canonicalJson(toJson({ ...rest, labels, sort, order, text: text ?? null }));
  return {
    ...rest,
    labels,
    sort,
    order,
    skip,
    limit,
    ...(text !== undefined && { text: foldText(text), words: wordsIn(text) }),
    ...(cursor !== undefined && { after: readCursor(cursor, key) }),
    cursorAt: ({ value, createdAt, runId }) => encode([value, createdAt, runId, key]),
  };
}

type Listed = Pick<
  RunRecord,
  | 'status'
  | 'agent'
  | 'labels'
  | 'thread'
  | 'place'
  | 'parent'
  | 'title'
  | 'createdAt'
  | 'updatedAt'
  | 'runId'
>;

/** How a store that looks at each run reads what it has of one. `progressOf`: `undefined` without progress from an append. */
export type ListedRuns<Item> = {
  recordOf(item: Item): Listed;
  progressOf(item: Item): Progress | undefined;
  /** The words that were kept with its commits. */
  wordsOf(item: Item): readonly string[];
};

/** Returns the page of the query, and its cursor if more runs match. */
export function choosePage<Item>(
  items: readonly Item[],
  query: ListQuery,
  read: ListedRuns<Item>,
): { page: Item[]; next?: string } {
  const { skip, limit, sort, order, after } = query;
  const sign = order === 'asc' ? 1 : -1;
  const compare = (one: ListPlace, other: ListPlace) => sign * comparePlaces(one, other);
  const found = new First<{ item: Item; place: ListPlace }>(skip + limit + 1, (one, other) =>
    compare(one.place, other.place),
  );
  for (const item of match(items, query, read)) {
    const place = placeOf(item, sort, read);
    if (after === undefined || (place.runId !== after.runId && compare(place, after) > 0))
      found.add({ item, place });
  }
  const { sorted } = found;
  const page = sorted.slice(skip, skip + limit);
  const last = page.at(-1);
  const more = last !== undefined && sorted.length > skip + limit;
  return { page: page.map(({ item }) => item), ...(more && { next: query.cursorAt(last.place) }) };
}

/** The first of many in an order: what comes after them is not sorted. */
class First<Value> {
  readonly #most: number;
  readonly #compare: (one: Value, other: Value) => number;
  #kept: Value[] = [];
  /** Once as many are kept: the last of them. */
  #last: Value | undefined;

  constructor(most: number, compare: (one: Value, other: Value) => number) {
    this.#most = most;
    this.#compare = compare;
  }

  add(value: Value): void {
    if (this.#last !== undefined && this.#compare(value, this.#last) > 0) return;
    this.#kept.push(value);
    if (this.#kept.length < 2 * this.#most) return;
    this.#kept = this.sorted;
    this.#last = this.#kept.at(-1);
  }

  get sorted(): Value[] {
    return this.#kept.toSorted(this.#compare).slice(0, this.#most);
  }
}

/** Returns the runs that match the query, in any order, and ignores its cursor. */
export function match<Item>(items: readonly Item[], query: ListQuery, read: ListedRuns<Item>): Item[] {
  const {
    status,
    agent,
    labels,
    thread,
    latest,
    folded,
    doubt,
    waiting,
    model,
    errorCode,
    parent,
    words,
    since,
    before,
  } = query;
  const { recordOf, progressOf } = read;
  const wantsLabels = Object.keys(labels).length > 0;
  const left = folded === true ? foldRuns(items, labels, read) : items;
  const inThread = thread === undefined ? left : left.filter(item => isIn(recordOf(item), thread));
  const found = latest === true ? latestOf(inThread, read) : inThread;
  const matching = found.filter(item => {
    const record = recordOf(item);
    return (
      (status === undefined || record.status === status) &&
      (agent === undefined || record.agent === agent) &&
      (parent === undefined || [parent].flat().includes(record.parent?.runId ?? '')) &&
      (since === undefined || record.createdAt >= since) &&
      (before === undefined || record.createdAt < before) &&
      (!wantsLabels || hasLabels(record.labels, labels)) &&
      (model === undefined || progressOf(item)?.model === model) &&
      (errorCode === undefined || progressOf(item)?.errorCode === errorCode) &&
      (waiting === undefined || record.status !== 'waiting') &&
      (doubt === undefined || (record.status === 'waiting' && isInDoubt(progressOf(item))))
    );
  });
  if (words === undefined) return matching;
  if (latest !== true) return search(matching, words, read);
  const placed = inThread.filter(item => {
    const { place, labels: own } = recordOf(item);
    return place !== undefined && hasLabels(own, labels);
  });
  const keys = new Set(search(placed, words, read).map(item => threadKeyOf(recordOf(item))));
  return matching.filter(item => keys.has(threadKeyOf(recordOf(item))));
}

/** Of a list of threads with words: the runs of which one has to have the words, for a thread to be in it. */
export function placedRuns({ labels, thread, words, cursorAt }: ListQuery): ListQuery {
  const rest = omitUndefined({ thread, words });
  return { labels, sort: 'created', order: 'desc', skip: 0, limit: 1, cursorAt, ...rest };
}

function search<Item>(items: readonly Item[], words: readonly string[], read: ListedRuns<Item>): Item[] {
  const { recordOf, wordsOf } = read;
  return scanned(items, words, read).filter(item => {
    const texts = [searchedNamesOf(recordOf(item)), ...wordsOf(item)];
    return words.every(word => texts.some(text => text.includes(word)));
  });
}

/** The runs that are searched for words of which no index has one: the newest. */
function scanned<Item>(
  items: readonly Item[],
  words: readonly string[],
  { recordOf }: ListedRuns<Item>,
): readonly Item[] {
  if (items.length <= MOST_SCANNED || words.some(isIndexed)) return items;
  return items
    .toSorted((one, other) => (isNewer(recordOf(one), recordOf(other)) ? -1 : 1))
    .slice(0, MOST_SCANNED);
}

export function isIndexed(word: string): boolean {
  return [...word].length >= LEAST_INDEXED;
}

/** Whether a run with this progress waits for the decision of a doubt, if it waits. */
export function isInDoubt(progress: Progress | undefined): boolean {
  return progress?.waitsFor?.some(({ type }) => type === 'doubt') ?? false;
}

function placeOf<Item>(item: Item, sort: ListQuery['sort'], read: ListedRuns<Item>): ListPlace {
  const { createdAt, runId } = read.recordOf(item);
  return { value: sortedBy(item, sort, read), createdAt, runId };
}

function sortedBy<Item>(
  item: Item,
  sort: ListQuery['sort'],
  { recordOf, progressOf }: ListedRuns<Item>,
): SortValue {
  switch (sort) {
    case 'created':
      return recordOf(item).createdAt;
    case 'updated':
      return recordOf(item).updatedAt;
    case 'title':
      return foldText(recordOf(item).title);
    case 'agent':
      // As databases have it.
      return JSON.stringify(recordOf(item).agent).slice(1, -1);
    case 'status':
      return recordOf(item).status;
    case 'worked':
      return progressOf(item)?.activeMs ?? 0;
    case 'cost':
      return progressOf(item)?.cost ?? 0;
    case 'tokens':
      return progressOf(item)?.tokens ?? 0;
  }
}

function comparePlaces(one: ListPlace, other: ListPlace): number {
  return (
    compareValues(one.value, other.value) ||
    one.createdAt - other.createdAt ||
    (one.runId < other.runId ? -1 : 1)
  );
}

function compareValues(one: SortValue, other: SortValue): number {
  if (typeof one === 'number' && typeof other === 'number') return one - other;
  return comparePoints(String(one), String(other));
}

/** Compares by code points, as databases compare UTF-8; in UTF-16, surrogates come before U+E000. */
export function comparePoints(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let index = 0; index < length; index += 1) {
    const [left, right] = [one.charCodeAt(index), other.charCodeAt(index)];
    if (left === right) continue;
    const areHigh = left >= 0xd800 && right >= 0xd800;
    return areHigh && left >= 0xe000 !== right >= 0xe000 ? right - left : left - right;
  }
  return one.length - other.length;
}

function isIn({ thread, labels }: Listed, wanted: NonNullable<ListQuery['thread']>): boolean {
  if (typeof wanted === 'string') return thread === wanted;
  return thread === wanted.id && canonicalJson({ ...labels }) === canonicalJson({ ...wanted.labels });
}

/** `threadKeyOf` the runs of the thread that is listed, if it is one. */
export function threadKeyIn({ thread }: Pick<ListQuery, 'thread'>): string | undefined {
  return typeof thread === 'object' ? threadKeyOf({ thread: thread.id, labels: thread.labels }) : undefined;
}

function latestOf<Item>(items: readonly Item[], { recordOf }: ListedRuns<Item>): Item[] {
  const byThread = new Map<string, { item: Item; place: number }>();
  for (const item of items) {
    const { thread, labels, place } = recordOf(item);
    if (thread === undefined || place === undefined) continue;
    const key = canonicalJson([thread, { ...labels }]);
    if (place > (byThread.get(key)?.place ?? 0)) byThread.set(key, { item, place });
  }
  return [...byThread.values()].map(({ item }) => item);
}

/** The value of the label of the runs that lists fold into the newest one. */
export function sessionOf({ labels }: Pick<RunRecord, 'labels'>): string | undefined {
  return Object.hasOwn(labels, 'session') ? labels.session : undefined;
}

/** See `folded` of `listFilterSchema`. */
function foldRuns<Item>(items: readonly Item[], wanted: Labels, read: ListedRuns<Item>): Item[] {
  const { recordOf } = read;
  const wantsLabels = Object.keys(wanted).length > 0;
  const inThreads: Item[] = [];
  const bySession = new Map<string, Item>();
  const others: Item[] = [];
  const take = (item: Item, record: Listed) => {
    const session = sessionOf(record);
    const known = session === undefined ? undefined : bySession.get(session);
    if (session === undefined) others.push(item);
    else if (known === undefined || isNewer(record, recordOf(known))) bySession.set(session, item);
  };
  for (const item of items) {
    const record = recordOf(item);
    if (record.parent !== undefined || (wantsLabels && !hasLabels(record.labels, wanted))) continue;
    if (record.thread === undefined) take(item, record);
    else inThreads.push(item);
  }
  for (const item of latestOf(inThreads, read)) take(item, recordOf(item));
  return [...others, ...bySession.values()];
}

function isNewer(one: Listed, other: Listed): boolean {
  return (
    one.createdAt - other.createdAt > 0 || (one.createdAt === other.createdAt && one.runId > other.runId)
  );
}

export function foldText(text: string): string {
  return text.toWellFormed().toLowerCase();
}

function readCursor(cursor: string, key: string): ListPlace {
  const [value, createdAt, runId, filter] = decode(cursor);
  const isValue = typeof value === 'number' || typeof value === 'string';
  if (!isValue || typeof createdAt !== 'number' || typeof runId !== 'string')
    throw invalidFilter('cursor: not from a list');
  if (filter !== key) throw invalidFilter('cursor: from a list with another filter or order');
  return { value, createdAt, runId };
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
