import { describe, expect, test } from 'vitest';
import type { FaultPoint } from '../../../engine/host/host.ts';
import { findFaults, runDrill } from '../../support/engine/crash-drill.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../../support/sample.ts';

type Fault = { deaths: readonly number[]; faults: string[] };

/**
 * Runs all scenarios. Returns their faults, how many left calls in doubt, and the scenarios that crash
 * while the last process reconciles a call.
 */
async function drillAll(
  scenarios: readonly (readonly number[])[],
  durability: 'strict' | 'relaxed' = 'strict',
) {
  const faulty: Fault[] = [];
  const fired = new Map<FaultPoint, number>();
  const reconciling: number[][] = [];
  let doubted = 0;
  for (const deaths of scenarios) {
    const drill = await runDrill({ deaths, durability });
    for (const point of drill.deaths) fired.set(point, (fired.get(point) ?? 0) + 1);
    if (drill.doubted.size > 0) doubted += 1;
    for (const [index, point] of drill.passed.entries())
      if (point.startsWith('reconcile.')) reconciling.push([...deaths, index + 1]);
    const faults = await findFaults(drill);
    if (faults.length > 0) faulty.push({ deaths, faults });
  }
  return { faulty, fired, doubted, reconciling };
}

let once: ReturnType<typeof drillAll> | undefined;
/** A crash at each fault point of a run. */
const crashOnce = (points: number) => (once ??= drillAll(upTo(points).map(at => [at])));

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('E3: no unreported second execution', () => {
  test('without a crash every call happens once and none is in doubt', async () => {
    const drill = await runDrill();
    expect(await findFaults(drill)).toEqual([]);
    expect([...drill.doubted]).toEqual([]);
    expect(drill.processes).toBe(1);
    for (const { keys } of drill.world.values()) expect(keys).toHaveLength(1);
  });

  test('a crash at any point loses nothing and repeats nothing unreported', async () => {
    const { passed } = await runDrill();
    const { faulty, fired, doubted } = await crashOnce(passed.length);
    expect(faulty).toEqual([]);
    expect([...fired.values()].reduce((sum, count) => sum + count, 0)).toBe(passed.length);
    expect(doubted).toBeGreaterThan(0);
    for (const point of new Set(passed)) expect(fired.get(point), point).toBeGreaterThan(0);
  });

  /** `npm test` takes a sixtieth of the pairs, and every crash during a reconcile. */
  test('a second crash during recovery loses nothing and repeats nothing unreported', async () => {
    const { passed } = await runDrill();
    const { reconciling } = await crashOnce(passed.length);
    const pairs = upTo(passed.length).flatMap(first =>
      upTo(passed.length - first)
        .filter(second => (first * 5 + second * 3) % 13 === 0)
        .filter(second => TAKES_ALL || (first + second + SAMPLE_SEED) % 60 === 0)
        .map(second => [first, second]),
    );
    const scenarios = [...pairs, ...reconciling];
    const { faulty, fired } = await drillAll(scenarios);
    expect(faulty).toEqual([]);
    expect(fired.get('reconcile.before')).toBeGreaterThan(0);
    expect(fired.get('reconcile.after')).toBeGreaterThan(0);
    const crashes = [...fired.values()].reduce((sum, count) => sum + count, 0);
    expect(crashes).toBeGreaterThan(scenarios.length * 1.9);
  });

  test('the drill finds duplicate calls when tools do not wait for the barrier', async () => {
    const { passed } = await runDrill({ durability: 'relaxed' });
    const starts = upTo(passed.length).filter(at => TAKES_ALL || passed[at - 1]?.startsWith('tool.'));
    const { faulty } = await drillAll(
      starts.map(at => [at]),
      'relaxed',
    );
    expect(faulty.flatMap(({ faults }) => faults).some(fault => fault.includes('happened 2 times'))).toBe(
      true,
    );
  });
});
