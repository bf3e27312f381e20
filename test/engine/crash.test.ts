import { describe, expect, test } from 'vitest';
import type { FaultPoint } from '../../engine/host.ts';
import { findFaults, runDrill } from './crash-drill.ts';

type Fault = { deaths: readonly number[]; faults: string[] };

/** Every scenario's faults, and how often something came of it that people had to look at. */
async function drillAll(
  scenarios: readonly (readonly number[])[],
  durability: 'strict' | 'relaxed' = 'strict',
) {
  const faulty: Fault[] = [];
  const fired = new Map<FaultPoint, number>();
  let doubted = 0;
  for (const deaths of scenarios) {
    const drill = await runDrill({ deaths, durability });
    for (const point of drill.deaths) fired.set(point, (fired.get(point) ?? 0) + 1);
    if (drill.doubted.size > 0) doubted += 1;
    const faults = await findFaults(drill);
    if (faults.length > 0) faulty.push({ deaths, faults });
  }
  return { faulty, fired, doubted };
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('E3: no silent second run', () => {
  test('without a crash every call happens once and nobody is asked', async () => {
    const drill = await runDrill();
    expect(await findFaults(drill)).toEqual([]);
    expect([...drill.doubted]).toEqual([]);
    expect(drill.processes).toBe(1);
    for (const { keys } of drill.world.values()) expect(keys).toHaveLength(1);
  });

  test('a crash at any point loses nothing and does nothing twice in silence', async () => {
    const { passed } = await runDrill();
    const { faulty, fired, doubted } = await drillAll(upTo(passed.length).map(at => [at]));
    expect(faulty).toEqual([]);
    expect([...fired.values()].reduce((sum, count) => sum + count, 0)).toBe(passed.length);
    expect(doubted).toBeGreaterThan(0);
    for (const point of new Set(passed)) expect(fired.get(point), point).toBeGreaterThan(0);
  });

  test('nor do two crashes, the second while the run recovers from the first', async () => {
    const { passed } = await runDrill();
    const scenarios = upTo(passed.length).flatMap(first =>
      upTo(passed.length - first)
        .filter(second => (first * 5 + second * 3) % 13 === 0)
        .map(second => [first, second]),
    );
    const { faulty, fired } = await drillAll(scenarios);
    expect(faulty).toEqual([]);
    expect(fired.get('reconcile.before')).toBeGreaterThan(0);
    expect(fired.get('reconcile.after')).toBeGreaterThan(0);
    const crashes = [...fired.values()].reduce((sum, count) => sum + count, 0);
    expect(crashes).toBeGreaterThan(scenarios.length * 1.9);
  });

  test('the same drill finds doubled calls when tools do not wait for the barrier', async () => {
    const { passed } = await runDrill({ durability: 'relaxed' });
    const { faulty } = await drillAll(
      upTo(passed.length).map(at => [at]),
      'relaxed',
    );
    expect(faulty.flatMap(({ faults }) => faults).some(fault => fault.includes('happened 2 times'))).toBe(
      true,
    );
  });
});
