import assert from 'node:assert/strict';
import type { DurabilityChecks } from './check.ts';
import { begin, makeOwner, RUNNING, receive, request, say, WAITING } from './samples.ts';

/** Checks that data survives reopening the store. */
export const durabilityChecks: DurabilityChecks = {
  'journal, record, items and snapshot survive reopening the store': async (store, reopen) => {
    await store.create(begin('a', { input: [say('hello', 'i0')] }));
    await store.create(begin('b', { at: 2000, continues: 'a' }));
    await store.append('a', { after: 1, input: true }, [receive('x')], WAITING);
    await store.saveSnapshot('a', { seq: 2, state: { value: 'resting' } });
    const [journal, records] = [await store.read('a'), (await store.list()).runs];
    const later = await reopen();
    assert.deepEqual(await later.read('a'), journal);
    assert.deepEqual((await later.list()).runs, records);
    assert.deepEqual(await later.chain('b'), records.toReversed());
    assert.deepEqual(await later.loadSnapshot('a'), { seq: 2, state: { value: 'resting' } });
  },
  'a run created with several events survives reopening the store': async (store, reopen) => {
    const rest = { events: [receive('2'), receive('3')], status: 'waiting' } as const;
    await store.create(begin('a'), undefined, rest);
    const [journal, record] = [await store.read('a'), await store.get('a')];
    const later = await reopen();
    assert.deepEqual(await later.read('a'), journal);
    assert.equal(journal.length, 3);
    assert.deepEqual(await later.get('a'), record);
  },
  'a lease and its epoch survive reopening the store': async (store, reopen) => {
    await store.create(begin('a'), request('one'));
    const later = await reopen();
    assert.deepEqual(await later.claim('a', request('two')), {
      type: 'held',
      owner: makeOwner('one'),
      until: 6000,
    });
    assert.deepEqual(await later.claim('a', request('two', { now: 6000 })), {
      type: 'claimed',
      epoch: 2,
      seq: 3,
    });
    const stale = await later.append('a', { after: 3, epoch: 1 }, [receive('x')], RUNNING);
    assert.deepEqual(stale, { type: 'superseded' });
  },
  'a journal continues where it ended after reopening the store': async (store, reopen) => {
    await store.create(begin('a'));
    const later = await reopen();
    const stale = await later.append('a', { after: 0, input: true }, [receive('x')], RUNNING);
    assert.deepEqual(stale, { type: 'conflict' });
    const result = await later.append('a', { after: 1, input: true }, [receive('y')], RUNNING);
    assert.deepEqual(result, { type: 'appended', seq: 2 });
    assert.deepEqual(await later.read('a', 1), [{ seq: 2, event: receive('y') }]);
  },
};
