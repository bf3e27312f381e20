import assert from 'node:assert/strict';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import type { Page, RunLink, Store } from '../../protocol/store.ts';
import {
  begin,
  type Checks,
  checksOf,
  fieldsOf,
  isUnknown,
  makeProgress,
  RUNNING,
  receive,
  rejectsWith,
  request,
  say,
  testOwner,
  WAITING,
} from './check.ts';

function put(store: Store, after: number, ...texts: string[]) {
  const events = texts.map(text => receive(text));
  return store.append('a', { after, input: true }, events, RUNNING);
}

function number(events: readonly RunEvent[]): JournalEntry[] {
  return events.map((event, index) => ({ seq: index + 1, event }));
}

const startedChecks = checksOf(store => store.create(begin('a')), {
  'creating a run a second time is rejected and changes nothing': async store => {
    await rejectsWith('run-exists', store.create(begin('a', { at: 9000 }), request('second')));
    assert.deepEqual(await store.read('a'), number([begin('a')]));
    assert.deepEqual(await fieldsOf(store, 'a', 'owner'), [undefined]);
  },
  'entries are read in the order of appending, numbered from 1 without gaps': async store => {
    await store.create(begin('b'));
    await put(store, 1, '2', '3');
    await store.append('b', { after: 1, input: true }, [receive('other')], RUNNING);
    await put(store, 3, '4');
    const expected = [begin('a'), receive('2'), receive('3'), receive('4')];
    assert.deepEqual(await store.read('a'), number(expected));
  },
  'a read after an entry returns only the entries that follow': async store => {
    await put(store, 1, '2', '3');
    assert.deepEqual(await store.read('a', 2), [{ seq: 3, event: receive('3') }]);
    assert.deepEqual(await store.read('a', 3), []);
    assert.deepEqual(await store.read('a', 99), []);
  },
  'a page ends at its number of entries or characters, and is empty only at the end': async store => {
    await put(store, 1, '2', '3', '4');
    const readSeqs = async (after: number, page: Page): Promise<number[]> =>
      (await store.read('a', after, page)).map(({ seq }) => seq);
    const chars = Number.POSITIVE_INFINITY;
    assert.deepEqual(await readSeqs(0, { entries: 2, chars }), [1, 2]);
    assert.deepEqual(await readSeqs(2, { entries: 9, chars }), [3, 4]);
    assert.deepEqual(await readSeqs(0, { entries: 9, chars: 1 }), [1]);
    assert.deepEqual(await readSeqs(1, { entries: 9, chars: 1 }), [2]);
    assert.deepEqual(await readSeqs(4, { entries: 1, chars: 1 }), []);
  },
  'an append returns the new seq and updates the record': async store => {
    const result = await store.append('a', { after: 1, epoch: 0 }, [receive('x', 4000)], WAITING);
    assert.deepEqual(result, { type: 'appended', seq: 2 });
    const fields = await fieldsOf(store, 'a', 'seq', 'status', 'updatedAt', 'createdAt');
    assert.deepEqual(fields, [2, 'waiting', 4000, 1000]);
  },
  'an append without events changes only the status': async store => {
    const result = await store.append('a', { after: 1, epoch: 0 }, [], WAITING);
    assert.deepEqual(result, { type: 'appended', seq: 1 });
    assert.deepEqual(await fieldsOf(store, 'a', 'status'), ['waiting']);
  },
  'of many concurrent appends after one entry, exactly one succeeds': async store => {
    for (let after = 1; after <= 5; after += 1) {
      const attempts = Array.from({ length: 20 }, (_, index) => put(store, after, `${after}.${index}`));
      const results = await Promise.all(attempts);
      const winner = results.findIndex(({ type }) => type === 'appended');
      assert.equal(results.filter(({ type }) => type === 'conflict').length, 19);
      const event = receive(`${after}.${winner}`);
      assert.deepEqual((await store.read('a', after))[0], { seq: after + 1, event });
    }
    assert.equal((await store.read('a')).length, 6);
  },
  'a page can begin and end within one append': async store => {
    await put(store, 1, '2', '3', '4', '5');
    const chars = Number.POSITIVE_INFINITY;
    const expected = [3, 4].map(seq => ({ seq, event: receive(String(seq)) }));
    assert.deepEqual(await store.read('a', 2, { entries: 2, chars }), expected);
    assert.equal((await store.read('a', 3, { entries: 9, chars })).length, 2);
  },
  'an append writes all events or none': async store => {
    const events = [receive('fine'), receive('broken', Number.NaN)];
    const append = store.append('a', { after: 1, input: true }, events, { status: 'failed' });
    await rejectsWith('input-invalid', append);
    assert.equal((await store.read('a')).length, 1);
    assert.deepEqual(await put(store, 1, 'x'), { type: 'appended', seq: 2 });
  },
});

