import { EngineError } from '../protocol/error.ts';
import type { FeedQuery, Page } from '../protocol/store.ts';

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
const DEFAULT_LIMIT = 100;
const MOST_ENTRIES = 1_000;

export function toCursor({ position, seq }: FeedPlace): string {
  return `${position}.${seq}`;
}

/** Returns the place and the limit, from 1 to 1,000, of a query. Throws `input-invalid` for an unknown cursor. */
export function readFeedQuery({ after, limit = DEFAULT_LIMIT }: FeedQuery): FeedPlace & { limit: number } {
  const found = after === undefined ? undefined : /^(\d{1,15})\.(\d{1,15})$/.exec(after);
  if (found === null) throw new EngineError('input-invalid', 'The cursor is not one of a feed.');
  const place = found === undefined ? START : { position: Number(found[1]), seq: Number(found[2]) };
  return { ...place, limit: Math.max(1, Math.min(limit, MOST_ENTRIES)) };
}
