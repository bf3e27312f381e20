/** The bounds of a back-off, in ms: the first wait, and the longest (default: unbounded). */
export type BackOff = { baseMs: number; maxMs?: number };

/** The wait after `failures` in a row, in ms: doubles up to `maxMs`; `random` takes off up to one half. */
export function backOffMs(failures: number, { baseMs, maxMs = Infinity }: BackOff, random = 1): number {
  const full = Math.min(maxMs, baseMs * 2 ** (failures - 1));
  return Math.round(full / 2 + (full / 2) * random);
}
