import { describe, expect, test } from 'vitest';
import { latestIn, type Store, type StoreFeed } from '../../protocol/store.ts';
import { storeChecks } from '../../stores/conformance.ts';
import { memory } from '../../stores/memory.ts';
import { type Fault, REDACTION_FAULTS } from '../support/stores/redaction-faults.ts';

/** A memory store with some of its methods replaced. */
function breakStore(change: (store: Store) => Partial<Store>): Store {
  const store = memory();
  return {
    create: (...args) => store.create(...args),
    adopt: (...args) => store.adopt(...args),
    append: (...args) => store.append(...args),
    read: (...args) => store.read(...args),
    claim: (...args) => store.claim(...args),
    renew: (...args) => store.renew(...args),
    release: (...args) => store.release(...args),
    saveSnapshot: (...args) => store.saveSnapshot(...args),
    loadSnapshot: (...args) => store.loadSnapshot(...args),
    get: (...args) => store.get(...args),
    list: (...args) => store.list(...args),
    totals: (...args) => store.totals(...args),
    putBlob: (...args) => store.putBlob(...args),
    readBlob: (...args) => store.readBlob(...args),
    chain: (...args) => store.chain(...args),
    delete: (...args) => store.delete(...args),
    prune: options => store.prune(options),
    redact: (...args) => store.redact(...args),
    rewrite: (...args) => store.rewrite(...args),
    close: () => store.close(),
    ...(store.feed && { feed: store.feed }),
    ...(store.count && { count: store.count.bind(store) }),
    ...change(store),
  };
}

function viewOf(feed: StoreFeed): StoreFeed {
  return {
    read: query => feed.read(query),
    end: () => feed.end(),
    take: (name, taken) => feed.take(name, taken),
    save: (...args) => feed.save(...args),
  };
}

/** Hides one entry from the first page that has it, as if its place had been given to it before it committed. */
function showLate(feed: StoreFeed): StoreFeed['read'] {
  let hidden = false;
  return async query => {
    const page = await feed.read(query);
    if (hidden || page.entries.length < 2) return page;
    hidden = true;
    return { ...page, entries: page.entries.slice(1) };
  };
}

