import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Store } from '../../protocol/store.ts';
import { begin, receive, request } from '../../stores/conformance/check.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { calls, eventsOf, makeTracedTool } from '../support/engine/agents.ts';
import { interceptCommits, sqliteError } from '../support/stores/commits.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { change, fail } from '../support/stores/make-journal.ts';

const RUNS = ['a', 'b', 'c', 'd'];
const SYNC_FAILED = () => sqliteError(1034, 'disk I/O error');

let restore = () => {};
afterEach(() => restore());

/** Replaces each COMMIT; see `interceptCommits`. */
function intercept(...args: Parameters<typeof interceptCommits>) {
  const intercepted = interceptCommits(...args);
  restore = intercepted.restore;
  return intercepted.counted;
}

async function open() {
  const file = makeFile();
  const store = sqlite(file);
  await Promise.all(RUNS.map(runId => store.create(begin(runId))));
  return { file, store };
}

const append = (store: Store, runId: string, after = 1) =>
  store.append(runId, { after, input: true }, [receive(`${runId} ${after}`)], { status: 'waiting' });

async function lengthsOf(store: Store): Promise<number[]> {
  return Promise.all(RUNS.map(async runId => (await store.read(runId)).length));
}

describe('writes made in one turn of the event loop', () => {
  test('are one commit, in the order of the calls', async () => {
    const { store } = await open();
    const counted = intercept(commit => commit());
    const results = await Promise.all([
      ...RUNS.map(runId => append(store, runId)),
      append(store, 'a', 2),
      append(store, 'a', 2),
      store.claim('b', request('one')),
      store.renew([{ runId: 'b', epoch: 1 }], { now: 8000, leaseMs: 1000 }),
      store.saveSnapshot('c', { seq: 2, state: {} }),
    ]);
    expect(counted.commits).toBe(1);
    expect(results).toMatchObject([
      ...RUNS.map(() => ({ type: 'appended', seq: 2 })),
      { type: 'appended', seq: 3 },
      { type: 'conflict' },
      { type: 'claimed', epoch: 1, seq: 3 },
      [],
      undefined,
    ]);
    await append(store, 'd', 2);
    expect(counted.commits).toBe(2);
    await store.close();
  });

  test('are undone for the failing call only', async () => {
    const { file, store } = await open();
    change(
      file,
      `CREATE TRIGGER fault BEFORE UPDATE ON runs WHEN new.run_id = 'b' BEGIN SELECT RAISE(ABORT, 'fault'); END`,
    );
    const [a, b, unknown, c, later] = [
      append(store, 'a'),
      fail(append(store, 'b')),
      fail(append(store, 'nobody')),
      append(store, 'c'),
      append(store, 'd', 0),
    ];
    expect(await Promise.all([a, c, later])).toEqual([
      { type: 'appended', seq: 2 },
      { type: 'appended', seq: 2 },
      { type: 'conflict' },
    ]);
    expect([(await b).code, (await unknown).code]).toEqual(['store-damaged', 'run-unknown']);
    expect(await lengthsOf(store)).toEqual([2, 1, 2, 1]);
    change(file, 'DROP TRIGGER fault');
    expect(await append(store, 'b')).toEqual({ type: 'appended', seq: 2 });
    expect(await lengthsOf(store)).toEqual([2, 2, 2, 1]);
    await store.close();
  });

  test('are done once each, except for the call that made SQLite roll back the whole transaction', async () => {
    const { file, store } = await open();
    change(
      file,
      `CREATE TRIGGER fault BEFORE UPDATE ON runs WHEN new.run_id = 'c' BEGIN SELECT RAISE(ROLLBACK, 'fault'); END`,
    );
    const [refused, ...others] = await Promise.all([
      fail(append(store, 'c')),
      ...['a', 'b', 'd'].map(runId => append(store, runId)),
    ]);
    expect(refused.code).toBe('store-damaged');
    expect(others).toEqual(others.map(() => ({ type: 'appended', seq: 2 })));
    expect(await lengthsOf(store)).toEqual([2, 2, 1, 2]);
    await store.close();
  });

  test('are committed before the store closes', async () => {
    const { file, store } = await open();
    const appended = append(store, 'a');
    await store.close();
    expect(await appended).toEqual({ type: 'appended', seq: 2 });
    expect(await sqlite(file).read('a')).toHaveLength(2);
    expect(await fail(append(store, 'a', 2))).toMatchObject({ code: 'store-unavailable' });
  });
});

