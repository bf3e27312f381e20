import type { Host } from '../../../engine/host/host.ts';
import { redactRun } from '../../../engine/journal/redaction/redact-run.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';

/** The methods that can fail; `close` cannot. */
const METHODS = [
  'create',
  'adopt',
  'append',
  'read',
  'readJson',
  'claim',
  'renew',
  'release',
  'saveSnapshot',
  'loadSnapshot',
  'get',
  'list',
  'putBlob',
  'readBlob',
  'chain',
  'delete',
  'prune',
  'rewrite',
] as const satisfies readonly (keyof Store)[];
export type Method = (typeof METHODS)[number];

/**
 * How a store call fails. `fails-before`, `busy` and `disk-full` change nothing; `fails-after` and
 * `reply-lost` do the work and then fail, the latter after three seconds. From `outage` on, every call
 * fails until the store is repaired.
 */
export const FAULT_KINDS = [
  'fails-before',
  'busy',
  'disk-full',
  'fails-after',
  'reply-lost',
  'outage',
] as const;
type FaultKind = (typeof FAULT_KINDS)[number];

/** The n-th call of `method`, counted from 1, fails as `kind` describes. */
export type Fault = { method: Method; nth: number; kind: FaultKind };

/** The time until a lost reply is reported, in ms: longer than the lease of a drill. */
const REPLY_TIMEOUT_MS = 3000;

const ERRORS: Readonly<Record<FaultKind, () => EngineError>> = {
  'fails-before': () => new EngineError('store-unavailable', 'The store cannot be written. Try again.'),
  busy: () => new EngineError('store-locked', 'The store is locked by another process. Try again.'),
  'disk-full': () => new EngineError('store-unavailable', 'The disk is full. Make room and try again.'),
  'fails-after': () => new EngineError('store-unavailable', 'The connection was lost. Try again.'),
  'reply-lost': () => new EngineError('store-unavailable', 'No answer came in time. Try again.'),
  outage: () => new EngineError('store-unavailable', 'The store is down. Try again.'),
};

export type FaultyStore = {
  store: Store;
  /** Sets the next fault, or none, and resets the counts. */
  plan(fault: Fault | undefined): void;
  /** The error of the planned fault after it has happened. */
  fired(): EngineError | undefined;
  /** The total number of store calls. */
  calls(): number;
  /** The number of calls per method since the last plan. */
  takeCounts(): ReadonlyMap<Method, number>;
};

/** The store, with at most one fault at a time. */
export function makeFaultyStore(inner: Store, host: Host): FaultyStore {
  let fault: Fault | undefined;
  let counts = new Map<Method, number>();
  let error: EngineError | undefined;
  let calls = 0;

  const isHit = (method: Method): boolean => {
    calls += 1;
    const nth = (counts.get(method) ?? 0) + 1;
    counts.set(method, nth);
    if (fault?.kind === 'outage' && error !== undefined) return true;
    return fault !== undefined && error === undefined && method === fault.method && nth === fault.nth;
  };

  const call = async <Result>(method: Method, work: () => Promise<Result>): Promise<Result> => {
    if (!isHit(method) || fault === undefined) return await work();
    const { kind } = fault;
    error ??= ERRORS[kind]();
    const failure = error;
    if (kind === 'fails-after' || kind === 'reply-lost') await work();
    if (kind === 'reply-lost')
      await new Promise<void>(resolve => {
        host.setTimer(REPLY_TIMEOUT_MS, resolve);
      });
    throw failure;
  };

  const store: Store = {
    create: (...args) => call('create', () => inner.create(...args)),
    adopt: run => call('adopt', () => inner.adopt(run)),
    append: (...args) => call('append', () => inner.append(...args)),
    read: (...args) => call('read', () => inner.read(...args)),
    readJson: (...args) => call('readJson', async () => (await inner.readJson?.(...args)) ?? []),
    claim: (...args) => call('claim', () => inner.claim(...args)),
    renew: (...args) => call('renew', () => inner.renew(...args)),
    release: (...args) => call('release', () => inner.release(...args)),
    saveSnapshot: (...args) => call('saveSnapshot', () => inner.saveSnapshot(...args)),
    loadSnapshot: runId => call('loadSnapshot', () => inner.loadSnapshot(runId)),
    get: runId => call('get', () => inner.get(runId)),
    putBlob: (...args) => call('putBlob', () => inner.putBlob(...args)),
    readBlob: (...args) => call('readBlob', () => inner.readBlob(...args)),
    list: filter => call('list', () => inner.list(filter)),
    totals: (...args) => inner.totals(...args),
    chain: runId => call('chain', () => inner.chain(runId)),
    delete: (...args) => call('delete', () => inner.delete(...args)),
    prune: options => call('prune', () => inner.prune(options)),
    redact: (runId, options) => redactRun(store, runId, options),
    rewrite: (...args) => call('rewrite', () => inner.rewrite(...args)),
    close: () => inner.close(),
  };
  return {
    store,
    plan: planned => {
      fault = planned;
      error = undefined;
      counts = new Map();
    },
    fired: () => error,
    calls: () => calls,
    takeCounts: () => counts,
  };
}
