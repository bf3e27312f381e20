import type { Page } from '../protocol/store.ts';

/** All there is, in one page. */
export const WHOLE: Page = { entries: Number.POSITIVE_INFINITY, chars: Number.POSITIVE_INFINITY };

/** The rows of one page; `measure` gives the characters of a row. Takes no more rows than the page has. */
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
