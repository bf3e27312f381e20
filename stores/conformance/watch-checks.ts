import assert from 'node:assert/strict';
import type { Store } from '../../protocol/store.ts';
import type { SharedChecks } from './check.ts';
import { begin, RUNNING, receive, request } from './samples.ts';

/** How long a hint may take, in ms; it usually comes within a few. */
const PATIENCE_MS = 10_000;

/** Checks of the hints that a store gives to its watchers. A store without `watch` and `watchWork` passes them. */
export const watchChecks: SharedChecks = {
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
};

/** Checks of stores whose connections can be cut. */
export const connectionChecks: SharedChecks = {
  'a store whose connections were cut continues: an append counts once, and watchers are notified': async (
    store,
    other,
    disconnect,
  ) => {
    await store.create(begin('a'));
    const told = watch(store, 'a');
    await told?.after(() => other.append('a', { after: 1, input: true }, [receive('x')], RUNNING));
    await disconnect();
    const guard = { after: 2, input: true } as const;
    const result = await store.append('a', guard, [receive('y')], RUNNING);
    assert.deepEqual(result, { type: 'appended', seq: 3 });
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