const faults: Fault[] = [
  {
    that: 'accepts driver events of any epoch',
    fails: 'an append with an older epoch is superseded, at any seq',
    change: store => ({
      append: (runId, { after }, events, status) =>
        store.append(runId, { after, input: true }, events, status),
    }),
  },
  {
    that: 'ignores the expected length of the journal',
    fails: 'an append after an earlier entry than the last is a conflict and writes nothing',
    change: store => ({
      append: async (runId, guard, events, status) => {
        const after = (await store.get(runId))?.seq ?? 0;
        return store.append(runId, { ...guard, after }, events, status);
      },
    }),
  },
  {
    that: 'checks the length, yields, then writes',
    fails: 'of many concurrent appends after one entry, exactly one succeeds',
    change: store => ({
      append: async (runId, guard, events, status) => {
        const seq = (await store.get(runId))?.seq;
        if (seq !== guard.after) return store.append(runId, guard, events, status);
        for (let after = seq; ; after += 1) {
          const result = await store.append(runId, { ...guard, after }, events, status);
          if (result.type !== 'conflict') return result;
        }
      },
    }),
  },
  {
    that: 'grants the lease to any claimant',
    fails: 'a claim of a held run is refused with the owner and the expiry of the lease',
    change: store => ({ claim: (id, request) => store.claim(id, { ...request, isDead: () => true }) }),
  },
  {
    that: 'never replaces a dead owner',
    fails: 'a dead owner is replaced before its lease expires',
    change: store => ({ claim: (id, request) => store.claim(id, { ...request, isDead: () => false }) }),
  },
  {
    that: 'renews any epoch',
    fails: 'only the current epoch renews the lease',
    change: () => ({ renew: async () => [] }),
  },
  {
    that: 'never releases the lease',
    fails: 'only the current epoch releases the lease',
    change: () => ({ release: async () => {} }),
  },
  {
    that: 'lists the oldest runs first',
    fails: 'runs are listed newest first, and by id if created at the same time',
    change: store => ({
      list: async filter => ({ runs: (await store.list(filter)).runs.reverse() }),
    }),
  },
  {
    that: 'ignores the labels of a filter',
    fails: 'a list can be filtered by status, agent, labels, parent and time, together',
    change: store => ({ list: ({ labels: _, ...filter } = {}) => store.list(filter) }),
  },
  {
    that: 'returns the first page for every cursor',
    fails: 'a list has 50 runs unless limited, and pages continue to its end',
    change: store => ({ list: ({ cursor: _, ...filter } = {}) => store.list(filter) }),
  },
  {
    that: 'forgets the progress that an append brings',
    fails: 'a record has the title, the labels, the origin and the latest progress of its run',
    change: store => ({
      append: (runId, guard, events, { progress: _, ...standing }) =>
        store.append(runId, guard, events, standing),
    }),
  },
  {
    that: 'returns a journal from its start',
    fails: 'a read after an entry returns only the entries that follow',
    change: store => ({ read: runId => store.read(runId) }),
  },
  {
    that: 'returns a journal as one page',
    fails: 'a page ends at its number of entries or characters, and is empty only at the end',
    change: store => ({ read: (runId, after) => store.read(runId, after) }),
  },
  {
    that: 'drops the claim made with a run',
    fails: 'a run can be created with a claim, which is in its journal',
    change: store => ({ create: event => store.create(event) }),
  },
  {
    that: 'creates a run before it validates the rest of its journal',
    fails: 'a run with an event that could not be read back is not created',
    change: store => ({
      create: async (event, claim, rest) => {
        const begun = await store.create(event, claim);
        if (rest === undefined) return begun;
        await store.append(event.runId, { after: 1, input: true }, rest.events, { status: rest.status });
        return { ...begun, seq: 1 + rest.events.length };
      },
    }),
  },
  {
    that: 'commits concurrent appends together, all or none',
    fails: 'concurrent appends to many runs succeed or fail independently',
    change: store => {
      let failure: unknown;
      return {
        append: async (...args) => {
          const result = await store.append(...args).catch(error => {
            failure ??= error;
          });
          await new Promise(resolve => setImmediate(resolve));
          if (result === undefined || failure !== undefined) throw failure;
          return result;
        },
      };
    },
  },
  {
    that: 'returns an append whole, even if a page starts inside it',
    fails: 'a page can begin and end within one append',
    change: store => ({
      read: (runId, after, page) => store.read(runId, after === 2 ? 1 : after, page),
    }),
  },
  {
    that: 'starts every page of a blob at its beginning',
    fails: 'a blob is read as written, in pages of any length',
    change: store => ({ readBlob: (runId, digest, _, length) => store.readBlob(runId, digest, 0, length) }),
  },
  {
    that: 'reads the blobs of all runs through any run',
    fails: 'a blob belongs only to the run for which it was written',
    change: store => ({ readBlob: (_, ...args) => store.readBlob('a', ...args) }),
  },
  {
    that: 'loses the blobs that come with a new run',
    fails: 'a run is created with its blobs, or not at all',
    change: store => ({
      create: (event, claim, rest) => store.create(event, claim, rest && { ...rest, blobs: [] }),
    }),
  },
  {
    that: 'does not give a fork the blobs of its run',
    fails: 'a fork has the blobs that its original had at the time of forking',
    change: store => ({ create: ({ forkOf: _, ...event }, ...rest) => store.create(event, ...rest) }),
  },
  {
    that: 'gives each of several runs that want one place in a thread the next one',
    fails: 'of many runs that are begun at once in a thread, one takes the place',
    change: store => ({
      create: async (event, claim, rest = { events: [], status: 'running' }) => {
        for (let place = rest.place; ; )
          try {
            return await store.create(event, claim, { ...rest, ...(place && { place }) });
          } catch (error) {
            const { latest } = latestIn(error) ?? {};
            if (latest === undefined || latest === null) throw error;
            const { seq = 0 } = (await store.get(latest)) ?? {};
            await store.append(latest, { after: seq, input: true }, [], { status: 'finished' });
            place = { after: latest };
          }
      },
    }),
  },
  {
    that: 'begins a run in a thread whose latest run has not ended',
    fails: 'a second open run of a thread is refused, and so is a run after another than the latest',
    change: store => ({
      create: async (event, claim, rest) => {
        const after = rest?.place && 'after' in rest.place ? rest.place.after : null;
        const { seq, status } = (await store.get(after ?? '')) ?? {};
        if (seq !== undefined && (status === 'waiting' || status === 'running'))
          await store.append(after ?? '', { after: seq, input: true }, [], { status: 'finished' });
        return await store.create(event, claim, rest);
      },
    }),
  },
  {
    that: 'lists the runs of all threads with an id',
    fails: 'the same id with other labels is another thread, and so is each id',
    change: store => ({
      list: ({ thread, ...filter } = {}) =>
        store.list({ ...filter, ...(thread && { thread: typeof thread === 'string' ? thread : thread.id }) }),
    }),
  },
  {
    that: 'reports a run as deleted but keeps it',
    fails: 'a deleted run is unknown to every method, and its id can be used again',
    change: () => ({ delete: async runIds => [runIds].flat() }),
  },
  {
    that: 'deletes a run while it is driven',
    fails:
      'a run is not deleted while it is driven, but after its lease expired or was released or its driver died',
    change: store => ({ delete: runId => store.delete(runId, { isDead: () => true }) }),
  },
  {
    that: 'deletes the runs that continue a run with it',
    fails: 'a run that another run continues is deleted only together with it',
    change: store => ({
      delete: (runId, options) => store.delete(runId, { ...options, cascade: true }),
    }),
  },
  {
    that: 'prunes nothing but says so',
    fails: 'pruning deletes the runs that ended before a time, and needs that time',
    change: store => ({ prune: options => store.prune({ ...options, dryRun: true }) }),
  },
  {
    that: 'prunes regardless of labels',
    fails: 'pruning deletes only runs with all the labels',
    change: store => ({ prune: ({ labels: _, ...options }) => store.prune(options) }),
  },
  {
    that: 'prunes what is driven',
    fails:
      'pruning takes child runs with their parent, and spares what is driven or continued by a run that stays',
    change: store => ({ prune: options => store.prune({ ...options, isDead: () => true }) }),
  },
  {
    that: 'prunes only the first runs',
    fails: 'pruning deletes more runs than one page of a list',
    change: store => ({ prune: async options => (await store.prune(options)).slice(0, 50) }),
  },
  {
    that: 'redacts a journal that has changed since it was read',
    fails: 'a redaction of a run that is longer, driven or unknown changes nothing',
    change: store => ({
      rewrite: async (runId, redaction) =>
        store.rewrite(runId, { ...redaction, after: (await store.get(runId))?.seq ?? 0 }),
    }),
  },
  {
    that: 'keeps a redacted blob',
    fails: 'a redaction replaces the snapshot and removes its blobs, but not from other runs',
    change: store => ({ rewrite: (runId, redaction) => store.rewrite(runId, { ...redaction, blobs: [] }) }),
  },
  {
    that: 'keeps texts that no one follows',
    fails: 'a text is kept only while its run has a follower',
    change: ({ deltas }) => ({
      ...(deltas && {
        deltas: { ...deltas, save: (runId, text) => deltas.save(runId, text, 0).then(() => true) },
      }),
    }),
  },
  {
    that: 'keeps a text that was cleared',
    fails: 'a cleared text is gone, and its run is still followed',
    change: ({ deltas }) => ({ ...(deltas && { deltas: { ...deltas, clear: async () => {} } }) }),
  },
  {
    that: 'shows an entry in its feed only after a later one',
    fails: 'the feed shows every entry once and in order while several connections write',
    change: ({ feed }) => ({ ...(feed && { feed: { ...viewOf(feed), read: showLate(feed) } }) }),
  },
  {
    that: 'gives out one cursor twice',
    fails: 'one reader at a time holds a cursor of the feed, which begins at its end',
    change: ({ feed }) => ({
      ...(feed && {
        feed: { ...viewOf(feed), take: (name, taken) => feed.take(name, { ...taken, isDead: () => true }) },
      }),
    }),
  },
  {
    that: 'returns an empty journal for an unknown run',
    fails: 'calls for an unknown run are rejected and do not create it',
    change: store => ({ read: (...args) => store.read(...args).catch(() => []) }),
  },
];

describe('the conformance checks of a store', () => {
  test('have distinct names', () => {
    const names = storeChecks({ open: async () => memory(), reopen: async store => store }).map(
      ({ name }) => name,
    );
    expect(new Set(names).size).toBe(names.length);
  });

  test.each([...faults, ...REDACTION_FAULTS])('fail for a store that $that', async ({ fails, change }) => {
    const check = storeChecks({
      open: async () => breakStore(change),
      openAgain: async store => store,
    }).find(({ name }) => name === fails);
    await expect(check?.run()).rejects.toMatchObject({ name: 'AssertionError' });
  });

  test('of durability fail for a store that is empty when reopened', async () => {
    const open = async () => memory();
    const withoutReopen = storeChecks({ open });
    const durability = storeChecks({ open, reopen: open }).slice(withoutReopen.length);
    expect(durability.length).toBeGreaterThan(0);
    for (const { run } of durability) await expect(run()).rejects.toThrow();
  });
});
