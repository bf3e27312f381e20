import assert from 'node:assert/strict';
import type { RunStarted } from '../../protocol/event.ts';
import { type JournalRest, type ListFilter, latestIn, type Store } from '../../protocol/store.ts';
import { begin, type Checks, fieldsOf, listIds, receive, rejectsWith, request, WAITING } from './check.ts';

const LABELS = { user: '7' };
const ENDED = { events: [], status: 'finished' } as const;
const OPEN = { events: [], status: 'waiting' } as const;

function inThread(runId: string, changes: Partial<RunStarted> = {}): RunStarted {
  return begin(runId, { thread: 't', labels: LABELS, ...changes });
}

/** Creates a run of the thread `t` after the run `after`. */
function take(
  store: Store,
  runId: string,
  after: string | null,
  { rest = ENDED, ...changes }: Partial<RunStarted> & { rest?: JournalRest } = {},
) {
  return store.create(inThread(runId, changes), undefined, { ...rest, place: { after } });
}

/** Asserts that a run is refused because the latest run of the thread is `latest`. */
async function isRefused(work: Promise<unknown>, latest: string | null): Promise<void> {
  await assert.rejects(work, error => {
    assert.deepEqual(latestIn(error), { latest });
    return true;
  });
}

const latestOf = (store: Store, labels = LABELS) =>
  listIds(store, { thread: { id: 't', labels }, latest: true });

export const threadChecks: Checks = {
  'the runs of a thread have the places 1, 2, 3, each after the one before': async store => {
    await take(store, 'c', null);
    await take(store, 'b', 'c', { at: 900 });
    await take(store, 'a', 'b', { rest: OPEN });
    const places = await Promise.all(['c', 'b', 'a'].map(runId => fieldsOf(store, runId, 'thread', 'place')));
    assert.deepEqual(places, [
      ['t', 1],
      ['t', 2],
      ['t', 3],
    ]);
    assert.deepEqual(await latestOf(store), ['a']);
  },
  'a second open run of a thread is refused, and so is a run after another than the latest': async store => {
    await isRefused(take(store, 'a', 'none'), null);
    await take(store, 'a', null, { rest: OPEN });
    for (const after of ['a', null]) await isRefused(take(store, 'b', after), 'a');
    await store.append('a', { after: 1, input: true }, [receive('x')], { status: 'finished' });
    for (const after of [null, 'b']) await isRefused(take(store, 'b', after), 'a');
    assert.equal(await store.get('b'), undefined);
    await take(store, 'b', 'a');
    await isRefused(take(store, 'c', 'a'), 'b');
    await rejectsWith('run-exists', take(store, 'a', 'b'));
    assert.deepEqual(await latestOf(store), ['b']);
  },
  'of many runs that are begun at once in a thread, one takes the place': async store => {
    let latest = '';
    for (let round = 1; round <= 4; round += 1) {
      const after = latest || null;
      const runIds = Array.from({ length: 10 }, (_, index) => `run ${round}.${index}`);
      const made = await Promise.allSettled(
        runIds.map(runId =>
          store.create(inThread(runId), request(runId), { ...OPEN, status: 'running', place: { after } }),
        ),
      );
      const won = runIds.filter((_, index) => made[index]?.status === 'fulfilled');
      assert.equal(won.length, 1);
      [latest = ''] = won;
      const { seq = 0 } = (await store.get(latest)) ?? {};
      assert.deepEqual(await latestOf(store), [latest]);
      for (const each of made)
        if (each.status === 'rejected') assert.deepEqual(latestIn(each.reason), { latest });
      await store.append(latest, { after: seq, input: true }, [receive('x')], { status: 'failed' });
    }
  },
  'the same id with other labels is another thread, and so is each id': async store => {
    await take(store, 'a', null, { rest: OPEN });
    await take(store, 'b', null, { rest: OPEN, labels: { user: '8' } });
    await take(store, 'c', null, { rest: OPEN, labels: { user: '7', tenant: 'x' } });
    await take(store, 'd', null, { rest: OPEN, labels: {} });
    await take(store, 'e', null, { rest: OPEN, thread: 'ü "\\' });
    await store.create(begin('f', { labels: LABELS }));
    assert.deepEqual(await latestOf(store), ['a']);
    assert.deepEqual(await listIds(store, { thread: { id: 't', labels: {} } }), ['d']);
    assert.deepEqual(await listIds(store, { thread: { id: 'ü "\\', labels: LABELS } }), ['e']);
    assert.deepEqual(await listIds(store, { thread: 'ü "\\' }), ['e']);
    assert.deepEqual(await listIds(store, { thread: 't' }), [...'dcba']);
    assert.deepEqual(await listIds(store, { thread: 't', labels: LABELS, latest: true }), ['c', 'a']);
    assert.deepEqual(await listIds(store, { thread: 'none' }), []);
    assert.deepEqual(await listIds(store, { labels: LABELS }), ['f', 'e', 'c', 'a']);
    assert.deepEqual(await listIds(store, { labels: LABELS, latest: true }), ['e', 'c', 'a']);
    assert.deepEqual(await listIds(store, { latest: true }), [...'edcba']);
    await rejectsWith('input-invalid', store.list({ thread: '' }));
    await rejectsWith('input-invalid', store.list({ thread: { id: 't' } } as ListFilter));
    await rejectsWith('input-invalid', store.create(inThread('g', { thread: 'a\nb' })));
  },
  'a run without a place is listed with its thread, and nothing follows it': async store => {
    await take(store, 'a', null);
    await store.create(inThread('fork', { forkOf: { runId: 'a', at: 1 } }), undefined, OPEN);
    assert.deepEqual(await fieldsOf(store, 'fork', 'thread', 'place'), ['t', undefined]);
    assert.deepEqual(await listIds(store, { thread: { id: 't', labels: LABELS } }), ['fork', 'a']);
    assert.deepEqual(await listIds(store, { thread: { id: 't', labels: LABELS }, status: 'waiting' }), [
      'fork',
    ]);
    await isRefused(take(store, 'b', 'fork'), 'a');
    await take(store, 'b', 'a');
    assert.deepEqual(await latestOf(store), ['b']);
    assert.deepEqual(await listIds(store, { latest: true, status: 'waiting' }), []);
  },
  'a run can take the place of another, which then has none': async store => {
    await take(store, 'a', null);
    await take(store, 'b', 'a', { rest: OPEN });
    const forkOf = { runId: 'b', at: 1 };
    await store.create(inThread('b2', { forkOf }), undefined, { ...OPEN, place: { of: 'b' } });
    const places = await Promise.all(['a', 'b', 'b2'].map(runId => fieldsOf(store, runId, 'place')));
    assert.deepEqual(places.flat(), [1, undefined, 2]);
    await isRefused(take(store, 'c', 'b'), 'b2');
    await store.create(inThread('b3'), undefined, { ...OPEN, place: { of: 'b' } });
    assert.deepEqual(await fieldsOf(store, 'b3', 'place'), [undefined]);
    await rejectsWith(
      'run-exists',
      store.create(inThread('a'), undefined, { ...ENDED, place: { of: 'b2' } }),
    );
    assert.deepEqual(await latestOf(store), ['b2']);
  },
  'after a run of a thread was deleted, the others keep their places': async store => {
    await take(store, 'a', null);
    for (const [runId, after] of ['ba', 'cb', 'dc']) await take(store, runId ?? '', after ?? '');
    await store.delete('b', { now: 5000 });
    await isRefused(take(store, 'e', 'c'), 'd');
    await store.delete('d', { now: 5000 });
    assert.deepEqual(await latestOf(store), ['c']);
    await take(store, 'e', 'c');
    assert.deepEqual(await latestOf(store), ['e']);
    assert.deepEqual(await store.delete(['a', 'c', 'e'], { now: 5000 }), ['a', 'c', 'e']);
    assert.deepEqual(await latestOf(store), []);
    await take(store, 'a', null);
    assert.deepEqual(await fieldsOf(store, 'a', 'place'), [1]);
  },
  'several runs are deleted together, or none': async store => {
    await take(store, 'a', null);
    await take(store, 'b', 'a', { continues: 'a' });
    const driven = { events: [], status: 'running', place: { after: 'b' } } as const;
    await store.create(inThread('c', { continues: 'b' }), request('one'), driven);
    await rejectsWith('refused', store.delete(['a', 'b', 'c'], { now: 5500 }));
    await rejectsWith('run-unknown', store.delete(['a', 'none'], { now: 7000, cascade: true }));
    assert.deepEqual(await listIds(store, { order: 'asc' }), ['a', 'b', 'c']);
    assert.deepEqual(await store.delete(['a', 'b', 'c'], { now: 7000 }), ['a', 'b', 'c']);
    assert.deepEqual(await listIds(store), []);
  },
  'an adopted run takes the place after the latest run of its thread': async store => {
    const adopted = { agent: 'refunds', title: '', thread: 't', labels: LABELS, createdAt: 900, seq: 3 };
    await take(store, 'a', null);
    await store.adopt({ ...adopted, runId: 'b', ...WAITING, state: {} });
    assert.deepEqual(await fieldsOf(store, 'b', 'thread', 'place'), ['t', 2]);
    await isRefused(store.adopt({ ...adopted, runId: 'c', ...WAITING, state: {} }), 'b');
    assert.equal(await store.get('c'), undefined);
    await rejectsWith('run-exists', store.adopt({ ...adopted, runId: 'a', ...WAITING, state: {} }));
  },
};

