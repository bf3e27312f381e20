import type { DeltaStore, StoredText } from '../../protocol/store.ts';

type Row = { followedUntil: number; text?: StoredText };

/** The texts of turns in progress, kept with the run that `find` returns; `undefined` for an unknown run. */
export function memoryDeltas(find: (runId: string) => { redactions: number } | undefined): DeltaStore {
  const rows = new WeakMap<object, Row>();
  const rowOf = (runId: string): Row => {
    const run = find(runId);
    const row = (run && rows.get(run)) ?? { followedUntil: 0 };
    if (run) rows.set(run, row);
    return row;
  };
  return {
    async follow(runId, { until }) {
      const row = rowOf(runId);
      row.followedUntil = Math.max(row.followedUntil, until);
      return row.text && { ...row.text };
    },
    async save(runId, { seq, json, redactions = 0 }, now) {
      const row = rowOf(runId);
      if (row.followedUntil <= now || find(runId)?.redactions !== redactions) return false;
      row.text = { seq, json };
      return true;
    },
    async clear(runId) {
      delete rowOf(runId).text;
    },
  };
}
