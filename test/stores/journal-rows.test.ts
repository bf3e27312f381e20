import { expect, test } from 'vitest';
import { readTexts } from '../../stores/postgres/journal.ts';
import { sumOfEntry } from '../../stores/sql/checksum.ts';
import type { Row } from '../../stores/sql/rows.ts';

/** The rows of a run in PostgreSQL whose record says that its last entry is `last`. */
function rowsOf(texts: readonly string[], last: number): Row[] {
  let prior = 'start';
  const rows = texts.map((json, index) => {
    const row = { base: 0, seq: index + 1, count: 1, chars: json.length, prior, json, state_hash: null };
    prior = sumOfEntry(prior, json);
    return { ...row, sum: prior };
  });
  return rows.map(row => ({ ...row, last, last_sum: prior }));
}

test('a journal in PostgreSQL without its last rows is damaged, and a page of it is not', async () => {
  const texts = ['{"n":1}', '{"n":2}'];
  const read = async (last: number, entries = 10) =>
    await readTexts(async () => rowsOf(texts, last), 'run', 0, { entries, chars: 1_000 });
  expect((await read(2)).map(({ text }) => text)).toEqual(texts);
  expect(await read(3, 2)).toHaveLength(2);
  await expect(read(3)).rejects.toMatchObject({ code: 'journal-damaged', details: { seq: 3 } });
});
