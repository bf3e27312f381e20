import { expect, test } from 'vitest';
import { beginFold, type StoredFold } from '../../../engine/journal/load-run.ts';
import { Snapshots } from '../../../engine/log/snapshots.ts';
import { chartIdentity } from '../../../machines/snapshot.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { makeConfig, makeStarted } from '../../support/machines/builders.ts';

/** Which of the folds at these seqs get a snapshot. */
async function savedOf(
  seqs: readonly number[],
  save: (snapshots: Snapshots, fold: StoredFold) => void | Promise<void>,
) {
  const saved: number[] = [];
  const saveSnapshot = async (_: string, { seq }: { seq: number }) => void saved.push(seq);
  const options = { store: { ...watchStore(memory(), {}), saveSnapshot }, host: new ManualHost() };
  const snapshots = new Snapshots({ ...options, runId: 'run' }, { snapshotSeq: 0 });
  for (const seq of seqs) await save(snapshots, { state, seq, redactions: 0 });
  return saved;
}

const state = beginFold({ ...makeStarted(makeConfig()), chart: chartIdentity() });

test('a run at rest gets a snapshot after 64 entries, then after half as many as it has', async () => {
  const seqs = [63, 64, 127, 128, 191, 192, 287, 288];
  const saved = await savedOf(seqs, (snapshots, fold) => snapshots.saveAtRest(fold));
  expect(saved).toEqual([64, 128, 192, 288]);
});

test('a run that is driven gets a snapshot after 512 entries, then after a third of what it has', async () => {
  const seqs = [511, 512, 1_023, 1_024, 1_535, 1_536, 2_047, 2_048, 2_730, 2_731];
  const saved = await savedOf(seqs, (snapshots, fold) => snapshots.saveInBackground(fold));
  expect(saved).toEqual([512, 1_024, 1_536, 2_048, 2_731]);
});
