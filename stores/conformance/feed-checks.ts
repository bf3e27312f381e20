import assert from 'node:assert/strict';
import { omitUndefined } from '../../protocol/json.ts';
import type { FeedEntry, Store, StoreFeed } from '../../protocol/store.ts';
import {
  type Bench,
  begin,
  type Checks,
  checksOf,
  RUNNING,
  receive,
  rejectsWith,
  request,
  testOwner,
} from './check.ts';

function placesOf(entries: readonly FeedEntry[]): string[] {
  return entries.map(({ runId, seq }) => `${runId}${seq}`);
}

async function readAll(feed: StoreFeed, after?: string, limit = 2): Promise<FeedEntry[]> {
  const found: FeedEntry[] = [];
  for (let cursor = after; ; ) {
    const page = await feed.read({ limit, ...omitUndefined({ after: cursor }) });
    if (page.entries.length === 0) return found;
    found.push(...page.entries);
    cursor = page.next;
  }
}

function taking(id: string, changes: Partial<Parameters<StoreFeed['take']>[1]> = {}) {
  return { owner: testOwner(id), now: 5_000, until: 6_000, isDead: () => false, ...changes };
}

export const feedChecks = checksOf(({ feed }) => feed, {
  'the feed has the entries of all runs in the order of their commits, page by page': async (store, feed) => {
    await store.create(begin('a'), request('one'), { events: [receive('2')], ...RUNNING });
    await store.create(begin('b'));
    await store.append('a', { after: 3, input: true }, [receive('4'), receive('5')], RUNNING);
    await store.claim('b', request('two'));
    for (const limit of [1, 2, 3, 100]) {
      const entries = await readAll(feed, undefined, limit);
      assert.deepEqual(placesOf(entries), ['a1', 'a2', 'a3', 'b1', 'a4', 'a5', 'b2']);
      assert.deepEqual(entries[4]?.event, receive('4'));
    }
  },
  'every cursor of the feed continues after its entry, and the end is last': async (store, feed) => {
    await store.create(begin('a'), undefined, { events: [receive('2'), receive('3')], ...RUNNING });
    await store.create(begin('b'));
    const entries = await readAll(feed);
    for (const [index, { cursor }] of entries.entries())
      assert.deepEqual(placesOf(await readAll(feed, cursor)), placesOf(entries.slice(index + 1)));
    const end = await feed.end();
    assert.deepEqual(await feed.read({ after: end }), { entries: [], next: end });
    await store.append('b', { after: 1, input: true }, [receive('2')], RUNNING);
    assert.deepEqual(placesOf(await readAll(feed, end)), ['b2']);
  },
  'the feed skips no entry after a deletion, and has none of deleted runs': async (store, feed) => {
    await store.create(begin('a'));
    await store.create(begin('b'));
    const end = await feed.end();
    await store.delete('b');
    await store.create(begin('c'));
    assert.deepEqual(placesOf(await readAll(feed, end)), ['c1']);
    assert.deepEqual(placesOf(await readAll(feed)), ['a1', 'c1']);
  },
  'a text that is not a cursor of a feed is refused': async (_, feed) => {
    for (const after of ['', 'x', '1', '1.2.3', '-1.0'])
      await rejectsWith('input-invalid', feed.read({ after }));
  },
  'one reader at a time holds a cursor of the feed, which begins at its end': async (store, feed) => {
    await store.create(begin('a'));
    const taken = await feed.take('hook', taking('one'));
    assert.deepEqual(taken, { type: 'taken', cursor: await feed.end() });
    await store.create(begin('b'));
    const held = { type: 'held', owner: testOwner('one'), until: 6_000 };
    assert.deepEqual(await feed.take('hook', taking('two')), held);
    assert.equal(await feed.save('hook', 'two', { cursor: '0.0', until: 9_000 }), false);
    assert.deepEqual(await feed.take('hook', taking('one')), taken);
    const cursor = await feed.end();
    assert.equal(await feed.save('hook', 'one', { cursor, until: 7_000 }), true);
    assert.equal((await feed.take('hook', taking('two', { now: 6_500 }))).type, 'held');
    const free = [taking('two', { now: 7_000, until: 8_000 }), taking('three', { isDead: () => true })];
    for (const next of free) assert.deepEqual(await feed.take('hook', next), { type: 'taken', cursor });
    assert.equal(await feed.save('hook', 'one', { cursor: '0.0', until: 9_000 }), false);
    assert.equal((await feed.take('other', taking('one'))).type, 'taken');
  },
});

export const lastingFeedChecks: Checks = {
  'the feed and its cursors survive reopening the store': async (store, { reopen }) => {
    if (store.feed === undefined) return;
    await store.create(begin('a'), undefined, { events: [receive('2')], ...RUNNING });
    const [first] = (await store.feed.read()).entries;
    await store.feed.take('hook', taking('one'));
    await store.feed.save('hook', 'one', { cursor: first?.cursor ?? '', until: 0 });
    const { feed } = await reopen();
    assert.ok(feed);
    assert.deepEqual(await feed.take('hook', taking('two')), { type: 'taken', cursor: first?.cursor });
    assert.deepEqual(placesOf(await readAll(feed, first?.cursor)), ['a2']);
  },
};

