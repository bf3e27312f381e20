import assert from 'node:assert/strict';
import type { RunEvent } from '../../protocol/event.ts';
import type { Page } from '../../protocol/store.ts';
import {
  begin,
  type Checks,
  type DurabilityChecks,
  makeOwner,
  makeProgress,
  RUNNING,
  receive,
  rejectsWith,
  request,
  say,
  WAITING,
} from './check.ts';

export const journalChecks: Checks = {
  'an adopted run continues after the entry at which it was adopted': async store => {
    const listed = { title: 'Refund A-1', labels: { user: '7' }, progress: makeProgress('resting.paused') };
    const adopted = {
      ...({ runId: 'a', agent: 'refunds', status: 'waiting', createdAt: 900, seq: 7 } as const),
      ...listed,
    };
    await store.adopt({ ...adopted, state: { fold: 7 } });
    assert.deepEqual(await store.read('a'), []);
    assert.deepEqual(await store.loadSnapshot('a'), { seq: 7, state: { fold: 7 } });
    assert.deepEqual((await store.list({ labels: listed.labels })).runs, [await store.get('a')]);
    const { type } = await store.append('a', { after: 6, input: true }, [receive('early')], RUNNING);
    assert.equal(type, 'conflict');
    const appended = await store.append('a', { after: 7, input: true }, [receive('next')], RUNNING);
    assert.deepEqual(appended, { type: 'appended', seq: 8 });
    assert.deepEqual(await store.read('a', 3), [{ seq: 8, event: receive('next') }]);
    const claimed = await store.claim('a', request('driver'));
    assert.deepEqual(claimed, { type: 'claimed', epoch: 1, seq: 9 });
    const record = await store.get('a');
    assert.deepEqual([record?.seq, record?.status, record?.createdAt], [9, 'running', 900]);
    await rejectsWith('run-exists', store.adopt({ ...adopted, state: null }));
  },
  'a run that has ended takes notes, and no events that would reopen it': async store => {
    await store.create(begin('a'), undefined, { events: [receive('x')], status: 'finished' });
    const note = { type: 'run.noted', at: 2000, by: 'test', note: 'kept' } as const;
    await store.append('a', { after: 2, input: true }, [note], { status: 'finished' });
    for (const status of ['running', 'waiting'] as const)
      await rejectsWith('refused', store.append('a', { after: 3, input: true }, [receive('x')], { status }));
    assert.equal((await store.read('a')).length, 3);
    assert.equal((await store.get('a'))?.status, 'finished');
  },
  'a created run has its start as entry 1, and a matching record': async store => {
    const event = begin('a', { continues: 'z' });
    assert.deepEqual(await store.create(event), { epoch: 0, seq: 1 });
    assert.deepEqual(await store.read('a'), [{ seq: 1, event }]);
    assert.deepEqual(await store.get('a'), {
      runId: 'a',
      agent: 'refunds',
      title: 'hello',
      labels: {},
      state: 'running',
      turns: 0,
      tokens: 0,
      cost: 0,
      activeMs: 0,
      status: 'running',
      createdAt: 1000,
      updatedAt: 1000,
      seq: 1,
      epoch: 0,
      redactions: 0,
      continues: 'z',
      chart: { version: 1, hash: 'chart' },
    });
  },
  'a run created with several events has all of them, with its status, before its claim': async store => {
    const last: RunEvent = { type: 'message.received', at: 4000, items: [say('3', 'i3')] };
    const events = [receive('2'), last];
    const rest = { events, status: 'waiting' } as const;
    assert.deepEqual(await store.create(begin('a'), undefined, rest), { epoch: 0, seq: 3 });
    const expected = [begin('a'), ...events].map((event, index) => ({ seq: index + 1, event }));
    assert.deepEqual(await store.read('a'), expected);
    const record = await store.get('a');
    assert.deepEqual([record?.seq, record?.status, record?.updatedAt], [3, 'waiting', 4000]);
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
    assert.deepEqual(await store.read('b'), [{ seq: 1, event: begin('b') }]);
    assert.equal((await store.get('b'))?.status, 'running');
  },
  'creating a run a second time is rejected and changes nothing': async store => {
    await store.create(begin('a'));
    await rejectsWith('run-exists', store.create(begin('a', { at: 9000 }), request('second')));
    assert.deepEqual(await store.read('a'), [{ seq: 1, event: begin('a') }]);
    assert.equal((await store.get('a'))?.owner, undefined);
  },
  'entries are read in the order of appending, numbered from 1 without gaps': async store => {
    await store.create(begin('a'));
    await store.create(begin('b'));
    await store.append('a', { after: 1, input: true }, [receive('2'), receive('3')], RUNNING);
    await store.append('b', { after: 1, input: true }, [receive('other')], RUNNING);
    await store.append('a', { after: 3, input: true }, [receive('4')], RUNNING);
    const expected = [begin('a'), receive('2'), receive('3'), receive('4')];
    assert.deepEqual(
      await store.read('a'),
      expected.map((event, index) => ({ seq: index + 1, event })),
    );
  },
  'a read after an entry returns only the entries that follow': async store => {
    await store.create(begin('a'));
    await store.append('a', { after: 1, input: true }, [receive('2'), receive('3')], RUNNING);
    assert.deepEqual(await store.read('a', 2), [{ seq: 3, event: receive('3') }]);
    assert.deepEqual(await store.read('a', 3), []);
    assert.deepEqual(await store.read('a', 99), []);
  },
  'a page ends at its number of entries or characters, and is empty only at the end': async store => {
    await store.create(begin('a'));
    const events = ['2', '3', '4'].map(text => receive(text));
    await store.append('a', { after: 1, input: true }, events, RUNNING);
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
    await store.create(begin('a'));
    const result = await store.append('a', { after: 1, epoch: 0 }, [receive('x', 4000)], WAITING);
    assert.deepEqual(result, { type: 'appended', seq: 2 });
    const record = await store.get('a');
    assert.deepEqual([record?.seq, record?.status, record?.updatedAt], [2, 'waiting', 4000]);
    assert.equal(record?.createdAt, 1000);
  },
  'an append without events changes only the status': async store => {
    await store.create(begin('a'));
    const result = await store.append('a', { after: 1, epoch: 0 }, [], WAITING);
    assert.deepEqual(result, { type: 'appended', seq: 1 });
    assert.equal((await store.get('a'))?.status, 'waiting');
  },
  'an append after an earlier entry than the last is a conflict and writes nothing': async store => {
    const { epoch } = await store.create(begin('a'), request('driver'));
    for (const after of [0, 1]) {
      for (const guard of [{ epoch }, { input: true as const }]) {
        const append = store.append('a', { after, ...guard }, [receive('x')], { status: 'failed' });
        assert.deepEqual(await append, { type: 'conflict' });
      }
    }
    assert.equal((await store.read('a')).length, 2);
    assert.equal((await store.get('a'))?.status, 'running');
  },
  'an append after a missing entry is rejected because entries were lost, and writes nothing':
    async store => {
      const { epoch } = await store.create(begin('a'), request('driver'));
      for (const guard of [
        { after: 3, epoch },
        { after: 9, input: true as const },
      ]) {
        const append = store.append('a', guard, [receive('x')], { status: 'failed' });
        await rejectsWith('journal-damaged', append);
      }
      assert.equal((await store.read('a')).length, 2);
      assert.equal((await store.get('a'))?.status, 'running');
    },
  'of many concurrent appends after one entry, exactly one succeeds': async store => {
    await store.create(begin('a'));
    for (let after = 1; after <= 5; after += 1) {
      const attempts = Array.from({ length: 20 }, (_, index) =>
        store.append('a', { after, input: true }, [receive(`${after}.${index}`)], RUNNING),
      );
      const results = await Promise.all(attempts);
      const winner = results.findIndex(({ type }) => type === 'appended');
      assert.equal(results.filter(({ type }) => type === 'conflict').length, 19);
      const [entry] = await store.read('a', after);
      assert.deepEqual(entry, { seq: after + 1, event: receive(`${after}.${winner}`) });
    }
    assert.equal((await store.read('a')).length, 6);
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
      const expected = [begin(runId), receive(runId), receive(`${runId} again`)];
      assert.deepEqual(
        (await store.read(runId)).map(({ event }) => event),
        expected,
      );
    }
  },
  'a page can begin and end within one append': async store => {
    await store.create(begin('a'));
    const events = ['2', '3', '4', '5'].map(text => receive(text));
    await store.append('a', { after: 1, input: true }, events, RUNNING);
    const chars = Number.POSITIVE_INFINITY;
    assert.deepEqual(
      (await store.read('a', 2, { entries: 2, chars })).map(({ seq, event }) => [seq, event]),
      [3, 4].map(seq => [seq, receive(String(seq))]),
    );
    assert.equal((await store.read('a', 3, { entries: 9, chars })).length, 2);
  },
  'an append writes all events or none': async store => {
    await store.create(begin('a'));
    const events = [receive('fine'), receive('broken', Number.NaN)];
    const append = store.append('a', { after: 1, input: true }, events, { status: 'failed' });
    await rejectsWith('input-invalid', append);
    assert.equal((await store.read('a')).length, 1);
    const again = await store.append('a', { after: 1, input: true }, [receive('x')], RUNNING);
    assert.deepEqual(again, { type: 'appended', seq: 2 });
  },
  'calls for an unknown run are rejected and do not create it': async store => {
    await rejectsWith('run-unknown', store.read('a'));
    await rejectsWith('run-unknown', store.append('a', { after: 0, epoch: 0 }, [receive('x')], RUNNING));
    await rejectsWith('run-unknown', store.claim('a', request('driver')));
    await rejectsWith('run-unknown', store.release('a', 0));
    await rejectsWith('run-unknown', store.saveSnapshot('a', { seq: 1, state: {} }));
    await rejectsWith('run-unknown', store.chain('a'));
    assert.equal(await store.get('a'), undefined);
    assert.deepEqual((await store.list()).runs, []);
  },
};

export const lookupChecks: Checks = {
  'a chain begins with the oldest run and ends with the requested one': async store => {
    await store.create(begin('a'));
    await store.create(begin('b', { continues: 'a' }));
    await store.create(begin('c', { continues: 'b' }));
    await store.create(begin('other', { continues: 'a' }));
    assert.deepEqual(await store.chain('a'), [await store.get('a')]);
    const chain = (await store.chain('c')).map(({ runId }) => runId);
    assert.deepEqual(chain, ['a', 'b', 'c']);
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
    const held = { type: 'held', owner: makeOwner('one'), until: 6000 };
    assert.deepEqual(await later.claim('a', request('two')), held);
    const claimed = { type: 'claimed', epoch: 2, seq: 3 };
    assert.deepEqual(await later.claim('a', request('two', { now: 6000 })), claimed);
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