export const sharedThreadChecks: Checks = {
  'of two stores that begin a run in a thread at once, one takes the place': async (store, { openAgain }) => {
    const stores = [store, await openAgain()];
    let latest = '';
    for (let round = 0; round < 25; round += 1) {
      const after = latest || null;
      const made = await Promise.allSettled(
        stores.map((each, index) => take(each, `run ${round}.${index}`, after, { rest: OPEN })),
      );
      const won = made.flatMap(({ status }, index) =>
        status === 'fulfilled' ? [`run ${round}.${index}`] : [],
      );
      assert.equal(won.length, 1);
      [latest = ''] = won;
      await store.append(latest, { after: 1, input: true }, [receive('x')], { status: 'finished' });
    }
    assert.deepEqual(await fieldsOf(store, latest, 'place'), [25]);
  },
  'a run that follows the latest one is deleted with it, or keeps it': async (store, { openAgain }) => {
    const other = await openAgain();
    for (let round = 0; round < 15; round += 1) {
      await take(store, `a${round}`, null);
      const [deleted, followed] = await Promise.allSettled([
        store.delete(`a${round}`, { now: 5000 }),
        take(other, `b${round}`, `a${round}`, { continues: `a${round}`, rest: OPEN }),
      ]);
      assert.notEqual(deleted.status, followed.status);
      if (followed.status === 'fulfilled') await store.delete(`a${round}`, { now: 5000, cascade: true });
      assert.deepEqual(await latestOf(store), []);
    }
  },
};
