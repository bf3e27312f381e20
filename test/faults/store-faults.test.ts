import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { type FaultDrill, type Recovery, runFaultDrill } from '../support/faults/fault-drill.ts';
import { FAULT_KINDS, type Fault, type Method } from '../support/faults/fault-store.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../support/sample.ts';
import { makeFile } from '../support/stores/make-file.ts';

/**
 * `npm run test:all` tests each kind of fault at each call, with each recovery and on both stores, in minutes.
 * Otherwise each call gets one kind in `SHARE`, and each kind one call in `SHARE`.
 */
const ALL = TAKES_ALL;
const SHARE = 5;
const RECOVERIES: Recovery[] = ['same-process', 'later-process'];

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeAll(() => void process.on('unhandledRejection', note));
afterAll(() => void process.off('unhandledRejection', note));
afterEach(() => expect(unhandled.splice(0)).toEqual([]));

type Place = { method: Method; nth: number };
type Case = { fault: Fault; recovery: Recovery };

/** Every store call of the first process, or of process `attempt`, in a drill. */
function placesIn({ counts }: FaultDrill, attempt = 0): Place[] {
  return [...(counts[attempt] ?? [])].flatMap(([method, count]) =>
    Array.from({ length: count }, (_, index) => ({ method, nth: index + 1 })),
  );
}

/** Faults at every place, alternating between the recoveries. */
function casesAt(places: readonly Place[]): Case[] {
  return places.flatMap((place, at) =>
    FAULT_KINDS.filter((_, number) => ALL || (at + number + SAMPLE_SEED) % SHARE === 0).flatMap(
      (kind, number) =>
        RECOVERIES.filter((_, index) => ALL || index === ((at >> 1) + number) % 2).map(recovery => ({
          fault: { ...place, kind },
          recovery,
        })),
    ),
  );
}

/** Everything that went wrong except for the planned faults. */
function judge(drill: FaultDrill, fired: number): string[] {
  const surprises = drill.reported.filter(({ error, fired }) => error !== fired);
  return [
    ...drill.faults,
    ...surprises.map(({ error }) => `unexpected error: ${String(error)}`),
    ...(drill.fired === fired ? [] : [`${drill.fired} of ${fired} faults happened`]),
    ...unhandled.splice(0).map(reason => `unhandled: ${String(reason)}`),
  ];
}

describe('a store that fails once', () => {
  test('in any call and any way surfaces the error, and the run continues without loss or repetition', async () => {
    const clean = await runFaultDrill(memory(), 'same-process');
    expect(clean).toMatchObject({ settled: { status: 'finished' }, faults: [], reported: [] });
    const places = placesIn(clean);
    const reported = new Map<Method, number>();
    const cases = casesAt(places);
    for (const { fault, recovery } of cases) {
      const drill = await runFaultDrill(memory(), recovery, fault);
      expect(judge(drill, 1), `${JSON.stringify(fault)}, ${recovery}`).toEqual([]);
      if (fault.kind === 'outage') expect(drill.reported, JSON.stringify(fault)).toHaveLength(1);
      if (drill.reported.length > 0) reported.set(fault.method, (reported.get(fault.method) ?? 0) + 1);
    }
    // The other faults happen where no caller waits; the next access to the run recovers from them.
    for (const method of ['create', 'append'] as const) {
      const tried = cases.filter(({ fault }) => fault.method === method).length;
      expect(reported.get(method), method).toBeGreaterThan(tried * 0.7);
    }
    for (const method of ['read', 'renew', 'release', 'claim', 'get'] as const)
      expect(reported.get(method), method).toBeGreaterThan(0);
    expect(places.length).toBeGreaterThan(80);
  });

  test.each([4, 9, 15])('and once more during recovery (first at append %i) is also survived', async nth => {
    const first = { method: 'append', nth, kind: 'outage' } as const;
    const { counts } = await runFaultDrill(memory(), 'later-process', first);
    expect(counts).toHaveLength(2);
    const second = placesIn({ counts } as FaultDrill, 1);
    const cases = casesAt(second).filter((_, index) => ALL || (index + nth) % 5 === 0);
    expect(cases.length).toBeGreaterThan(8);
    for (const { fault } of cases) {
      const drill = await runFaultDrill(memory(), 'later-process', first, fault);
      expect(judge(drill, 2), JSON.stringify(fault)).toEqual([]);
    }
  });

  test('is also survived on sqlite', async () => {
    const clean = await runFaultDrill(sqlite(makeFile()), 'same-process');
    const cases = casesAt(placesIn(clean)).filter((_, index) => ALL || index % 14 === 0);
    expect(cases.length).toBeGreaterThan(8);
    for (const { fault, recovery } of cases) {
      const store = sqlite(makeFile());
      const drill = await runFaultDrill(store, recovery, fault);
      await store.close();
      expect(judge(drill, 1), `${JSON.stringify(fault)}, ${recovery}`).toEqual([]);
    }
  });
});
