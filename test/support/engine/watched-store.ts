import type { RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';

export type Watch = {
  /** Runs before an append; a rejection rejects the append. */
  beforeAppend?(runId: string, events: readonly RunEvent[]): void | Promise<void>;
  /** Runs after a durable append; a rejection simulates a lost reply. */
  afterAppend?(runId: string, events: readonly RunEvent[]): void | Promise<void>;
  onSnapshot?(bytes: number): void;
  /** Runs before a blob is stored; a rejection rejects the call. */
  beforeBlob?(text: string): void | Promise<void>;
  /** Runs before every other method. */
  before?(method: string): void | Promise<void>;
};

/** The store, with hooks that observe its calls or make them fail. */
export function watchStore(store: Store, watch: Watch): Store {
  const before = async (method: string) => await watch.before?.(method);
  return {
    async create(event, claim, rest) {
      await before('create');
      const events = [event, ...(rest?.events ?? [])];
      await watch.beforeAppend?.(event.runId, events);
      const created = await store.create(event, claim, rest);
      await watch.afterAppend?.(event.runId, events);
      return created;
    },
    async append(runId, guard, events, status) {
      await before('append');
      await watch.beforeAppend?.(runId, events);
      const result = await store.append(runId, guard, events, status);
      if (result.type === 'appended') await watch.afterAppend?.(runId, events);
      return result;
    },
    async saveSnapshot(runId, snapshot) {
      await before('saveSnapshot');
      watch.onSnapshot?.(JSON.stringify(snapshot).length);
      await store.saveSnapshot(runId, snapshot);
    },
    async adopt(run) {
      await before('adopt');
      await store.adopt(run);
    },
    async read(runId, after, page) {
      await before('read');
      return await store.read(runId, after, page);
    },
    async claim(runId, request) {
      await before('claim');
      return await store.claim(runId, request);
    },
    async renew(leases, time) {
      await before('renew');
      return await store.renew(leases, time);
    },
    async release(...args) {
      await before('release');
      await store.release(...args);
    },
    async loadSnapshot(runId) {
      await before('loadSnapshot');
      return await store.loadSnapshot(runId);
    },
    async putBlob(runId, digest, text, ...known) {
      await before('putBlob');
      await watch.beforeBlob?.(text);
      await store.putBlob(runId, digest, text, ...known);
    },
    async readBlob(...args) {
      await before('readBlob');
      return await store.readBlob(...args);
    },
    get: runId => store.get(runId),
    list: filter => store.list(filter),
    totals: (...args) => store.totals(...args),
    chain: runId => store.chain(runId),
    delete: (...args) => store.delete(...args),
    prune: options => store.prune(options),
    redact: (...args) => store.redact(...args),
    rewrite: (...args) => store.rewrite(...args),
    close: () => store.close(),
  };
}
