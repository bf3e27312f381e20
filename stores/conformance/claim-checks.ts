import assert from 'node:assert/strict';
import { begin, type Checks, makeOwner, RUNNING, receive, request } from './check.ts';

export const claimChecks: Checks = {
  'a run can be created with a claim, which is in its journal': async store => {
    assert.deepEqual(await store.create(begin('a'), request('one')), { epoch: 1, seq: 2 });
    const [, entry] = await store.read('a');
    assert.deepEqual(entry, { seq: 2, event: { type: 'run.claimed', at: 5000, by: 'host:7', epoch: 1 } });
    const record = await store.get('a');
    assert.deepEqual([record?.owner, record?.leaseUntil, record?.seq], [makeOwner('one'), 6000, 2]);
  },
  'a claim of a free run gets the lease and is journaled': async store => {
    await store.create(begin('a'));
    assert.deepEqual(await store.claim('a', request('one')), { type: 'claimed', epoch: 1, seq: 2 });
    const event = { type: 'run.claimed', at: 5000, by: 'host:7', epoch: 1 };
    assert.deepEqual((await store.read('a', 1))[0]?.event, event);
    assert.equal((await store.get('a'))?.leaseUntil, 6000);
  },
  'the identity of an owner is kept with the lease and in the journal': async store => {
    const owner = { ...makeOwner('one'), startedAt: 'a b', space: 'space', instance: 'copy' };
    await store.create(begin('a'), request('one', { owner }));
    assert.deepEqual((await store.get('a'))?.owner, owner);
    const [claimed] = await store.read('a', 1);
    assert.equal(claimed && 'by' in claimed.event && claimed.event.by, 'host:7@space/copy/a%20b');
    const asked: unknown[] = [];
    const isDead = (found: unknown) => asked.push(found) > 0;
    assert.equal((await store.claim('a', request('two', { isDead }))).type, 'claimed');
    assert.deepEqual(asked, [owner]);
  },
  'a claim of a held run is refused with the owner and the expiry of the lease': async store => {
    await store.create(begin('a'), request('one'));
    const held = { type: 'held', owner: makeOwner('one'), until: 6000 };
    assert.deepEqual(await store.claim('a', request('two', { now: 5999 })), held);
    assert.equal((await store.read('a')).length, 2);
    assert.deepEqual((await store.get('a'))?.owner, makeOwner('one'));
  },
  'an expired lease is replaced': async store => {
    await store.create(begin('a'), request('one'));
    const result = await store.claim('a', request('two', { now: 6000 }));
    assert.deepEqual(result, { type: 'claimed', epoch: 2, seq: 3 });
    assert.equal((await store.get('a'))?.epoch, 2);
    assert.deepEqual((await store.get('a'))?.owner, makeOwner('two'));
  },
  'a claim names the owner that it replaces, unless the lease was released': async store => {
    await store.create(begin('a'), request('one'));
    await store.claim('a', request('two', { now: 6000 }));
    await store.claim('a', request('two', { now: 6500 }));
    await store.release('a', 3);
    await store.claim('a', request('three', { now: 6600 }));
    const claims = (await store.read('a', 2)).map(({ event }) => 'replaces' in event && event.replaces);
    assert.deepEqual(claims, ['host:7', false, false]);
  },
  'a dead owner is replaced before its lease expires': async store => {
    await store.create(begin('a'), request('one'));
    const isDead = ({ id }: { id: string }) => id === 'one';
    assert.equal((await store.claim('a', request('two', { isDead }))).type, 'claimed');
    assert.equal((await store.claim('a', request('three', { isDead }))).type, 'held');
  },
  'a run that has ended is not claimed with `unlessEnded`': async store => {
    await store.create(begin('a'), request('one'));
    await store.append('a', { after: 2, epoch: 1 }, [receive('last')], { status: 'finished' });
    const late = { now: 9000, unlessEnded: true };
    for (const owner of ['one', 'two'])
      assert.deepEqual(await store.claim('a', request(owner, late)), { type: 'ended' });
    assert.equal((await store.read('a')).length, 3);
  },
  'an owner that claims again gets a new epoch': async store => {
    await store.create(begin('a'), request('one'));
    assert.deepEqual(await store.claim('a', request('one')), { type: 'claimed', epoch: 2, seq: 3 });
  },
  'of many concurrent claims of a free run, exactly one succeeds': async store => {
    await store.create(begin('a'));
    const claims = Array.from({ length: 20 }, (_, index) => store.claim('a', request(`owner ${index}`)));
    const results = await Promise.all(claims);
    assert.equal(results.filter(({ type }) => type === 'claimed').length, 1);
    assert.equal((await store.read('a')).length, 2);
  },
  'an append with an older epoch is superseded, at any seq': async store => {
    await store.create(begin('a'), request('one'));
    await store.claim('a', request('two', { now: 7000 }));
    for (const after of [2, 3]) {
      const result = await store.append('a', { after, epoch: 1 }, [receive('late')], { status: 'failed' });
      assert.deepEqual(result, { type: 'superseded' });
    }
    assert.equal((await store.read('a')).length, 3);
    const own = await store.append('a', { after: 3, epoch: 2 }, [receive('x')], RUNNING);
    assert.equal(own.type, 'appended');
  },
  'an input is accepted from any process': async store => {
    await store.create(begin('a'), request('one'));
    const result = await store.append('a', { after: 2, input: true }, [receive('x')], RUNNING);
    assert.deepEqual(result, { type: 'appended', seq: 3 });
    const stale = await store.append('a', { after: 2, epoch: 1 }, [receive('y')], RUNNING);
    assert.deepEqual(stale, { type: 'conflict' });
  },
  'only the current epoch renews the lease': async store => {
    await store.create(begin('a'), request('one'));
    const lease = { runId: 'a', epoch: 1 };
    assert.deepEqual(await store.renew([lease], { now: 7000, leaseMs: 1000 }), []);
    assert.equal((await store.claim('a', request('two', { now: 7000 }))).type, 'held');
    await store.claim('a', request('two', { now: 8000 }));
    assert.deepEqual(await store.renew([lease], { now: 98_000, leaseMs: 1000 }), [lease]);
    assert.equal((await store.get('a'))?.leaseUntil, 9000);
  },
  'one renewal extends many leases and returns the lost ones, of deleted runs too': async store => {
    for (const id of ['a', 'b', 'c']) await store.create(begin(id), request('one'));
    await store.claim('b', request('two', { now: 7000 }));
    const leases = ['a', 'b', 'c', 'none'].map(runId => ({ runId, epoch: 1 }));
    const lost = await store.renew([...leases, { runId: 'b', epoch: 2 }], { now: 7500, leaseMs: 1000 });
    assert.deepEqual(lost, [leases[1], leases[3]]);
    const untils = await Promise.all(['a', 'b', 'c'].map(async id => (await store.get(id))?.leaseUntil));
    assert.deepEqual(untils, [8500, 8500, 8500]);
  },
  'only the current epoch releases the lease': async store => {
    await store.create(begin('a'), request('one'));
    await store.claim('a', request('two', { now: 7000 }));
    await store.release('a', 1);
    assert.deepEqual((await store.get('a'))?.owner, makeOwner('two'));
    await store.release('a', 2);
    const record = await store.get('a');
    assert.deepEqual([record?.owner, record?.leaseUntil], [undefined, undefined]);
  },
  'a released run can be claimed immediately, with a new epoch, and a released lease cannot be renewed':
    async store => {
      await store.create(begin('a'), request('one'));
      await store.release('a', 1);
      const released = [{ runId: 'a', epoch: 1 }];
      assert.deepEqual(await store.renew(released, { now: 98_000, leaseMs: 1000 }), released);
      assert.deepEqual(await store.claim('a', request('two')), { type: 'claimed', epoch: 2, seq: 3 });
    },
};
