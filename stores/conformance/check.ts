// stores/conformance: what every store must do, as checks that a test runs over it. `storeChecks`
// collects them.

import assert from 'node:assert/strict';
import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import type { MessageItem } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type {
  ClaimRequest,
  ListFilter,
  Owner,
  Progress,
  Redaction,
  RunRecord,
  Store,
} from '../../protocol/store.ts';

export type StoreUnderTest = {
  open(): Promise<Store>;
  /** Closes `store` and opens it again, as a later process would. */
  reopen?(store: Store): Promise<Store>;
  /** Opens `store` a second time, as another process would, while the first stays open. */
  openAgain?(store: Store): Promise<Store>;
  /**
   * For a store with a clock of its own: sets this clock, and that of the process, to `now` in ms since the epoch. It
   * is called before each call that names a time, which may be earlier than the one before.
   */
  advance?(store: Store, now: number): Promise<void>;
  /** For a store with connections: cuts those of `store`, as a failure of the network would. */
  disconnect?(store: Store): Promise<void>;
};

/** A named check; `run` rejects if the store is wrong. */
export type StoreCheck = { name: string; run(): Promise<void> };

/** What a check can do with its store, beside calling it. */
export type Bench = {
  reopen(): Promise<Store>;
  openAgain(): Promise<Store>;
  disconnect(): Promise<void>;
};

export type Checks = Record<string, (store: Store, bench: Bench) => Promise<void>>;

/** Checks with what `arrange` makes in the store or finds there. A store without it (`undefined`) passes. */
export function checksOf<Part>(
  arrange: (store: Store, bench: Bench) => Part | undefined | Promise<Part | undefined>,
  checks: Record<string, (store: Store, part: Part) => Promise<void>>,
): Checks {
  const all = Object.entries(checks).map(([name, run]): [string, Checks[string]] => [
    name,
    async (store, bench) => {
      const part = await arrange(store, bench);
      if (part !== undefined) await run(store, part);
    },
  ]);
  return Object.fromEntries(all);
}

export const RUNNING = { status: 'running' } as const;
export const WAITING = { status: 'waiting' } as const;
export const DIGEST = 'ab'.repeat(32);
export const OTHER_DIGEST = 'cd'.repeat(32);

export function say(text: string, id?: string): MessageItem {
  return { type: 'message', role: 'user', content: [{ type: 'text', text }], ...omitUndefined({ id }) };
}

/** Returns the first event of a run, at time 1000, with `changes` in place of its defaults. */
export function begin(runId: string, changes: Partial<RunStarted> = {}): RunStarted {
  return {
    type: 'run.started',
    at: 1000,
    runId,
    format: 1,
    chart: { version: 1, hash: 'chart' },
    agent: { name: 'refunds' },
    config: {
      models: [{ provider: 'scripted', model: 'one' }],
      toolChoice: 'auto',
      finalAnswer: 'live',
      onMessage: 'supersede',
      onLimit: 'answer',
      limits: { turns: 20, toolCalls: 50 },
      attempts: 3,
      checksAnswer: false,
      answerBlocks: 0,
    },
    input: [say('hello')],
    stream: true,
    ...changes,
  };
}

export function receive(text: string, at = 2000): RunEvent {
  return { type: 'message.received', at, items: [say(text)] };
}

export function settleAll(
  callId: string,
  output: Extract<RunEvent, { type: 'tool.settled' }>['output'],
): RunEvent {
  return { type: 'tool.settled', at: 3000, generation: 1, callId, output, isError: false };
}

/** Returns the progress that an append reports: one turn, 20 tokens and 300 ms, unless `changes` differ. */
export function makeProgress(state: string, changes: Partial<Progress> = {}): Progress {
  return { state, turns: 1, tokens: 20, cost: 0.5, activeMs: 300, ...changes };
}

/** Returns the owner of a lease. All owners made here are of one invented process and differ only in their ids. */
export function testOwner(id: string): Owner {
  return { id, host: 'host', pid: 7, startedAt: '1' };
}

/** Returns a claim at time 5000 for a lease of 1000 ms. */
export function request(id: string, changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return { owner: testOwner(id), now: 5000, leaseMs: 1000, isDead: () => false, ...changes };
}

export async function rejectsWith(code: string, work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, { name: 'EngineError', code });
}

export async function isUnknown(store: Store, runId: string): Promise<void> {
  const calls = [
    store.read(runId),
    store.read(runId, 1, { entries: 1, chars: 1 }),
    store.append(runId, { after: 0, epoch: 0 }, [receive('x')], RUNNING),
    store.claim(runId, request('one')),
    store.release(runId, 0),
    store.saveSnapshot(runId, { seq: 1, state: {} }),
    store.putBlob(runId, DIGEST, '"abc"'),
    store.chain(runId),
  ];
  await Promise.all(calls.map(call => rejectsWith('run-unknown', call)));
  assert.deepEqual([await store.get(runId), await store.loadSnapshot(runId)], [undefined, undefined]);
  assert.equal(await store.readBlob(runId, DIGEST, 0, 5), undefined);
}

export async function listIds(store: Store, filter?: ListFilter): Promise<string[]> {
  return (await store.list(filter)).runs.map(({ runId }) => runId);
}

export async function fieldsOf(
  store: Store,
  runId: string,
  ...names: (keyof RunRecord)[]
): Promise<unknown[]> {
  const record = await store.get(runId);
  return names.map(name => record?.[name]);
}

/** Returns a redaction of the message in entry 2 of a run with `after` entries that was never redacted. */
export function redactSecond(after: number, changes: Partial<Redaction> = {}): Redaction {
  return {
    after,
    redactions: 0,
    entries: [{ seq: 2, event: receive('gone') }],
    blobs: [],
    state: { text: 'gone' },
    progress: makeProgress('resting.paused'),
    now: 9000,
    isDead: () => false,
    event: { type: 'run.redacted', at: 9000, paths: ['/2/items/0/content/0/text'] },
    ...changes,
  };
}

/** The same stores, whose own clock shows the time that each call names. */
export function withClock(tested: StoreUnderTest): StoreUnderTest {
  const { open, reopen, openAgain, disconnect, advance } = tested;
  if (advance === undefined) return tested;
  const inner = new WeakMap<Store, Store>();
  const wrap = (store: Store) => {
    const timed = inTime(store, now => advance(store, now));
    inner.set(timed, store);
    return timed;
  };
  const unwrap = (timed: Store) => inner.get(timed) ?? timed;
  return {
    open: async () => wrap(await open()),
    ...(reopen && { reopen: async timed => wrap(await reopen(unwrap(timed))) }),
    ...(openAgain && { openAgain: async timed => wrap(await openAgain(unwrap(timed))) }),
    ...(disconnect && { disconnect: timed => disconnect(unwrap(timed)) }),
  };
}

/** Calls `setClock` before each call of the store, its deltas and its feed that names a time. */
function inTime<Target extends object>(target: Target, setClock: (now: number) => Promise<void>): Target {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member === 'object' && member !== null) return inTime(member, setClock);
      if (typeof member !== 'function') return member;
      if (name === 'watch' || name === 'watchWork') return member.bind(target);
      return async (...args: unknown[]) => {
        const [time] = args.flatMap(timeOf);
        if (time !== undefined) await setClock(time);
        return await Reflect.apply(member, target, args);
      };
    },
  });
}

function timeOf(argument: unknown): number[] {
  if (typeof argument === 'number' && argument >= 1_000) return [argument];
  const isTimed = typeof argument === 'object' && argument !== null && 'now' in argument;
  return isTimed && typeof argument.now === 'number' ? [argument.now] : [];
}
