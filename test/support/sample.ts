/** Whether this run takes every case that a usual run samples: `npm run test:all`. */
export const TAKES_ALL = process.env.AGENTCHART_TESTS === 'all';

/** A whole number that changes by day. `vitest.config.ts` sets and prints it. */
export const SAMPLE_SEED = Number(process.env.AGENTCHART_SEED ?? 0);

/** `count` of the cases: each in its turn, so that some days take them all. All of them in `npm run test:all`. */
export function sampled<Case>(cases: readonly Case[], count: number): Case[] {
  if (TAKES_ALL || count >= cases.length) return [...cases];
  const first = SAMPLE_SEED * count;
  return cases.filter((_, index) => (index - (first % cases.length) + cases.length) % cases.length < count);
}
