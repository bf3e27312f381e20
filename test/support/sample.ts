/** Whether this run takes every case, instead of the samples of `npm test`: `npm run test:all`. */
export const TAKES_ALL = process.env.AGENTCHART_TESTS === 'all';

/** An integer that changes daily. `vitest.config.ts` sets and prints it. */
export const SAMPLE_SEED = Number(process.env.AGENTCHART_SEED ?? 0);

/** A rotating sample of `count` cases, which covers all cases over the days. All cases in `npm run test:all`. */
export function sampled<Case>(cases: readonly Case[], count: number): Case[] {
  if (TAKES_ALL || count >= cases.length) return [...cases];
  const first = SAMPLE_SEED * count;
  return cases.filter((_, index) => (index - (first % cases.length) + cases.length) % cases.length < count);
}
