import { labelsSchema } from '../../protocol/listing/label.ts';
import { cutWords, MOST_WORDS, searchedNamesOf } from '../../protocol/listing/words.ts';
import { type Transaction, unescapeText } from '../sql/rows.ts';

/**
 * The groups of three characters of a text, as a parameter of the type of the column `grams`: numbers, of which several groups
 * may have one.
 */
export function hashGrams(text: string): string {
  const points = Array.from(text, character => character.codePointAt(0) ?? 0);
  const hashes = new Set<number>();
  for (let at = 2; at < points.length; at += 1) {
    const [first = 0, second = 0, third = 0] = [points[at - 2], points[at - 1], points[at]];
    hashes.add((Math.imul(Math.imul(first, FACTOR) + second, FACTOR) + third) | 0);
  }
  return `{${[...hashes].join(',')}}`;
}

const FACTOR = 0x1f123bb5;

/** The parameters of a row of `texts`: how long it is, the text, and its groups. */
export function textValues(text: string): [number, string, string] {
  return [text.length, text, hashGrams(text)];
}

/** A part of a statement that inserts the texts of the run in `made`; `rows` by seq, with parameters from `first` on. */
export function insertTextsSql(rows: readonly { seq: number; text: string }[], first: number) {
  const values = rows.flatMap(({ seq, text }) => [seq, ...textValues(text)]);
  const parts = rows.map((_, index) => {
    const [seq, chars, text, grams] = [0, 1, 2, 3].map(at => `$${first + 4 * index + at}`);
    return `SELECT run, ${seq}::int8, ${chars}::int4, ${text}::text, ${grams}::int4[] FROM made`;
  });
  return {
    part: `,
    worded AS (INSERT INTO @texts (run, seq, chars, text, grams) ${parts.join(' UNION ALL ')})`,
    values,
  };
}

/**
 * The parts of a statement that add words to a run: `from` has its `run` and `seq`, three parameters from `first` on are
 * those of `textValues`.
 */
export function addWordsSql(from: string, seq: string, first: number): string {
  const [chars, text, grams] = [first, first + 1, first + 2].map(number => `$${number}`);
  return `,
    trimmed AS (
      DELETE FROM @texts t USING (
        SELECT o.run, o.seq, sum(o.chars) OVER (ORDER BY o.seq DESC) AS total
        FROM @texts o JOIN ${from} ON o.run = ${from}.run WHERE o.seq > 0) kept
      WHERE t.run = kept.run AND t.seq = kept.seq AND kept.total + ${chars}::int4 > ${MOST_WORDS}),
    worded AS (
      INSERT INTO @texts (run, seq, chars, text, grams)
      SELECT run, ${seq}, ${chars}::int4, ${text}, ${grams}::int4[] FROM ${from})`;
}

/** Replaces what searches find a run by. `names`: its names, if they changed. */
export async function rewriteTexts(
  query: Transaction,
  { run, seq, words }: { run: number; seq: number; words: string },
  names: Parameters<typeof searchedNamesOf>[0] | undefined,
): Promise<void> {
  const text = cutWords(words);
  await query(`DELETE FROM @texts WHERE run = $1 AND ($2 OR seq > 0)`, run, names !== undefined);
  const rows = [
    ...(names === undefined ? [] : [{ seq: 0, text: searchedNamesOf(names) }]),
    ...(text === '' ? [] : [{ seq, text }]),
  ];
  for (const row of rows)
    await query(
      `INSERT INTO @texts (run, seq, chars, text, grams) VALUES ($1, $2, $3, $4, $5::int4[])`,
      ...[run, row.seq, ...textValues(row.text)],
    );
}

/** What the names of a run are made of, as its row has them. */
export async function readNames(query: Transaction, run: number) {
  const [row] = await query(
    `SELECT run_id, title, labels::text AS labels, thread FROM @runs WHERE run = $1`,
    run,
  );
  return {
    runId: unescapeText(String(row?.run_id)),
    title: String(row?.title),
    labels: labelsSchema.parse(JSON.parse(String(row?.labels))),
    ...(typeof row?.thread === 'string' && { thread: unescapeText(row.thread) }),
  };
}