/** Checks of a run `a` that is driven, with two entries. */
const drivenChecks = checksOf(store => store.create(begin('a'), request('driver')), {
  'an append after an earlier entry than the last is a conflict and writes nothing': async store => {
    for (const by of [{ epoch: 1 } as const, { input: true } as const])
      for (const after of [0, 1]) {
        const append = store.append('a', { after, ...by }, [receive('x')], { status: 'failed' });
        assert.deepEqual(await append, { type: 'conflict' });
      }
    assert.deepEqual(await fieldsOf(store, 'a', 'seq', 'status'), [2, 'running']);
  },
  'an append after a missing entry is rejected because entries were lost, and writes nothing':
    async store => {
      for (const guard of [{ after: 3, epoch: 1 } as const, { after: 9, input: true } as const])
        await rejectsWith('journal-damaged', store.append('a', guard, [receive('x')], { status: 'failed' }));
      assert.deepEqual(await fieldsOf(store, 'a', 'seq', 'status'), [2, 'running']);
    },
});

export const journalChecks: Checks = {
  ...startedChecks,
  ...drivenChecks,
  'an adopted run continues after the entry at which it was adopted': async store => {
    const listed = { title: 'Refund A-1', labels: { user: '7' }, progress: makeProgress('resting.paused') };
    const run = { runId: 'a', agent: 'refunds', status: 'waiting', createdAt: 900, seq: 7 } as const;
    await store.adopt({ ...run, ...listed, state: { fold: 7 } });
    assert.deepEqual(await store.read('a'), []);
    assert.deepEqual(await store.loadSnapshot('a'), { seq: 7, state: { fold: 7 } });
    assert.deepEqual((await store.list({ labels: listed.labels })).runs, [await store.get('a')]);
    assert.equal((await put(store, 6, 'early')).type, 'conflict');
    assert.deepEqual(await put(store, 7, 'next'), { type: 'appended', seq: 8 });
    assert.deepEqual(await store.read('a', 3), [{ seq: 8, event: receive('next') }]);
    assert.deepEqual(await store.claim('a', request('driver')), { type: 'claimed', epoch: 1, seq: 9 });
    assert.deepEqual(await fieldsOf(store, 'a', 'seq', 'status', 'createdAt'), [9, 'running', 900]);
    await rejectsWith('run-exists', store.adopt({ ...run, ...listed, state: null }));
  },
  'a run that has ended takes notes, and no events that would reopen it': async store => {
    await store.create(begin('a'), undefined, { events: [receive('x')], status: 'finished' });
    const note = { type: 'run.noted', at: 2000, by: 'test', note: 'kept' } as const;
    await store.append('a', { after: 2, input: true }, [note], { status: 'finished' });
    for (const standing of [RUNNING, WAITING])
      await rejectsWith('refused', store.append('a', { after: 3, input: true }, [receive('x')], standing));
    assert.equal((await store.read('a')).length, 3);
    assert.deepEqual(await fieldsOf(store, 'a', 'status'), ['finished']);
  },
  'a created run has its start as entry 1, and a matching record': async store => {
    const event = begin('a', { continues: 'z' });
    assert.deepEqual(await store.create(event), { epoch: 0, seq: 1 });
    assert.deepEqual(await store.read('a'), [{ seq: 1, event }]);
    const { chart } = event;
    const told = { runId: 'a', agent: 'refunds', title: 'hello', labels: {}, continues: 'z', chart };
    const progress = { status: 'running', state: 'running', turns: 0, tokens: 0, cost: 0, activeMs: 0 };
    const counts = { createdAt: 1000, updatedAt: 1000, seq: 1, epoch: 0, redactions: 0 };
    assert.deepEqual(await store.get('a'), { ...told, ...progress, ...counts });
  },
  'a run created with several events has all of them, with its status, before its claim': async store => {
    const last: RunEvent = { type: 'message.received', at: 4000, items: [say('3', 'i3')] };
    const rest = { events: [receive('2'), last], status: 'waiting' } as const;
    assert.deepEqual(await store.create(begin('a'), undefined, rest), { epoch: 0, seq: 3 });
    assert.deepEqual(await store.read('a'), number([begin('a'), ...rest.events]));
    assert.deepEqual(await fieldsOf(store, 'a', 'seq', 'status', 'updatedAt'), [3, 'waiting', 4000]);
    assert.deepEqual(await store.create(begin('b'), request('one'), rest), { epoch: 1, seq: 4 });
    assert.equal((await store.read('b', 3))[0]?.event.type, 'run.claimed');
  },
  'a run with an event that could not be read back is not created': async store => {
    const events = [receive('2'), receive('3', Number.NaN)];
    await rejectsWith('input-invalid', store.create(begin('a'), undefined, { events, status: 'running' }));
    assert.equal(await store.get('a'), undefined);
    await store.create(begin('b'));
    const rest = { events: [receive('2')], status: 'waiting' } as const;
    await rejectsWith('run-exists', store.create(begin('b'), undefined, rest));
    assert.deepEqual(await store.read('b'), number([begin('b')]));
    assert.deepEqual(await fieldsOf(store, 'b', 'status'), ['running']);
  },
  'concurrent appends to many runs succeed or fail independently': async store => {
    const runIds = Array.from({ length: 10 }, (_, index) => `run ${index}`);
    await Promise.all(runIds.map(runId => store.create(begin(runId))));
    const append = (runId: string, after: number, at = 2000) =>
      store.append(runId, { after, input: true }, [receive(runId, at), receive(`${runId} again`)], WAITING);
    const outcomes = await Promise.allSettled([
      append('unknown run', 1),
      append('run 1', 1, Number.NaN),
      append('run 2', 0),
      append('run 3', 9),
      ...runIds.map(runId => append(runId, 1)),
    ]);
    assert.deepEqual(
      outcomes.map(outcome => (outcome.status === 'fulfilled' ? outcome.value.type : outcome.reason.code)),
      ['run-unknown', 'input-invalid', 'conflict', 'journal-damaged', ...runIds.map(() => 'appended')],
    );
    for (const runId of runIds) {
      const expected = number([begin(runId), receive(runId), receive(`${runId} again`)]);
      assert.deepEqual(await store.read(runId), expected);
    }
  },
  'calls for an unknown run are rejected and do not create it': async store => {
    await isUnknown(store, 'a');
    assert.deepEqual((await store.list()).runs, []);
  },
};

