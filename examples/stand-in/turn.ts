type PlannedCall = { name: string; input: Record<string, string | string[]> };

/** The text and the calls of a turn; without calls, the text is the answer. */
export type PlannedTurn = { text: string; calls: PlannedCall[] };

/** The maximum of calls in one turn. */
export const BATCH = 40;

/** Returns a turn that ends the run with an answer. */
export function answer(text: string): PlannedTurn {
  return { text, calls: [] };
}
