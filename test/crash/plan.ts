import type { Result } from './run-matrix.ts';
import type { CrashPoint, Engine, Kill, Scenario } from './scenario.ts';

/** Runs of each agent without a kill, which list the points where it can be killed. */
export function planCensus(engine: Engine, agents: readonly { name: string }[]): Scenario[] {
  return agents.map(({ name }) => ({ engine, agent: name, kills: [] }));
}

/** A scenario for every occurrence of every point that a run passed, after the kills that the run already had. */
export function planNext(results: readonly Result[]): Scenario[] {
  return results.flatMap(({ scenario, passed }) =>
    listKills(passed).map(kill => ({ ...scenario, kills: [...scenario.kills, kill] })),
  );
}

function listKills(passed: readonly CrashPoint[]): Kill[] {
  const counts = new Map<CrashPoint, number>();
  return passed.map(point => {
    const nth = (counts.get(point) ?? 0) + 1;
    counts.set(point, nth);
    return { point, nth };
  });
}

/**
 * `count` scenarios, spread evenly, the same for the same seed. Every point that is the last kill of a
 * scenario, and not in `tried`, is the last kill of at least one in the sample.
 */
export function sample(
  scenarios: readonly Scenario[],
  count: number,
  seed: number,
  tried: Iterable<CrashPoint> = [],
): Scenario[] {
  const size = scenarios.length / Math.min(count, scenarios.length);
  const random = makeRandom(seed);
  const taken = new Set<Scenario>();
  for (let start = 0; start < scenarios.length - 1e-6; start += size) {
    const scenario = scenarios[Math.min(scenarios.length - 1, Math.floor(start + random() * size))];
    if (scenario !== undefined) taken.add(scenario);
  }
  const covered = new Set([...tried, ...[...taken].map(lastPoint)]);
  for (const scenario of scenarios) {
    if (covered.has(lastPoint(scenario))) continue;
    covered.add(lastPoint(scenario));
    taken.add(scenario);
  }
  return [...taken];
}

function lastPoint({ kills }: Scenario): CrashPoint | undefined {
  return kills.at(-1)?.point;
}

/** Returns a generator of numbers 0 ≤ n < 1, with the same sequence for the same seed. */
export function makeRandom(seed: number): () => number {
  let state = (seed * 2_654_435_761 + 1) % 2_147_483_647;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
