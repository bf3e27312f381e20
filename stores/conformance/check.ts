// stores/conformance: what every store must do, as checks that a test runs over it. `storeChecks`
// collects them.

import assert from 'node:assert/strict';
import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import type { MessageItem } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { ClaimRequest, ListFilter, Owner, Progress, Store } from '../../protocol/store.ts';

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

/** Checks of one empty store, by name. */
export type Checks = Record<string, (store: Store) => Promise<void>>;

/** Durability checks, by name; `reopen` returns the store as a later process finds it. */
export type DurabilityChecks = Record<string, (store: Store, reopen: () => Promise<Store>) => Promise<void>>;

/** Checks of one empty store that two processes have open, by name; `disconnect` cuts the connections of the first. */
export type SharedChecks = Record<
  string,
  (store: Store, other: Store, disconnect: () => Promise<void>) => Promise<void>
>;

/** Checks of a part that a store may have, as `find` returns it. A store without it passes. */
export function checksOf<Part>(
  find: (store: Store) => Part | undefined,
  checks: Record<string, (store: Store, part: Part) => Promise<void>>,
): Checks {
  const runWith = (run: (store: Store, part: Part) => Promise<void>) => async (store: Store) => {
    const part = find(store);
    if (part !== undefined) await run(store, part);
  };
  return Object.fromEntries(Object.entries(checks).map(([name, run]) => [name, runWith(run)]));
}

export const RUNNING = { status: 'running' } as const;
export const WAITING = { status: 'waiting' } as const;

/** Returns a message of the user. */
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
      finishers: false,
      finisherRejections: 0,
    },
    input: [say('hello')],
    stream: true,
    ...changes,
  };
}

/** Returns the event of a message from the user. `at` is in ms since the epoch. */
export function receive(text: string, at = 2000): RunEvent {
  return { type: 'message.received', at, items: [say(text)] };
}

/** Returns the event of a call that succeeded with this output, at time 3000. */
export function settle(
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
export function makeOwner(id: string): Owner {
  return { id, host: 'host', pid: 7, startedAt: '1' };
}

/** Returns a claim at time 5000 for a lease of 1000 ms. */
export function request(id: string, changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return { owner: makeOwner(id), now: 5000, leaseMs: 1000, isDead: () => false, ...changes };
}

/** Asserts that `work` rejects with an `EngineError` of this code. */
export async function rejectsWith(code: string, work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, { name: 'EngineError', code });
}

/** Returns the ids of the listed runs, in their order. */
export async function listIds(store: Store, filter?: ListFilter): Promise<string[]> {
  return (await store.list(filter)).runs.map(({ runId }) => runId);
}
