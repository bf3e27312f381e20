import { setTimeout as delay } from 'node:timers/promises';
import type { Store } from '../../protocol/store.ts';
import { begin } from '../../stores/conformance/check.ts';
import { makeIdler } from './bench-agent.ts';
import { openStore } from './open-stores.ts';

const IDLE = { active: 1_000, resting: 10_000, measuredMs: 10_000 } as const;

/** How many runs of either kind there were, and the calls of the store a second and for each active run. */
export type Idle = { active: number; resting: number; callsPerRun: number };

/** Drives 1,000 runs that only wait for their tool, beside 10,000 that rest, and counts the calls of the store. */
export async function measureIdle(address: string): Promise<Idle> {
  const inner = openStore(address);
  const rest = { events: [], status: 'waiting' } as const;
  for (let run = 0; run < IDLE.resting; run += 100)
    await Promise.all(
      Array.from({ length: 100 }, (_, index) => inner.create(begin(`r${run + index}`), undefined, rest)),
    );
  let calls = 0;
  const store = countCalls(inner, () => {
    calls += 1;
  });
  let begun = 0;
  for (; begun < IDLE.active; begun += 50)
    await Promise.all(
      Array.from({ length: 50 }, async () => {
        const run = await makeIdler(store).start('Wait.');
        void run.settled().catch(() => {});
      }),
    );
  await delay(5_000);
  calls = 0;
  await delay(IDLE.measuredMs);
  const { running: active, waiting: resting } = (await inner.count?.()) ?? { running: 0, waiting: 0 };
  await inner.close();
  return { active, resting, callsPerRun: calls / (IDLE.measuredMs / 1000) / IDLE.active };
}

function countCalls(store: Store, onCall: () => void): Store {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => {
        onCall();
        return Reflect.apply(member, target, args);
      };
    },
  });
}
