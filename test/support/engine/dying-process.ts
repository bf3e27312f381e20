import type { FaultPoint } from '../../../engine/host/host.ts';
import type { Store } from '../../../protocol/store.ts';
import { ManualHost } from '../../../testing/manual-host.ts';

const NEVER = new Promise<never>(() => {});

/** A process of a test that dies at a fault point of its driver: from then on it does nothing and receives nothing. */
export type DyingProcess = {
  host: ManualHost;
  /** The store as the process has it: no call returns once the process has died. */
  store: Store;
  /** The point at which the process died; `null` while it lives. */
  death(): FaultPoint | null;
  /** Resolves when the process dies. */
  died: Promise<void>;
};

/** Makes a process that dies at its `deathAt`-th fault point, counted from 1. `now` and `name` are those of its host. */
export function makeDyingProcess(
  store: Store,
  { now, name, deathAt }: { now: number; name: string; deathAt: number },
): DyingProcess {
  let points = 0;
  let death: FaultPoint | null = null;
  const { promise: died, resolve } = Promise.withResolvers<void>();
  const host: ManualHost = new ManualHost({
    now,
    name,
    reach: point => {
      points += 1;
      if (death === null && points < deathAt) return;
      death ??= point;
      resolve();
      throw new Error('the process has ended');
    },
  });
  return { host, store: endWith(store, () => death !== null), death: () => death, died };
}

function endWith(store: Store, hasDied: () => boolean): Store {
  return new Proxy({} as Store, {
    get: (own, name) => {
      const member = Reflect.get(own, name) ?? Reflect.get(store, name, store);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => (hasDied() ? NEVER : member.apply(store, args));
    },
  });
}
