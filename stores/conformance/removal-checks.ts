import assert from 'node:assert/strict';
import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import { isChangedRun, type RunStatus, type Store } from '../../protocol/store.ts';
import {
  begin,
  type Checks,
  checksOf,
  DIGEST,
  fieldsOf,
  isUnknown,
  listIds,
  OTHER_DIGEST,
  receive,
  redactSecond,
  rejectsWith,
  request,
  say,
  settleAll,
  testOwner,
  WAITING,
} from './check.ts';

function suspend(callId: string, childRunId: string): RunEvent {
  return { type: 'tool.suspended', at: 2000, generation: 1, callId, childRunId };
}

function answer(callId: string): RunEvent {
  return { type: 'result.received', at: 3000, callId, output: 'done', isError: false };
}

function beginChild(runId: string, parent: string) {
  return begin(runId, { parent: { runId: parent, callId: 'call' } });
}

async function hasRun(store: Store, runId: string): Promise<boolean> {
  return (await store.get(runId)) !== undefined;
}

export const removalChecks: Checks = {
  'a deleted run is unknown to every method, and its id can be used again': async store => {
    await store.create(begin('a', { input: [say('hello', 'i0')] }));
    await store.create(begin('b', { input: [say('hello', 'i1')] }));
    await store.saveSnapshot('a', { seq: 1, state: { value: 'resting' } });
    await store.putBlob('a', DIGEST, '"abc"');
    assert.deepEqual(await store.delete('a', { now: 5000 }), ['a']);
    await isUnknown(store, 'a');
    await rejectsWith('run-unknown', store.delete('a', { now: 5000 }));
    assert.deepEqual(await listIds(store), ['b']);
    await store.create(begin('a'));
    assert.equal((await store.read('a')).length, 1);
    assert.equal(await store.readBlob('a', DIGEST, 0, 5), undefined);
  },
  'a run is not deleted while it is driven, but after its lease expired or was released or its driver died':
    async store => {
      for (const id of ['a', 'b', 'c']) await store.create(begin(id), request('one'));
      await rejectsWith('refused', store.delete('a', { now: 5999, cascade: true }));
      assert.equal((await store.read('a')).length, 2);
      await store.delete('a', { now: 6000 });
      await store.delete('b', { now: 5999, isDead: ({ id }) => id === testOwner('one').id });
      await store.release('c', 1);
      await store.delete('c', { now: 5999 });
      assert.deepEqual((await store.list()).runs, []);
    },
  'a run that another run continues is deleted only together with it': async store => {
    await store.create(begin('a'));
    await store.create(begin('b', { continues: 'a' }));
    await store.create(begin('c', { continues: 'b' }));
    await rejectsWith('refused', store.delete('a', { now: 5000 }));
    assert.equal((await store.chain('c')).length, 3);
    assert.deepEqual(await store.delete('c', { now: 5000 }), ['c']);
    assert.deepEqual(await store.delete('a', { now: 5000, cascade: true }), ['a', 'b']);
    assert.deepEqual((await store.list()).runs, []);
  },
  'a run is deleted with its child runs, and a child run not before its parent has ended': async store => {
    await store.create(begin('a'));
    await store.create(beginChild('b', 'a'));
    await store.create(beginChild('c', 'b'), request('one'));
    await rejectsWith('refused', store.delete('b', { now: 7000, cascade: true }));
    await rejectsWith('refused', store.delete('a', { now: 5500 }));
    assert.ok(await hasRun(store, 'a'));
    assert.deepEqual(await store.delete('a', { now: 7000 }), ['a', 'b', 'c']);
    await store.create(begin('p'), undefined, { events: [], status: 'finished' });
    await store.create(beginChild('q', 'p'));
    assert.deepEqual(await store.delete('q', { now: 7000 }), ['q']);
  },
  'a fork and its blobs survive the deletion of its original': async store => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, '"abc"');
    await store.putBlob('a', OTHER_DIGEST, '"other"');
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }));
    await store.delete('a', { now: 5000 });
    assert.equal((await store.read('fork')).length, 1);
    assert.deepEqual(await store.readBlob('fork', DIGEST, 0, 9), new Uint8Array(Buffer.from('"abc"')));
    assert.deepEqual(await store.readBlob('fork', OTHER_DIGEST, 1, 5), new Uint8Array(Buffer.from('other')));
  },
  'a run whose child run a fork waits for is deleted with the fork, or alone once the fork has the result':
    async store => {
      for (const [id, child] of Object.entries({ a: 'b', x: 'y' })) {
        await store.create(begin(id), undefined, { events: [suspend('call', child)], status: 'waiting' });
        await store.create(beginChild(child, id));
        const forkOf = { runId: id, at: 2 };
        const rest = { events: [suspend('call', child)], status: 'waiting' } as const;
        await store.create(begin(`fork of ${id}`, { forkOf }), undefined, rest);
        await rejectsWith('refused', store.delete(id, { now: 5000 }));
      }
      assert.deepEqual(await store.delete('a', { now: 5000, cascade: true }), ['a', 'b', 'fork of a']);
      await store.append('fork of x', { after: 2, input: true }, [answer('call')], WAITING);
      assert.deepEqual(await store.delete('x', { now: 5000 }), ['x', 'y']);
      assert.ok(await hasRun(store, 'fork of x'));
    },
  'a run whose background work a fork waits for is deleted once the fork has the outcome': async store => {
    const work = (childRunId: string) => ({ ...suspend('call', childRunId), background: {} });
    const outcome = (runId: string) => ({ ...receive('done'), from: { callId: 'call', runId } });
    const events = [work('b'), work('c')];
    await store.create(begin('a'), undefined, { events, status: 'waiting' });
    for (const child of ['b', 'c']) await store.create(beginChild(child, 'a'));
    const fork = begin('fork', { forkOf: { runId: 'a', at: 3 } });
    await store.create(fork, undefined, { events, status: 'waiting' });
    await rejectsWith('refused', store.delete('a', { now: 5000 }));
    await store.append('fork', { after: 3, input: true }, [outcome('c')], WAITING);
    await rejectsWith('refused', store.delete('a', { now: 5000 }));
    await store.append('fork', { after: 4, input: true }, [outcome('b')], WAITING);
    assert.deepEqual((await store.delete('a', { now: 5000 })).toSorted(), ['a', 'b', 'c']);
    assert.ok(await hasRun(store, 'fork'));
  },
  'a redaction replaces entries, appends its own event, and keeps the other entries': async store => {
    const events = [receive('two'), receive('three'), settleAll('c', 'four')];
    const rest = { events, status: 'waiting' } as const;
    await store.create(begin('a'), undefined, rest);
    const before = await store.read('a');
    const entries = [2, 3].map(seq => ({ seq, event: receive(`gone ${seq}`) }));
    const redaction = redactSecond(4, { entries });
    assert.deepEqual(await store.rewrite('a', redaction), { type: 'appended', seq: 5 });
    const expected = [before[0], ...redaction.entries, before[3], { seq: 5, event: redaction.event }];
    assert.deepEqual(await store.read('a'), expected);
    for (const seq of [1, 2, 3, 4]) assert.deepEqual(await store.read('a', seq), expected.slice(seq));
    assert.deepEqual(await fieldsOf(store, 'a', 'seq', 'status', 'updatedAt'), [5, 'waiting', 9000]);
    await store.append('a', { after: 5, redactions: 1, input: true }, [receive('six')], WAITING);
    assert.equal((await store.read('a')).length, 6);
  },
  'a redaction replaces the snapshot and removes its blobs, but not from other runs': async store => {
    await store.create(begin('a'), undefined, { events: [receive('two')], status: 'waiting' });
    await store.putBlob('a', DIGEST, '"abc"');
    await store.putBlob('a', OTHER_DIGEST, '"other"');
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }));
    await store.saveSnapshot('a', { seq: 2, state: { text: 'two' } });
    await store.rewrite('a', redactSecond(2, { blobs: [DIGEST] }));
    await store.saveSnapshot('a', { seq: 2, state: { text: 'two' } });
    assert.deepEqual(await store.loadSnapshot('a'), { seq: 3, state: { text: 'gone' } });
    assert.equal(await store.readBlob('a', DIGEST, 0, 5), undefined);
    assert.equal((await store.readBlob('a', OTHER_DIGEST, 0, 5))?.length, 5);
    assert.equal((await store.readBlob('fork', DIGEST, 0, 5))?.length, 5);
  },
  'a redaction of a run that is longer, driven or unknown changes nothing': async store => {
    const events = [receive('two'), receive('three')];
    await store.create(begin('a'), undefined, { events, status: 'waiting' });
    const before = await store.read('a');
    assert.deepEqual(await store.rewrite('a', redactSecond(2)), { type: 'conflict' });
    assert.deepEqual(await store.read('a'), before);
    await store.claim('a', request('one'));
    const driven = await store.read('a');
    await rejectsWith('refused', store.rewrite('a', redactSecond(4, { now: 5999 })));
    assert.deepEqual(await store.read('a'), driven);
    assert.equal((await store.rewrite('a', redactSecond(4, { now: 6000 }))).type, 'appended');
    await rejectsWith('run-unknown', store.rewrite('none', redactSecond(2)));
  },
  'a redaction without an event appends nothing': async store => {
    await store.create(begin('a'), undefined, { events: [receive('two')], status: 'waiting' });
    const before = await store.read('a');
    const { event: _, ...nothing } = redactSecond(2, { entries: [] });
    assert.deepEqual(await store.rewrite('a', nothing), { type: 'appended', seq: 2 });
    assert.deepEqual(await store.read('a'), before);
  },
};

