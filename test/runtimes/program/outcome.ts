import type { Settled } from 'agentchart';

/** What checks expect, and what came of them; for the programs and for what starts them. */

/** A customer asks this, and `../stand-in.ts` answers. */
export const QUESTION = 'Refund order A-1001.';
export const ANSWER = 'I refunded 42 dollars for order A-1001 to Ada.';

/** What came of each check: `ok`, or the error's text. */
export type Outcome = Readonly<Record<string, string>>;

const LONGEST_CHECK_MS = 60_000;

/** Returns `ok`, or what went wrong. */
export async function report(check: Promise<void>): Promise<string> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new Error(`The check did not end within ${LONGEST_CHECK_MS} ms.`);
    timer = setTimeout(() => reject(error), LONGEST_CHECK_MS);
  });
  try {
    await Promise.race([check, late]);
    return 'ok';
  } catch (error) {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Throws unless both values have the same JSON. */
export function expectSame(found: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(found), JSON.stringify(expected)];
  if (left !== right) throw new Error(`Expected ${right}, got ${left}.`);
}

/** Throws unless the run ended with the answer, and each tool was called once. */
export function expectAnswer(settled: Settled | undefined): void {
  if (settled?.status !== 'finished') throw new Error(`Not finished: ${JSON.stringify(settled)}`);
  expectSame(settled.text, ANSWER);
  expectSame(settled.results.map(({ name }) => name).sort(), ['find_customer', 'find_order', 'refund']);
}
