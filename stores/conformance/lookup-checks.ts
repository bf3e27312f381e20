import assert from 'node:assert/strict';
import type { Checks } from './check.ts';
import { begin, RUNNING, receive, rejectsWith, request } from './samples.ts';

/** Checks of chains, snapshots and `close`. */
export const lookupChecks: Checks = {
  'a chain begins with the oldest run and ends with the requested one': async store => {
    await store.create(begin('a'));
    await store.create(begin('b', { continues: 'a' }));
    await store.create(begin('c', { continues: 'b' }));
    await store.create(begin('other', { continues: 'a' }));
    assert.deepEqual(await store.chain('a'), [await store.get('a')]);
    assert.deepEqual(
      (await store.chain('c')).map(({ runId }) => runId),
      ['a', 'b', 'c'],
    );
  },
  'a chain with a missing or circular link is rejected, never shortened': async store => {
    await store.create(begin('a', { continues: 'gone' }));
    await rejectsWith('run-unknown', store.chain('a'));
    await store.create(begin('self', { continues: 'self' }));
    await rejectsWith('journal-damaged', store.chain('self'));
  },
  'the latest snapshot is returned, and an older one does not replace it': async store => {
    const rest = { events: [receive('2'), receive('3')], status: 'running' } as const;
    await store.create(begin('a'), undefined, rest);
    assert.equal(await store.loadSnapshot('a'), undefined);
    assert.equal(await store.loadSnapshot('unknown'), undefined);
    await store.saveSnapshot('a', { seq: 1, state: { value: 'turn' } });
    await store.saveSnapshot('a', { seq: 3, state: { value: 'resting', list: [null, 'x\ud800'] } });
    await store.saveSnapshot('a', { seq: 2, state: { value: 'older' } });
    const expected = { seq: 3, state: { value: 'resting', list: [null, 'x\ud800'] } };
    assert.deepEqual(await store.loadSnapshot('a'), expected);
    assert.equal((await store.read('a')).length, 3);
  },
  'a closed store rejects every call, and can be closed again': async store => {
    await store.create(begin('a'));
    await store.close();
    await store.close();
    const calls = [
      store.create(begin('b')),
      store.append('a', { after: 1, epoch: 0 }, [receive('x')], RUNNING),
      store.read('a'),
      store.claim('a', request('one')),
      store.renew([{ runId: 'a', epoch: 0 }], { now: 8000, leaseMs: 1000 }),
      store.release('a', 0),
      store.saveSnapshot('a', { seq: 1, state: {} }),
      store.loadSnapshot('a'),
      store.get('a'),
      store.list(),
      store.chain('a'),
    ];
    await Promise.all(calls.map(call => rejectsWith('store-unavailable', call)));
  },
};