export const lastingRemovalChecks: Checks = {
  'deletions and redactions survive reopening the store': async (store, { reopen }) => {
    await store.create(begin('a'), undefined, { events: [receive('two')], status: 'waiting' });
    await store.create(begin('b'));
    await store.rewrite('a', redactSecond(2));
    await store.delete('b', { now: 5000 });
    const journal = await store.read('a');
    const later = await reopen();
    assert.deepEqual(await later.read('a'), journal);
    assert.equal(await later.get('b'), undefined);
  },
};

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
  return (await listIds(store)).sort();
}

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

async function beginFour(store: Store) {
  const events = ['two', 'three', 'four'].map(text => receive(text));
  return await store.create(begin('a'), undefined, { events, status: 'waiting' });
}

/** Redacts what is redacted already: no entry changes, and none is added. */
async function redactNothing(store: Store): Promise<void> {
  const { seq = 0, redactions = 0 } = (await store.get('a')) ?? {};
  const { event: _, ...nothing } = redactSecond(seq, { redactions, entries: [] });
  assert.deepEqual(await store.rewrite('a', nothing), { type: 'appended', seq });
}

async function isRefusedAsChanged(work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, isChangedRun);
}

/** Checks of a run `a` with four entries: its start and three messages. */
export const redactionChecks = checksOf(beginFour, {
  'every redaction counts in the record, also one that changes no entry': async store => {
    assert.deepEqual(await fieldsOf(store, 'a', 'redactions'), [0]);
    await store.rewrite('a', redactSecond(4));
    assert.deepEqual(await fieldsOf(store, 'a', 'redactions'), [1]);
    await redactNothing(store);
    const listed = (await store.list()).runs.map(({ redactions, seq }) => ({ redactions, seq }));
    assert.deepEqual(listed, [{ redactions: 2, seq: 5 }]);
  },
  'of two redactions planned on the same journal, one is a conflict and changes nothing': async store => {
    const redact = (seq: number) =>
      store.rewrite('a', redactSecond(4, { entries: [{ event: receive('gone'), seq }] }));
    const results = await Promise.all([redact(2), redact(3)]);
    assert.deepEqual(results.map(({ type }) => type).sort(), ['appended', 'conflict']);
    const journal = await store.read('a');
    assert.equal(JSON.stringify(journal).split('"gone"').length - 1, 1);
    assert.equal(journal.length, 5);
  },
  'a redaction planned before another one is a conflict, although the journal is as long': async store => {
    await redactNothing(store);
    const before = await store.read('a');
    assert.deepEqual(await store.rewrite('a', redactSecond(4)), { type: 'conflict' });
    assert.deepEqual(await store.read('a'), before);
    const again = await store.rewrite('a', redactSecond(4, { redactions: 1 }));
    assert.deepEqual(again, { type: 'appended', seq: 5 });
  },
  'the pages of a load that a redaction separates are refused, and all others are of one journal':
    async store => {
      const page = { entries: 2, chars: 1e9, redactions: 0 };
      assert.equal((await store.read('a', 0, page)).length, 2);
      await store.rewrite('a', redactSecond(4));
      await isRefusedAsChanged(store.read('a', 2, page));
      await isRefusedAsChanged(store.read('a', 5, page));
      const again = { ...page, redactions: 1 };
      const pages = [await store.read('a', 0, again), await store.read('a', 2, again)];
      assert.deepEqual(pages.flat(), (await store.read('a')).slice(0, 4));
      assert.equal(JSON.stringify(pages).includes('"two"'), false);
      assert.equal((await store.read('a', 4, { entries: 2, chars: 1e9 })).length, 1);
    },
  'an append after what was read before a redaction is a conflict': async store => {
    await redactNothing(store);
    const none = { after: 4, input: true } as const;
    const append = (known: object) => store.append('a', { ...none, ...known }, [receive('5')], WAITING);
    assert.deepEqual(await append({}), { type: 'conflict' });
    assert.deepEqual(await store.append('a', none, [], { status: 'finished' }), { type: 'conflict' });
    assert.deepEqual(await fieldsOf(store, 'a', 'status'), ['waiting']);
    assert.deepEqual(await append({ redactions: 1 }), { type: 'appended', seq: 5 });
  },
  'a claim after a redaction is granted, and its holder appends only as it has read the run since':
    async store => {
      await redactNothing(store);
      assert.deepEqual(await store.claim('a', request('one')), { type: 'claimed', epoch: 1, seq: 5 });
      const guard = { after: 5, epoch: 1 };
      assert.deepEqual(await store.append('a', guard, [receive('6')], WAITING), { type: 'conflict' });
      const known = { ...guard, redactions: 1 };
      assert.deepEqual(await store.append('a', known, [receive('6')], WAITING), { type: 'appended', seq: 6 });
    },
  'a redaction ends a lease that has expired: its holder cannot renew it, and an open run is woken':
    async store => {
      await store.claim('a', request('one'));
      await store.rewrite('a', redactSecond(5));
      const lease = { runId: 'a', epoch: 1 };
      assert.deepEqual(await store.renew([lease], { now: 9000, leaseMs: 1000 }), [lease]);
      const { owner, wakeAt = Number.POSITIVE_INFINITY } = (await store.get('a')) ?? {};
      assert.equal(owner, undefined);
      assert.ok(wakeAt <= 9500, `expected that the run is woken at 9000, got ${wakeAt}`);
    },
  'a snapshot of what was read before a redaction is dropped': async store => {
    await redactNothing(store);
    const kept = await store.loadSnapshot('a');
    for (const seq of [4, 9]) await store.saveSnapshot('a', { seq, state: { text: 'two' } });
    assert.deepEqual(await store.loadSnapshot('a'), kept);
    await store.saveSnapshot('a', { seq: 4, redactions: 1, state: { text: 'later' } });
    assert.deepEqual(await store.loadSnapshot('a'), { seq: 4, state: { text: 'later' } });
  },
  'a blob of what was read before a redaction is refused, and one of something new is stored':
    async store => {
      await redactNothing(store);
      await isRefusedAsChanged(store.putBlob('a', DIGEST, '"two"', 0));
      assert.equal(await store.readBlob('a', DIGEST, 0, 9), undefined);
      await store.putBlob('a', DIGEST, '"new"', 1);
      await store.putBlob('a', DIGEST.replaceAll('a', 'c'), '"new"');
      assert.equal((await store.readBlob('a', DIGEST, 0, 9))?.length, 5);
    },
  'a text of a turn that was read before a redaction is not shared': async store => {
    const { deltas } = store;
    if (deltas === undefined) return;
    await deltas.follow('a', { now: 5000, until: 99_000 });
    assert.equal(await deltas.save('a', { seq: 4, json: '["two"]' }, 5000), true);
    await redactNothing(store);
    const follow = () => deltas.follow('a', { now: 5000, until: 99_000 });
    assert.equal(await follow(), undefined);
    assert.equal(await deltas.save('a', { seq: 4, json: '["two"]' }, 5000), false);
    assert.equal(await follow(), undefined);
    assert.equal(await deltas.save('a', { seq: 4, redactions: 1, json: '["new"]' }, 5000), true);
    assert.deepEqual(await follow(), { seq: 4, json: '["new"]' });
  },
  'a copy of a run that was redacted since it was read, or deleted, is not created': async store => {
    await store.putBlob('a', DIGEST, '"two"');
    await redactNothing(store);
    const event = begin('fork', { forkOf: { runId: 'a', at: 2 } });
    const copy = (source: { runId: string; redactions: number }) =>
      store.create(event, undefined, { events: [receive('two')], status: 'waiting', source });
    await isRefusedAsChanged(copy({ runId: 'a', redactions: 0 }));
    await isRefusedAsChanged(copy({ runId: 'none', redactions: 0 }));
    assert.equal(await store.get('fork'), undefined);
    assert.equal(await store.readBlob('fork', DIGEST, 0, 9), undefined);
    assert.deepEqual(await copy({ runId: 'a', redactions: 1 }), { epoch: 0, seq: 2 });
    assert.equal((await store.readBlob('fork', DIGEST, 0, 9))?.length, 5);
    assert.equal((await store.get('fork'))?.redactions, 0);
  },
  'a run created again after it was deleted was never redacted': async store => {
    await store.rewrite('a', redactSecond(4));
    await store.delete('a', { now: 9000 });
    await store.create(begin('a', { input: [say('again')] }));
    assert.deepEqual(await fieldsOf(store, 'a', 'redactions'), [0]);
    const guard = { after: 1, input: true } as const;
    assert.deepEqual(await store.append('a', guard, [receive('2')], WAITING), { type: 'appended', seq: 2 });
  },
});
