import assert from 'node:assert/strict';
import type { Store, WorkRequest } from '../../protocol/store.ts';
import { begin, checksOf, RUNNING, receive, rejectsWith, request, WAITING } from './check.ts';

/** Checks of the work that stores hand out. A store without `takeWork` passes them. */
export const workChecks = checksOf(takeFrom, {
  'work is a run that no process drives and that has something to do': async (store, take) => {
    await store.create(begin('free'));
    await store.create(begin('driven'), request('one'));
    await store.create(begin('waiting'), undefined, { events: [], status: 'waiting' });
    await store.create(begin('ended'), undefined, { events: [], status: 'finished' });
    assert.deepEqual(await take({}), ['free']);
    assert.deepEqual(await take({ now: 6000 }), ['driven', 'free']);
  },
  'a reserved run is not work until its reservation ends, or its claim is released': async (store, take) => {
    await store.create(begin('a'));
    assert.deepEqual(await take({ reserveMs: 500 }), ['a']);
    assert.deepEqual(await take({ now: 5499 }), []);
    assert.deepEqual(await take({ now: 5500, reserveMs: 9000 }), ['a']);
    await store.claim('a', request('one', { now: 5600 }));
    assert.deepEqual(await take({ now: 5700 }), []);
    await store.release('a', 1);
    assert.deepEqual(await take({ now: 5800 }), ['a']);
  },
  'the records of the work are returned, longest untouched first, up to the limit': async (store, take) => {
    await store.create(begin('new', { at: 3000 }));
    await store.create(begin('old', { at: 1000 }));
    await store.create(begin('touched', { at: 500 }));
    await store.append('touched', { after: 1, input: true }, [receive('x', 4000)], RUNNING);
    assert.deepEqual(await store.takeWork?.({ ...WORK, limit: 1 }), [await store.get('old')]);
    assert.deepEqual(await take({ limit: 0 }), []);
    assert.deepEqual(await take({}), ['new', 'touched']);
  },
  'a release wakes a run that rests without a lease, unless it was claimed since': async (store, take) => {
    await store.create(begin('a'), undefined, { events: [], status: 'waiting', wakeAt: 9000 });
    await store.release('a', 0, 5000);
    assert.deepEqual(await take({}), ['a']);
    await store.claim('a', request('one', { now: 5000 }));
    await store.release('a', 0, 5000);
    assert.deepEqual(await take({}), []);
    await store.release('a', 1, 9000);
    assert.deepEqual(await take({}), []);
    assert.equal((await store.get('a'))?.wakeAt, 9000);
  },
  'work is of the agents, their versions and the charts of the request': async (store, take) => {
    const chart = { version: 2, hash: 'later' };
    await store.create(begin('a', { agent: { name: 'refunds', version: '1' } }));
    await store.create(begin('b', { at: 1001, agent: { name: 'refunds', version: '2' }, chart }));
    await store.create(begin('c', { at: 1002, agent: { name: 'other' } }));
    const state = { fold: 7 };
    const times = { createdAt: 1003, seq: 7 };
    const adopted = { title: '', labels: {}, ...times, state, status: 'running' } as const;
    await store.adopt({ ...adopted, runId: 'd', agent: 'refunds' });
    await store.adopt({ ...adopted, runId: 'e', agent: 'refunds', agentVersion: '3', chart });
    assert.deepEqual(await take({ agents: [{ name: 'none' }] }), []);
    assert.deepEqual(await take({ agents: [{ name: 'refunds' }], reserveMs: 0 }), ['a', 'b', 'd', 'e']);
    const one = { agents: [{ name: 'refunds', versions: ['1'] }], reserveMs: 0 };
    assert.deepEqual(await take(one), ['a', 'd']);
    assert.deepEqual(await take({ ...one, charts: [chart] }), ['d']);
    assert.deepEqual(await take({ charts: [chart], reserveMs: 0 }), ['b', 'd', 'e']);
    const all = await take({ agents: [{ name: 'other' }, { name: 'refunds' }] });
    assert.deepEqual(all, ['a', 'b', 'c', 'd', 'e']);
  },
  'a run that rests is work at the time that its last append named': async (store, take) => {
    await store.create(begin('a'), undefined, { events: [], status: 'waiting', wakeAt: 5500 });
    assert.equal((await store.get('a'))?.wakeAt, 5500);
    assert.deepEqual(await take({ now: 5499 }), []);
    await store.append('a', { after: 1, input: true }, [receive('x', 5000)], { ...WAITING, wakeAt: 5400 });
    assert.deepEqual(await take({ now: 5399 }), []);
    assert.deepEqual(await take({ now: 5400, reserveMs: 0 }), ['a']);
    await store.claim('a', request('one', { now: 5400, leaseMs: 100 }));
    assert.equal((await store.get('a'))?.wakeAt, undefined);
    await store.release('a', 1);
    assert.deepEqual(await take({ now: 9000 }), []);
  },
  'a due time to wake a run stays until a claim, and a later one is replaced': async (store, take) => {
    await store.create(begin('a'), undefined, { events: [], status: 'waiting', wakeAt: 5500 });
    await store.takeWork?.({ ...WORK, now: 5200 });
    await store.append('a', { after: 1, input: true }, [receive('x', 5200)], WAITING);
    assert.equal((await store.get('a'))?.wakeAt, undefined);
    await store.create(begin('b'), undefined, { events: [], status: 'waiting', wakeAt: 5500 });
    assert.deepEqual(await take({ now: 5600, reserveMs: 0 }), ['b']);
    await store.append('b', { after: 1, input: true }, [receive('x', 5600)], WAITING);
    assert.deepEqual(await take({ now: 5600 }), ['b']);
  },
  'a released lease names when the run is driven again; the earlier time counts': async (store, take) => {
    await store.create(begin('a'), request('one'), { events: [], status: 'waiting', wakeAt: 5900 });
    await store.release('a', 1, 5700);
    assert.deepEqual(await take({ now: 5699 }), []);
    await store.claim('a', request('two', { now: 5699 }));
    await store.release('a', 2, 5800);
    assert.equal((await store.get('a'))?.wakeAt, 5700);
    assert.deepEqual(await take({ now: 5700 }), ['a']);
  },
  'a run that rests and was not released is work when its lease has ended': async (store, take) => {
    await store.create(begin('a'), request('one'), { events: [], status: 'waiting' });
    assert.deepEqual(await take({ now: 5999 }), []);
    assert.deepEqual(await take({ now: 6000 }), ['a']);
  },
  'a run of a dead owner is work before its lease ends': async (store, take) => {
    const owner = (pid: number) => ({ id: `driver ${pid}`, host: 'host', pid, startedAt: 'then' });
    for (const pid of [1, 2]) await store.create(begin(`run ${pid}`), request('', { owner: owner(pid) }));
    assert.deepEqual(await take({ isDead: ({ pid }) => pid === 2 }), ['run 2']);
  },
  'an append wakes another run in its commit, unless that has ended': async (store, take) => {
    await store.create(begin('parent'), undefined, { events: [], status: 'waiting' });
    await store.create(begin('ended'), undefined, { events: [], status: 'finished' });
    const guard = { after: 2, epoch: 1 };
    const end = async (runId: string, wakes: string, epoch = 1) =>
      await store.append(runId, { ...guard, epoch }, [receive('x', 5000)], { status: 'finished', wakes });
    for (const id of ['one', 'two', 'three']) await store.create(begin(id), request(id));
    assert.equal((await end('one', 'parent', 0)).type, 'superseded');
    assert.deepEqual(await take({ reserveMs: 0 }), []);
    for (const [id, wakes] of Object.entries({ one: 'parent', two: 'ended', three: 'none' })) {
      assert.equal((await end(id, wakes)).type, 'appended');
      await store.release(id, 1);
      assert.deepEqual(await take({ reserveMs: 0 }), ['parent']);
    }
  },
  'a new run changes the standing of others in its commit': async (store, take) => {
    for (const id of ['old', 'below']) await store.create(begin(id), request(id));
    await store.create(begin('resting'), undefined, { events: [], status: 'waiting' });
    const beside = [
      ...['old', 'below'].map(runId => ({ runId, after: 2, epoch: 1, status: 'cancelled' as const })),
      { runId: 'resting', after: 1, epoch: 0, status: 'running' as const },
    ];
    await store.create(begin('new'), undefined, { events: [], status: 'waiting', wakeAt: 5500, beside });
    const statuses = (await store.list()).runs.map(({ runId, status }) => [runId, status]);
    const ended = { old: 'cancelled', below: 'cancelled' };
    assert.deepEqual(Object.fromEntries(statuses), { ...ended, resting: 'running', new: 'waiting' });
    assert.deepEqual(await take({ now: 9000 }), ['new', 'resting']);
    assert.equal((await store.read('old')).at(-1)?.event.type, 'run.claimed');
  },
  'of runs that change together with a new run, none changes if one cannot': async (store, take) => {
    await store.create(begin('one'));
    await store.create(begin('two'));
    const other = { runId: 'one', after: 1, epoch: 0, status: 'cancelled' as const };
    for (const changed of [{ after: 2 }, { after: 0 }, { epoch: 1 }]) {
      const beside = [other, { ...other, runId: 'two', ...changed }];
      const rest = { events: [], status: 'running', beside } as const;
      await rejectsWith('refused', store.create(begin('new'), undefined, rest));
    }
    assert.deepEqual(await take({}), ['one', 'two']);
  },
  'work is counted as it would be taken, and stays': async (store, take) => {
    const count = async (changes: Partial<WorkRequest> = {}) =>
      (await store.countWork?.({ ...WORK, ...changes })) ?? (await take({ ...changes, reserveMs: 0 })).length;
    await store.create(begin('free'));
    await store.create(begin('driven'), request('one'));
    await store.create(begin('resting'), request('one'), { events: [], status: 'waiting' });
    await store.create(begin('due'), undefined, { events: [], status: 'waiting', wakeAt: 5000 });
    await store.create(begin('later'), undefined, { events: [], status: 'waiting', wakeAt: 5500 });
    await store.create(begin('ended'), undefined, { events: [], status: 'finished' });
    await store.create(begin('other', { agent: { name: 'other' } }));
    assert.equal(await count(), 2);
    assert.equal(await count({ limit: 1 }), 1);
    assert.equal(await count({ agents: [] }), 0);
    assert.equal(await count({ agents: [{ name: 'refunds' }, { name: 'other' }] }), 3);
    assert.equal(await count({ now: 6000 }), 5);
    assert.deepEqual(await take({ reserveMs: 9000 }), ['due', 'free']);
    assert.equal(await count(), 0);
  },
  'of many concurrent requests, each gets other runs': async (store, take) => {
    const ids = Array.from({ length: 12 }, (_, index) => `run ${index}`);
    await Promise.all(ids.map(id => store.create(begin(id))));
    const taken = await Promise.all(Array.from({ length: 8 }, () => take({ limit: 3 })));
    const rest = await take({ limit: 12 });
    assert.deepEqual([...taken.flat(), ...rest].sort(), ids.sort());
  },
});

const WORK: WorkRequest = { agents: [{ name: 'refunds' }], limit: 10, reserveMs: 1000, now: 5000 };

type Take = (request: Partial<WorkRequest>) => Promise<string[]>;

/** Returns what takes the ids of runs; it asserts that the longest untouched came first. */
function takeFrom(store: Store): Take | undefined {
  if (store.takeWork === undefined) return undefined;
  return async changes => {
    const found = (await store.takeWork?.({ ...WORK, ...changes })) ?? [];
    const byAge = found.toSorted((one, other) => one.updatedAt - other.updatedAt);
    assert.deepEqual(found, byAge);
    return found.map(({ runId }) => runId).sort();
  };
}
