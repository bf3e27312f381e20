/** The bounds of a back-off, in ms: the first wait, and the longest (default: unbounded). */
export type BackOff = { baseMs: number; maxMs?: number };

/**
 * The wait after a number of failures in a row (1 for the first), in ms: doubles from `baseMs` up to `maxMs`. With
 * `random`, a number from 0 to 1, up to one half is taken off, so that callers that failed together do not return
 * together.
 */
export function backOffMs(failures: number, { baseMs, maxMs = Infinity }: BackOff, random = 1): number {
  const full = Math.min(maxMs, baseMs * 2 ** (failures - 1));
  return Math.round(full / 2 + (full / 2) * random);
}
