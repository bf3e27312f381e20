import type { Page } from '../protocol/store.ts';

/** A page without limits. */
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
