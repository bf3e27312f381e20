export type PlannedCall = { name: string; input: Record<string, string | string[]> };

/** What the stand-in says and then calls; without calls, the text is its answer. */
export type PlannedTurn = { text: string; calls: PlannedCall[] };

/** The most calls of one turn. */
export const BATCH = 40;

export function answer(text: string): PlannedTurn {
  return { text, calls: [] };
}