/** Checks of a run `a` that `one` has claimed: at epoch 1, with two entries, until 6000. */
const heldChecks = checksOf(store => store.create(begin('a'), request('one')), {
  'a run can be created with a claim, which is in its journal': async (store, created) => {
    assert.deepEqual(created, { epoch: 1, seq: 2 });
    const event = { type: 'run.claimed', at: 5000, by: 'host:7', epoch: 1 };
    assert.deepEqual(await store.read('a', 1), [{ seq: 2, event }]);
    const held = [testOwner('one'), 6000, 2];
    assert.deepEqual(await fieldsOf(store, 'a', 'owner', 'leaseUntil', 'seq'), held);
  },
  'a claim of a held run is refused with the owner and the expiry of the lease': async store => {
    const held = { type: 'held', owner: testOwner('one'), until: 6000 };
    assert.deepEqual(await store.claim('a', request('two', { now: 5999 })), held);
    assert.equal((await store.read('a')).length, 2);
    assert.deepEqual(await fieldsOf(store, 'a', 'owner'), [testOwner('one')]);
  },
  'an expired lease is replaced': async store => {
    const claimed = { type: 'claimed', epoch: 2, seq: 3 };
    assert.deepEqual(await store.claim('a', request('two', { now: 6000 })), claimed);
    assert.deepEqual(await fieldsOf(store, 'a', 'epoch', 'owner'), [2, testOwner('two')]);
  },
  'a claim names the owner that it replaces, unless the lease was released': async store => {
    await store.claim('a', request('two', { now: 6000 }));
    await store.claim('a', request('two', { now: 6500 }));
    await store.release('a', 3);
    await store.claim('a', request('three', { now: 6600 }));
    const claims = (await store.read('a', 2)).map(({ event }) => 'replaces' in event && event.replaces);
    assert.deepEqual(claims, ['host:7', false, false]);
  },
  'a dead owner is replaced before its lease expires': async store => {
    const isDead = ({ id }: { id: string }) => id === 'one';
    assert.equal((await store.claim('a', request('two', { isDead }))).type, 'claimed');
    assert.equal((await store.claim('a', request('three', { isDead }))).type, 'held');
  },
  'a run that has ended is not claimed with `unlessEnded`': async store => {
    await store.append('a', { after: 2, epoch: 1 }, [receive('last')], { status: 'finished' });
    const late = { now: 9000, unlessEnded: true };
    for (const owner of ['one', 'two'])
      assert.deepEqual(await store.claim('a', request(owner, late)), { type: 'ended' });
    assert.equal((await store.read('a')).length, 3);
  },
  'an owner that claims again gets a new epoch': async store => {
    assert.deepEqual(await store.claim('a', request('one')), { type: 'claimed', epoch: 2, seq: 3 });
  },
  'an append with an older epoch is superseded, at any seq': async store => {
    await store.claim('a', request('two', { now: 7000 }));
    const append = (after: number, epoch: number) =>
      store.append('a', { after, epoch }, [receive('x')], { status: 'failed' });
    for (const after of [2, 3]) assert.deepEqual(await append(after, 1), { type: 'superseded' });
    assert.equal((await store.read('a')).length, 3);
    assert.equal((await append(3, 2)).type, 'appended');
  },
  'an input is accepted from any process': async store => {
    const result = await store.append('a', { after: 2, input: true }, [receive('x')], RUNNING);
    assert.deepEqual(result, { type: 'appended', seq: 3 });
    const stale = await store.append('a', { after: 2, epoch: 1 }, [receive('y')], RUNNING);
    assert.deepEqual(stale, { type: 'conflict' });
  },
  'only the current epoch renews the lease': async store => {
    const lease = { runId: 'a', epoch: 1 };
    assert.deepEqual(await store.renew([lease], { now: 7000, leaseMs: 1000 }), []);
    assert.equal((await store.claim('a', request('two', { now: 7000 }))).type, 'held');
    await store.claim('a', request('two', { now: 8000 }));
    assert.deepEqual(await store.renew([lease], { now: 98_000, leaseMs: 1000 }), [lease]);
    assert.deepEqual(await fieldsOf(store, 'a', 'leaseUntil'), [9000]);
  },
  'one renewal extends many leases and returns the lost ones, of deleted runs too': async store => {
    for (const id of ['b', 'c']) await store.create(begin(id), request('one'));
    await store.claim('b', request('two', { now: 7000 }));
    const leases = ['a', 'b', 'c', 'none'].map(runId => ({ runId, epoch: 1 }));
    const lost = await store.renew([...leases, { runId: 'b', epoch: 2 }], { now: 7500, leaseMs: 1000 });
    assert.deepEqual(lost, [leases[1], leases[3]]);
    for (const id of ['a', 'b', 'c']) assert.deepEqual(await fieldsOf(store, id, 'leaseUntil'), [8500]);
  },
  'only the current epoch releases the lease': async store => {
    await store.claim('a', request('two', { now: 7000 }));
    await store.release('a', 1);
    assert.deepEqual(await fieldsOf(store, 'a', 'owner'), [testOwner('two')]);
    await store.release('a', 2);
    assert.deepEqual(await fieldsOf(store, 'a', 'owner', 'leaseUntil'), [undefined, undefined]);
  },
  'a released run can be claimed immediately, with a new epoch, and a released lease cannot be renewed':
    async store => {
      await store.release('a', 1);
      const released = [{ runId: 'a', epoch: 1 }];
      assert.deepEqual(await store.renew(released, { now: 98_000, leaseMs: 1000 }), released);
      assert.deepEqual(await store.claim('a', request('two')), { type: 'claimed', epoch: 2, seq: 3 });
    },
});