describe('a failing commit', () => {
  test.each([
    ['whose answer was lost', true],
    ['that was not applied after all', false],
  ])('%s acknowledges nothing, and the store returns the state on disk', async (_, isMade) => {
    const { file, store } = await open();
    intercept((commit, nth) => {
      if (nth > 1 || isMade) commit();
      if (nth === 1) throw SYNC_FAILED();
    });
    const errors = await Promise.all(RUNS.map(runId => fail(append(store, runId))));
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'store-reply-lost', details: { file } });
      expect(error.message).toContain('disk I/O error');
    }
    const length = isMade ? 2 : 1;
    expect(await lengthsOf(store)).toEqual(RUNS.map(() => length));
    expect(await append(store, 'a', length)).toEqual({ type: 'appended', seq: length + 1 });
    await store.close();
  });

  test('with a full disk writes nothing, and the same store continues', async () => {
    const { store } = await open();
    intercept((commit, nth) => {
      if (nth === 1) throw sqliteError(13, 'database or disk is full');
      commit();
    });
    const errors = await Promise.all(RUNS.map(runId => fail(append(store, runId))));
    expect(new Set(errors.map(({ code }) => code))).toEqual(new Set(['store-full']));
    expect(await lengthsOf(store)).toEqual([1, 1, 1, 1]);
    expect(await append(store, 'a')).toEqual({ type: 'appended', seq: 2 });
    await store.close();
  });

  test('with a locked store is retried', async () => {
    const { store } = await open();
    intercept((commit, nth) => {
      if (nth < 3) throw sqliteError(5, 'database is locked');
      commit();
    });
    const results = await Promise.all(RUNS.map(runId => append(store, runId)));
    expect(results).toEqual(RUNS.map(() => ({ type: 'appended', seq: 2 })));
    expect(await lengthsOf(store)).toEqual([2, 2, 2, 2]);
    await store.close();
  });

  test.each([1, 2, 3, 4])(
    'during several runs (commit %i) is survived by all of them: each continues from the disk, and no call is made twice',
    async lost => {
      const store = sqlite(makeFile());
      const keys: string[] = [];
      const agent = createAgent({
        name: 'a',
        store,
        model: scripted([calls('pay'), { text: 'done' }]),
        tools: [makeTracedTool('pay', keys, { sideEffect: 'idempotent' })],
      });
      const runs = await Promise.all(['one', 'two', 'three'].map(text => agent.start(text)));
      let failed = 0;
      intercept((commit, nth) => {
        commit();
        if (nth === lost) failed += 1;
        if (nth === lost) throw SYNC_FAILED();
      });
      await Promise.allSettled(runs.map(run => run.settled()));
      const settled = await Promise.all(runs.map(run => run.settled()));
      expect(failed).toBe(1);
      expect(settled.map(({ status }) => status)).toEqual(['finished', 'finished', 'finished']);
      for (const { id } of runs) {
        const results = (await eventsOf(store, id)).filter(({ type }) => type === 'tool.settled');
        expect(results).toHaveLength(1);
      }
      expect(new Set(keys).size).toBe(3);
      await store.close();
    },
  );
});

describe('an append of several events', () => {
  test('is one row, and each of its entries is read, paged and reported individually', async () => {
    const { file, store } = await open();
    const events = ['2', '3', '4', '5'].map(text => receive(text));
    await store.append('b', { after: 1, input: true }, events, { status: 'running' });
    await store.append('b', { after: 5, input: true }, [receive('6')], { status: 'running' });
    expect(rowsOf(file, 'b')).toEqual([1, 5, 6]);
    for (let after = 1; after <= 6; after += 1) {
      for (const entries of [1, 2, 9]) {
        const page = await store.read('b', after, { entries, chars: Number.POSITIVE_INFINITY });
        const expected = Array.from(
          { length: Math.min(entries, 6 - after) },
          (_, index) => after + index + 1,
        );
        expect(page.map(({ seq }) => seq)).toEqual(expected);
      }
    }
    change(file, `UPDATE appends SET json = replace(json, '"4"', '"8"')`);
    const expected = { code: 'journal-damaged', details: { runId: 'b', seq: 4 } };
    expect(await fail(store.read('b'))).toMatchObject(expected);
    expect(await fail(store.read('b', 2))).toMatchObject(expected);
    expect((await store.read('b', 4)).map(({ event }) => event)).toEqual([receive('5'), receive('6')]);
    expect(await store.readJson?.('b', 3)).toHaveLength(3);
    await store.close();
  });

  test('that loses one of its lines is damaged from its first entry on', async () => {
    const { file, store } = await open();
    const events = ['2', '3', '4'].map(text => receive(text));
    await store.append('b', { after: 1, input: true }, events, { status: 'running' });
    change(file, `UPDATE appends SET json = substr(json, instr(json, char(10)) + 1) WHERE seq = 4`);
    expect(await fail(store.read('b'))).toMatchObject({ details: { runId: 'b', seq: 2 } });
    await store.close();
  });

  test('does not hide the entries after a recorded end inside of it', async () => {
    const { file, store } = await open();
    await store.append('b', { after: 1, input: true }, [receive('2'), receive('3')], { status: 'running' });
    change(
      file,
      `UPDATE runs SET seq = 1, end_sum = (SELECT sums FROM appends WHERE run = runs.run AND seq = 1)`,
    );
    const append = store.append('b', { after: 1, input: true }, [receive('x')], { status: 'running' });
    expect(await fail(append)).toMatchObject({ code: 'journal-damaged', details: { runId: 'b', seq: 2 } });
    await store.close();
  });

  test('uses several rows if it is long, so that a page reads little more than it returns', async () => {
    const file = makeFile();
    const store = sqlite(file);
    const events = Array.from({ length: 200 }, (_, index) => receive(`${index} ${'x'.repeat(2000)}`));
    await store.create(begin('a'), undefined, { events, status: 'running' });
    const rows = rowsOf(file, 'a');
    expect(rows.length).toBeGreaterThan(4);
    expect(rows.length).toBeLessThan(20);
    expect((await store.read('a', 1)).map(({ event }) => event)).toEqual(events);
    await store.close();
  });
});

/** The last entry of each row of the run. */
function rowsOf(file: string, runId: string): number[] {
  const db = new DatabaseSync(file);
  const rows = db
    .prepare('SELECT appends.seq FROM appends JOIN runs USING (run) WHERE run_id = ? ORDER BY appends.place')
    .all(runId);
  db.close();
  return rows.map(({ seq }) => Number(seq));
}
