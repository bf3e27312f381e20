import type { Owner, Store, StoreFeed } from '../protocol/store.ts';

/** Returns a view of the store that grants no leases: its runs accept reads and commands but cannot be driven. */
export function nonDrivingStore(store: Store): Store {
  const holder = { id: 'non-driving store', host: '', pid: 0, startedAt: '' };
  return {
    create: (event, _, rest) => store.create(event, undefined, rest),
    adopt: run => store.adopt(run),
    append: (runId, guard, events, status) => store.append(runId, guard, events, status),
    read: (runId, after, page) => store.read(runId, after, page),
    ...(store.readJson && { readJson: store.readJson.bind(store) }),
    claim: async () => ({ type: 'held', owner: holder, until: Number.MAX_SAFE_INTEGER }),
    renew: async leases => [...leases],
    release: async () => {},
    ...(store.countWork && { countWork: store.countWork.bind(store) }),
    ...(store.watch && { watch: store.watch.bind(store) }),
    saveSnapshot: (runId, snapshot) => store.saveSnapshot(runId, snapshot),
    loadSnapshot: runId => store.loadSnapshot(runId),
    get: runId => store.get(runId),
    list: filter => store.list(filter),
    putBlob: (...args) => store.putBlob(...args),
    readBlob: (runId, digest, offset, length) => store.readBlob(runId, digest, offset, length),
    ...(store.deltas && { deltas: store.deltas }),
    ...(store.assertRoom && { assertRoom: store.assertRoom.bind(store) }),
    ...(store.count && { count: store.count.bind(store) }),
    ...(store.feed && { feed: idleFeed(store.feed, holder) }),
    chain: runId => store.chain(runId),
    delete: (runId, options) => store.delete(runId, options),
    prune: options => store.prune(options),
    redact: (runId, options) => store.redact(runId, options),
    rewrite: (runId, redaction) => store.rewrite(runId, redaction),
    close: () => store.close(),
  };
}

/** A view of the feed whose cursors are always held by others, so that nothing is delivered from here. */
function idleFeed(feed: StoreFeed, holder: Owner): StoreFeed {
  return {
    read: query => feed.read(query),
    end: () => feed.end(),
    take: async () => ({ type: 'held', owner: holder, until: Number.MAX_SAFE_INTEGER }),
    save: async () => false,
  };
}
