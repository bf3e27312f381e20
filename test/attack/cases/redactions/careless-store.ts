import { setTimeout as delay } from 'node:timers/promises';
import { redactRun } from '../../../../engine/journal/redaction/redact-run.ts';
import type { Store } from '../../../../protocol/store.ts';

/** How long a redaction is written after it was planned, in ms: others are planned meanwhile. */
const LATE_MS = 150;

/** The control of the attack: the store, as if it compared no redactions where what was read is written. */
export function carelessStore(store: Store): Store {
  const redactionsOf = async (runId: string) => (await store.get(runId))?.redactions ?? 0;
  const careless: Store = {
    ...store,
    redact: (runId, options) => redactRun(careless, runId, options),
    read(runId, after, page) {
      const { redactions: _, ...bounds } = page ?? { entries: Number.MAX_SAFE_INTEGER, chars: 1e12 };
      return store.read(runId, after, bounds);
    },
    append: async (runId, guard, ...rest) =>
      await store.append(runId, { ...guard, redactions: await redactionsOf(runId) }, ...rest),
    saveSnapshot: async (runId, snapshot) =>
      await store.saveSnapshot(runId, { ...snapshot, redactions: await redactionsOf(runId) }),
    create: async (event, claim, { source: _, ...rest } = { events: [], status: 'running' }) =>
      await store.create(event, claim, rest),
    async rewrite(runId, redaction) {
      await delay(LATE_MS);
      const { seq: after = 0, redactions = 0 } = (await store.get(runId)) ?? {};
      return await store.rewrite(runId, { ...redaction, after, redactions });
    },
  };
  return careless;
}
