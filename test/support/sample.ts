import { test } from 'vitest';

/** Whether this run takes every case, instead of the samples of `npm test`: `npm run test:all`. */
export const TAKES_ALL = process.env.AGENTCHART_TESTS === 'all';

/** A test that runs only in `npm run test:all`. */
export const inAll = test.runIf(TAKES_ALL);

/** Selects samples and random cases: the same in each run, unless `AGENTCHART_SEED` sets another integer. */
export const SAMPLE_SEED = Number(process.env.AGENTCHART_SEED ?? 1);

/** `count` of the cases, evenly spread. All cases in `npm run test:all`. */
export function sampled<Case>(cases: readonly Case[], count: number): Case[] {
  if (TAKES_ALL || count >= cases.length) return [...cases];
  return cases.filter((_, index) => ((index + SAMPLE_SEED) * count) % cases.length < count);
}

/** As `sampled`, with one in `share` of the cases of each kind, and at least one of each. */
export function sampledByKind<Case>(
  cases: readonly Case[],
  share: number,
  kindOf: (one: Case) => string,
): Case[] {
  const kinds = Map.groupBy(cases, kindOf);
  return [...kinds.values()].flatMap(kind => sampled(kind, Math.ceil(kind.length / share)));
}

/** How many random cases a property gets: `count`, ten times as many in `npm run test:all`. */
export function randomCases(count: number): number {
  return TAKES_ALL ? 10 * count : count;
}