export const claimChecks: Checks = {
  ...heldChecks,
  'a claim of a free run gets the lease and is journaled': async store => {
    await store.create(begin('a'));
    assert.deepEqual(await store.claim('a', request('one')), { type: 'claimed', epoch: 1, seq: 2 });
    const event = { type: 'run.claimed', at: 5000, by: 'host:7', epoch: 1 };
    assert.deepEqual(await store.read('a', 1), [{ seq: 2, event }]);
    assert.deepEqual(await fieldsOf(store, 'a', 'leaseUntil'), [6000]);
  },
  'the identity of an owner is kept with the lease and in the journal': async store => {
    const owner = { ...testOwner('one'), startedAt: 'a b', space: 'space', instance: 'copy' };
    await store.create(begin('a'), request('one', { owner }));
    assert.deepEqual(await fieldsOf(store, 'a', 'owner'), [owner]);
    const [claimed] = await store.read('a', 1);
    assert.equal(claimed && 'by' in claimed.event && claimed.event.by, 'host:7@space/copy/a%20b');
    const asked: unknown[] = [];
    const isDead = (found: unknown) => asked.push(found) > 0;
    assert.equal((await store.claim('a', request('two', { isDead }))).type, 'claimed');
    assert.deepEqual(asked, [owner]);
  },
  'of many concurrent claims of a free run, exactly one succeeds': async store => {
    await store.create(begin('a'));
    const claims = Array.from({ length: 20 }, (_, index) => store.claim('a', request(`owner ${index}`)));
    assert.equal((await Promise.all(claims)).filter(({ type }) => type === 'claimed').length, 1);
    assert.equal((await store.read('a')).length, 2);
  },
};