const WRITERS = 4;
const APPENDS = 25;

const another = (_: Store, { openAgain }: Bench) => openAgain();

export const sharedFeedChecks = checksOf(another, {
  'the feed shows every entry once and in order while several connections write': async (store, other) => {
    const { feed } = store;
    if (feed === undefined) return;
    const connections = [store, other];
    const write = async (writer: number) => {
      const runId = `r${writer}-`;
      const connection = connections[writer % 2] ?? store;
      await connection.create(begin(runId));
      for (let after = 1; after <= APPENDS; after += 1)
        await connection.append(runId, { after, input: true }, [receive(String(after))], RUNNING);
    };
    let done = false;
    const writing = Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)));
    const finished = writing.finally(() => {
      done = true;
    });
    const seen: FeedEntry[] = [];
    for (let cursor = '0.0'; ; ) {
      const wasDone = done;
      const page = await feed.read({ after: cursor, limit: 3 });
      seen.push(...page.entries);
      cursor = page.next;
      if (wasDone && page.entries.length === 0) break;
      await new Promise(resolve => setTimeout(resolve, 0));
    }
    await finished;
    const expected = Array.from({ length: WRITERS }, (_, writer) =>
      Array.from({ length: APPENDS + 1 }, (_, index) => `r${writer}-${index + 1}`),
    );
    for (const [writer, places] of expected.entries())
      assert.deepEqual(placesOf(seen.filter(({ runId }) => runId === `r${writer}-`)), places);
    assert.equal(seen.length, WRITERS * (APPENDS + 1));
    assert.deepEqual(placesOf(await readAll(feed, undefined, 50)), placesOf(seen));
  },
});

/** How long a hint may take, in ms; it usually comes within a few. */
const PATIENCE_MS = 10_000;

/** Checks of the hints that a store gives to its watchers. A store without `watch` and `watchWork` passes them. */
export const watchChecks = checksOf(another, {
  'a watcher of a run gets the inputs and claims of others, until it ends': async (store, other) => {
    await other.create(begin('a'));
    const told = watch(store, 'a');
    if (told === undefined) return;
    await told.after(() => other.append('a', { after: 1, input: true }, [receive('x')], RUNNING));
    await told.after(() => other.claim('a', request('one')));
    told.end();
    const count = told.count();
    const later = watch(store, 'a');
    await later?.after(() => other.append('a', { after: 3, input: true }, [receive('y')], RUNNING));
    later?.end();
    assert.equal(told.count(), count);
  },
  'a watcher of work is notified of new runs, inputs, released runs and woken runs': async (store, other) => {
    const told = store.watchWork && watchWith(onWork => store.watchWork?.(onWork));
    if (told === undefined) return;
    await told.after(() => other.create(begin('a'), undefined, { events: [], status: 'waiting' }));
    await told.after(() => other.append('a', { after: 1, input: true }, [receive('x')], RUNNING));
    await other.claim('a', request('one'));
    await told.after(() => other.release('a', 1));
    await other.create(begin('child'), request('two'));
    const standing = { status: 'finished', wakes: 'a' } as const;
    await told.after(() => other.append('child', { after: 2, epoch: 1 }, [receive('y')], standing));
    told.end();
  },
});

export const connectionChecks: Checks = {
  'a store whose connections were cut appends once and notifies watchers': async (
    store,
    { openAgain, disconnect },
  ) => {
    const other = await openAgain();
    await store.create(begin('a'));
    const told = watch(store, 'a');
    await told?.after(() => other.append('a', { after: 1, input: true }, [receive('x')], RUNNING));
    await disconnect();
    const guard = { after: 2, input: true } as const;
    assert.deepEqual(await store.append('a', guard, [receive('y')], RUNNING), { type: 'appended', seq: 3 });
    assert.equal((await store.read('a')).length, 3);
    await told?.after(() => other.claim('a', request('one')));
    await told?.after(() => other.append('a', { after: 4, input: true }, [receive('z')], RUNNING));
    told?.end();
  },
};

function watch(store: Store, runId: string) {
  return store.watch && watchWith(onChange => store.watch?.(runId, onChange));
}

/** Counts the notifications of a watcher. `after` does something and resolves once the watcher is notified. */
function watchWith(watch: (onTold: () => void) => (() => void) | undefined) {
  let count = 0;
  let wake = () => {};
  const end = watch(() => {
    count += 1;
    wake();
  });
  return {
    count: () => count,
    end: () => end?.(),
    async after(act: () => Promise<unknown>): Promise<void> {
      const before = count;
      await act();
      const { promise: told, resolve, reject } = Promise.withResolvers<void>();
      wake = resolve;
      const timer = setTimeout(() => reject(new Error(`Not told within ${PATIENCE_MS} ms.`)), PATIENCE_MS);
      if (count > before) resolve();
      await told.finally(() => clearTimeout(timer));
    },
  };
}
