import assert from 'node:assert/strict';
import { isChangedRun, type Redaction, type Store } from '../../protocol/store.ts';
import { begin, type Checks, makeProgress, receive, request, say, WAITING } from './check.ts';

const DIGEST = 'ab'.repeat(32);

const MESSAGES = ['two', 'three', 'four'];

async function beginThree(store: Store, runId = 'a'): Promise<void> {
  const events = MESSAGES.map(text => receive(text));
  await store.create(begin(runId), undefined, { events, status: 'waiting' });
}

/** Returns a redaction of the message in entry `seq`, as planned on a journal of `after` entries. */
function redact(seq: number, after: number, redactions: number): Redaction {
  return {
    after,
    redactions,
    entries: [{ seq, event: receive('gone') }],
    blobs: [],
    state: { text: 'gone' },
    progress: makeProgress('resting.paused'),
    now: 9000,
    isDead: () => false,
    event: { type: 'run.redacted', at: 9000, paths: [`/${seq}/items/0/content/0/text`] },
  };
}

/** Redacts what is redacted already: no entry changes, and none is added. */
async function redactNothing(store: Store): Promise<void> {
  const { seq = 0, redactions = 0 } = (await store.get('a')) ?? {};
  const { event: _, ...nothing } = redact(2, seq, redactions);
  const result = await store.rewrite('a', { ...nothing, entries: [] });
  assert.deepEqual(result, { type: 'appended', seq });
}

async function isRefusedAsChanged(work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, isChangedRun);
}

export const redactionChecks: Checks = {
  'every redaction counts in the record, also one that changes no entry': async store => {
    await beginThree(store);
    assert.equal((await store.get('a'))?.redactions, 0);
    await store.rewrite('a', redact(2, 4, 0));
    assert.equal((await store.get('a'))?.redactions, 1);
    await redactNothing(store);
    const listed = (await store.list()).runs.map(({ redactions, seq }) => ({ redactions, seq }));
    assert.deepEqual(listed, [{ redactions: 2, seq: 5 }]);
  },
  'of two redactions planned on the same journal, one is a conflict and changes nothing': async store => {
    await beginThree(store);
    const results = await Promise.all([2, 3].map(seq => store.rewrite('a', redact(seq, 4, 0))));
    assert.deepEqual(results.map(({ type }) => type).sort(), ['appended', 'conflict']);
    const journal = await store.read('a');
    assert.equal(JSON.stringify(journal).split('"gone"').length - 1, 1);
    assert.equal(journal.length, 5);
  },
  'a redaction planned before another one is a conflict, although the journal is as long': async store => {
    await beginThree(store);
    await redactNothing(store);
    const before = await store.read('a');
    assert.deepEqual(await store.rewrite('a', redact(2, 4, 0)), { type: 'conflict' });
    assert.deepEqual(await store.read('a'), before);
    assert.deepEqual(await store.rewrite('a', redact(2, 4, 1)), { type: 'appended', seq: 5 });
  },
  'the pages of a load that a redaction separates are refused, and all others are of one journal':
    async store => {
      await beginThree(store);
      const page = { entries: 2, chars: 1e9, redactions: 0 };
      assert.equal((await store.read('a', 0, page)).length, 2);
      await store.rewrite('a', redact(2, 4, 0));
      await isRefusedAsChanged(store.read('a', 2, page));
      await isRefusedAsChanged(store.read('a', 5, page));
      const again = { ...page, redactions: 1 };
      const pages = [await store.read('a', 0, again), await store.read('a', 2, again)];
      assert.deepEqual(pages.flat(), (await store.read('a')).slice(0, 4));
      assert.equal(JSON.stringify(pages).includes('"two"'), false);
      assert.equal((await store.read('a', 4, { entries: 2, chars: 1e9 })).length, 1);
    },
  'an append after what was read before a redaction is a conflict': async store => {
    await beginThree(store);
    await redactNothing(store);
    const none = { after: 4, input: true } as const;
    const append = (known: object) => store.append('a', { ...none, ...known }, [receive('5')], WAITING);
    assert.deepEqual(await append({}), { type: 'conflict' });
    assert.deepEqual(await store.append('a', none, [], { status: 'finished' }), { type: 'conflict' });
    assert.equal((await store.get('a'))?.status, 'waiting');
    assert.deepEqual(await append({ redactions: 1 }), { type: 'appended', seq: 5 });
  },
  'a claim after a redaction is granted, and its holder appends only as it has read the run since':
    async store => {
      await beginThree(store);
      await redactNothing(store);
      assert.deepEqual(await store.claim('a', request('one')), { type: 'claimed', epoch: 1, seq: 5 });
      const guard = { after: 5, epoch: 1 };
      assert.deepEqual(await store.append('a', guard, [receive('6')], WAITING), { type: 'conflict' });
      const known = { ...guard, redactions: 1 };
      assert.deepEqual(await store.append('a', known, [receive('6')], WAITING), { type: 'appended', seq: 6 });
    },
  'a redaction ends a lease that has expired: its holder cannot renew it, and an open run is woken':
    async store => {
      await beginThree(store);
      await store.claim('a', request('one'));
      await store.rewrite('a', redact(2, 5, 0));
      const lease = { runId: 'a', epoch: 1 };
      assert.deepEqual(await store.renew([lease], { now: 9000, leaseMs: 1000 }), [lease]);
      const { owner, wakeAt = Number.POSITIVE_INFINITY } = (await store.get('a')) ?? {};
      assert.equal(owner, undefined);
      assert.ok(wakeAt <= 9500, `expected that the run is woken at 9000, got ${wakeAt}`);
    },
  'a snapshot of what was read before a redaction is dropped': async store => {
    await beginThree(store);
    await redactNothing(store);
    const kept = await store.loadSnapshot('a');
    for (const seq of [4, 9]) await store.saveSnapshot('a', { seq, state: { text: 'two' } });
    assert.deepEqual(await store.loadSnapshot('a'), kept);
    await store.saveSnapshot('a', { seq: 4, redactions: 1, state: { text: 'later' } });
    assert.deepEqual(await store.loadSnapshot('a'), { seq: 4, state: { text: 'later' } });
  },
  'a blob of what was read before a redaction is refused, and one of something new is stored':
    async store => {
      await beginThree(store);
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
    await beginThree(store);
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
    await beginThree(store);
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
    await beginThree(store);
    await store.rewrite('a', redact(2, 4, 0));
    await store.delete('a', { now: 9000 });
    await store.create(begin('a', { input: [say('again')] }));
    assert.equal((await store.get('a'))?.redactions, 0);
    const guard = { after: 1, input: true } as const;
    assert.deepEqual(await store.append('a', guard, [receive('2')], WAITING), { type: 'appended', seq: 2 });
  },
};