export const lookupChecks: Checks = {
  'a chain begins with the oldest run and ends with the requested one': async store => {
    await store.create(begin('a'));
    await store.create(begin('b', { continues: 'a' }));
    await store.create(begin('c', { continues: 'b' }));
    await store.create(begin('other', { continues: 'a' }));
    await assertLinks(store, 'a');
    const ids = (await store.chain('c')).map(({ runId }) => runId);
    assert.deepEqual(ids, ['a', 'b', 'c']);
  },
  'a chain with a missing or circular link is rejected, never shortened': async store => {
    await store.create(begin('a', { continues: 'gone' }));
    await rejectsWith('run-unknown', store.chain('a'));
    await store.create(begin('self', { continues: 'self' }));
    await rejectsWith('journal-damaged', store.chain('self'));
  },
  'the latest snapshot is returned, and an older one does not replace it': async store => {
    await store.create(begin('a'));
    await put(store, 1, '2', '3');
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

export const lastingJournalChecks: Checks = {
  'journal, record, items and snapshot survive reopening the store': async (store, { reopen }) => {
    await store.create(begin('a', { input: [say('hello', 'i0')] }));
    await store.create(begin('b', { at: 2000, continues: 'a' }));
    await store.append('a', { after: 1, input: true }, [receive('x')], WAITING);
    await store.saveSnapshot('a', { seq: 2, state: { value: 'resting' } });
    const [journal, records] = [await store.read('a'), (await store.list()).runs];
    const later = await reopen();
    assert.deepEqual(await later.read('a'), journal);
    assert.deepEqual((await later.list()).runs, records);
    await assertLinks(later, 'a', 'b');
    assert.deepEqual(await later.loadSnapshot('a'), { seq: 2, state: { value: 'resting' } });
  },
  'a run created with several events survives reopening the store': async (store, { reopen }) => {
    const rest = { events: [receive('2'), receive('3')], status: 'waiting' } as const;
    await store.create(begin('a'), undefined, rest);
    const [journal, record] = [await store.read('a'), await store.get('a')];
    const later = await reopen();
    assert.deepEqual(await later.read('a'), journal);
    assert.equal(journal.length, 3);
    assert.deepEqual(await later.get('a'), record);
  },
  'a lease and its epoch survive reopening the store': async (store, { reopen }) => {
    await store.create(begin('a'), request('one'));
    const later = await reopen();
    const held = { type: 'held', owner: testOwner('one'), until: 6000 };
    assert.deepEqual(await later.claim('a', request('two')), held);
    const claimed = { type: 'claimed', epoch: 2, seq: 3 };
    assert.deepEqual(await later.claim('a', request('two', { now: 6000 })), claimed);
    const stale = await later.append('a', { after: 3, epoch: 1 }, [receive('x')], RUNNING);
    assert.deepEqual(stale, { type: 'superseded' });
  },
  'a journal continues where it ended after reopening the store': async (store, { reopen }) => {
    await store.create(begin('a'));
    const later = await reopen();
    assert.deepEqual(await put(later, 0, 'x'), { type: 'conflict' });
    assert.deepEqual(await put(later, 1, 'y'), { type: 'appended', seq: 2 });
    assert.deepEqual(await later.read('a', 1), [{ seq: 2, event: receive('y') }]);
  },
};

/** The chain of the last of the runs has them all, as `get` returns them. */
async function assertLinks(store: Store, ...runIds: string[]): Promise<void> {
  const keys = ['runId', 'createdAt', 'redactions', 'seq', 'continues'] as const;
  const linkOf = (record: RunLink | undefined) => record && keys.map(key => record[key]);
  const records = await Promise.all(runIds.map(runId => store.get(runId)));
  const chain = await store.chain(runIds.at(-1) ?? '');
  assert.deepEqual(chain.map(linkOf), records.map(linkOf));
}
