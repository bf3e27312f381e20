import assert from 'node:assert/strict';
import type { RunStarted } from '../../../protocol/event.ts';
import type { RunStatus, Store } from '../../../protocol/store.ts';
import type { Checks } from '../check.ts';
import { begin, receive, rejectsWith, request } from '../samples.ts';

/** Creates a run whose last entry is at `at`. */
async function make(
  store: Store,
  runId: string,
  status: RunStatus,
  at: number,
  changes: Partial<RunStarted> = {},
): Promise<void> {
  await store.create(begin(runId, changes), undefined, { events: [receive('two', at)], status });
}

async function idsIn(store: Store): Promise<string[]> {
  return (await store.list()).runs.map(({ runId }) => runId).sort();
}

/** Checks of `prune`. */
export const pruneChecks: Checks = {
  'pruning deletes the runs that ended before a time, and needs that time': async store => {
    await make(store, 'old', 'finished', 2000);
    await make(store, 'failed', 'failed', 2000);
    await make(store, 'young', 'finished', 3000);
    await make(store, 'waiting', 'waiting', 2000);
    await make(store, 'running', 'running', 2000);
    for (const before of [undefined, Number.NaN, Number.POSITIVE_INFINITY, '2026'] as never[])
      await rejectsWith('input-invalid', store.prune({ before }));
    await rejectsWith('input-invalid', store.prune({ before: 3000, status: 'waiting' }));
    const options = { before: 3000, now: 5000 };
    assert.deepEqual((await store.prune({ ...options, dryRun: true })).sort(), ['failed', 'old']);
    assert.equal((await idsIn(store)).length, 5);
    assert.deepEqual(await store.prune({ ...options, status: 'failed' }), ['failed']);
    assert.deepEqual(await store.prune(options), ['old']);
    assert.deepEqual(await store.prune(options), []);
    assert.deepEqual(await idsIn(store), ['running', 'waiting', 'young']);
  },
  'pruning deletes only runs with all the labels': async store => {
    await make(store, 'a', 'finished', 2000, { labels: { user: '7', tenant: 'x' } });
    await make(store, 'b', 'finished', 2000, { labels: { user: '8', tenant: 'x' } });
    await make(store, 'c', 'finished', 2000);
    const labels = { user: '7', tenant: 'x' };
    assert.deepEqual(await store.prune({ before: 3000, labels, now: 5000 }), ['a']);
    assert.deepEqual(await idsIn(store), ['b', 'c']);
  },
  'pruning takes child runs with their parent, and spares what is driven or continued by a run that stays':
    async store => {
      const parent = { runId: 'parent', callId: 'call' };
      await make(store, 'parent', 'finished', 2000);
      await make(store, 'child', 'finished', 4000, { parent });
      await make(store, 'busy', 'waiting', 2000);
      await make(store, 'child of busy', 'failed', 2000, { parent: { runId: 'busy', callId: 'call' } });
      await make(store, 'first', 'finished', 2000);
      await make(store, 'second', 'finished', 2500, { continues: 'first', at: 1500 });
      await make(store, 'kept', 'finished', 2000);
      await make(store, 'later', 'waiting', 2500, { continues: 'kept', at: 1500 });
      await make(store, 'driven', 'finished', 2000);
      await store.claim('driven', request('one', { now: 2000, leaseMs: 9000 }));
      const gone = ['child', 'first', 'parent', 'second'];
      const options = { before: 3000, now: 5000 };
      assert.deepEqual((await store.prune({ ...options, dryRun: true })).sort(), gone);
      assert.deepEqual((await store.prune(options)).sort(), gone);
      assert.deepEqual(await idsIn(store), ['busy', 'child of busy', 'driven', 'kept', 'later']);
      assert.deepEqual(await store.prune({ ...options, isDead: () => true }), ['driven']);
    },
  'pruning deletes more runs than one page of a list': async store => {
    for (let run = 0; run < 120; run += 1) await make(store, `run${run}`, 'finished', 2000);
    await make(store, 'open', 'waiting', 2000);
    assert.equal((await store.prune({ before: 3000, now: 5000, dryRun: true })).length, 120);
    assert.equal((await store.prune({ before: 3000, now: 5000 })).length, 120);
    assert.deepEqual(await idsIn(store), ['open']);
  },
};
