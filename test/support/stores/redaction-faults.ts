import type { Store } from '../../../protocol/store.ts';

/** A store that is wrong in one way: `change` replaces some of its methods, and the check `fails` finds it. */
export type Fault = { that: string; fails: string; change(store: Store): Partial<Store> };

async function redactionsOf(store: Store, runId: string): Promise<number> {
  return (await store.get(runId))?.redactions ?? 0;
}

/** Stores that compare no redactions in one of their methods, or do not count them. */
export const REDACTION_FAULTS: readonly Fault[] = [
  {
    that: 'counts no redactions',
    fails: 'every redaction counts in the record, also one that changes no entry',
    change: store => ({
      get: async runId => {
        const record = await store.get(runId);
        return record && { ...record, redactions: 0 };
      },
    }),
  },
  {
    that: 'redacts as planned on an older journal of the same length',
    fails: 'a redaction planned before another one is a conflict, although the journal is as long',
    change: store => ({
      rewrite: async (runId, redaction) =>
        store.rewrite(runId, { ...redaction, redactions: await redactionsOf(store, runId) }),
    }),
  },
  {
    that: 'redacts twice at once what was planned on one journal',
    fails: 'of two redactions planned on the same journal, one is a conflict and changes nothing',
    change: store => ({
      rewrite: async (runId, redaction) => {
        const result = await store.rewrite(runId, redaction);
        if (result.type === 'appended') return result;
        const { seq: after = 0, redactions = 0 } = (await store.get(runId)) ?? {};
        return store.rewrite(runId, { ...redaction, after, redactions });
      },
    }),
  },
  {
    that: 'reads pages of different journals for one load',
    fails: 'the pages of a load that a redaction separates are refused, and all others are of one journal',
    change: store => ({
      read: (runId, after, page) => {
        const { redactions: _, ...bounds } = page ?? { entries: 1e9, chars: 1e9 };
        return store.read(runId, after, bounds);
      },
    }),
  },
  {
    that: 'appends after what was read before a redaction',
    fails: 'an append after what was read before a redaction is a conflict',
    change: store => ({
      append: async (runId, guard, ...rest) =>
        store.append(runId, { ...guard, redactions: await redactionsOf(store, runId) }, ...rest),
    }),
  },
  {
    that: 'lets who claims append what it read before',
    fails: 'a claim after a redaction is granted, and its holder appends only as it has read the run since',
    change: store => ({
      append: async (runId, guard, ...rest) => {
        const redactions = 'epoch' in guard ? await redactionsOf(store, runId) : (guard.redactions ?? 0);
        return store.append(runId, { ...guard, redactions }, ...rest);
      },
    }),
  },
  {
    that: 'lets a holder renew an expired lease after a redaction',
    fails: 'a redaction ends a lease that has expired: its holder cannot renew it, and an open run is woken',
    change: () => ({ renew: async () => [] }),
  },
  {
    that: 'saves snapshots of what was read before a redaction',
    fails: 'a snapshot of what was read before a redaction is dropped',
    change: store => ({
      saveSnapshot: async (runId, snapshot) =>
        store.saveSnapshot(runId, { ...snapshot, redactions: await redactionsOf(store, runId) }),
    }),
  },
  {
    that: 'stores blobs of what was read before a redaction',
    fails: 'a blob of what was read before a redaction is refused, and one of something new is stored',
    change: store => ({ putBlob: (runId, digest, text) => store.putBlob(runId, digest, text) }),
  },
  {
    that: 'shares a text that was read before a redaction',
    fails: 'a text of a turn that was read before a redaction is not shared',
    change: store => {
      const { deltas } = store;
      if (deltas === undefined) return {};
      const save: typeof deltas.save = async (runId, text, now) =>
        deltas.save(runId, { ...text, redactions: await redactionsOf(store, runId) }, now);
      return { deltas: { ...deltas, save } };
    },
  },
  {
    that: 'creates copies of runs that were redacted since they were read',
    fails: 'a copy of a run that was redacted since it was read, or deleted, is not created',
    change: store => ({
      create: async (event, claim, rest) => {
        const { source: _, ...others } = rest ?? { events: [], status: 'running' };
        return store.create(event, claim, others);
      },
    }),
  },
  {
    that: 'counts the redactions of a deleted run for the next one with its id',
    fails: 'a run created again after it was deleted was never redacted',
    change: store => {
      const gone = new Map<string, number>();
      return {
        delete: async (runIds, options) => {
          for (const runId of [runIds].flat()) gone.set(runId, await redactionsOf(store, runId));
          return await store.delete(runIds, options);
        },
        get: async runId => {
          const record = await store.get(runId);
          return record && { ...record, redactions: record.redactions + (gone.get(runId) ?? 0) };
        },
      };
    },
  },
];
