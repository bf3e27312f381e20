import assert from 'node:assert/strict';
import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import type { MessageItem } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { ClaimRequest, Owner, Progress } from '../../protocol/store.ts';

/** What an append or a start says of its run. */
export const RUNNING = { status: 'running' } as const;
export const WAITING = { status: 'waiting' } as const;

/** Returns a user message. */
export function say(text: string, id?: string): MessageItem {
  return { type: 'message', role: 'user', content: [{ type: 'text', text }], ...omitUndefined({ id }) };
}

/** Returns the first event of a run. */
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

/** Returns the event of a received message. */
export function receive(text: string, at = 2000): RunEvent {
  return { type: 'message.received', at, items: [say(text)] };
}

/** Returns the event of a settled call. */
export function settle(
  callId: string,
  output: Extract<RunEvent, { type: 'tool.settled' }>['output'],
): RunEvent {
  return { type: 'tool.settled', at: 3000, generation: 1, callId, output, isError: false };
}

/** Returns what an append says about a run in this state. */
export function makeProgress(state: string, changes: Partial<Progress> = {}): Progress {
  return { state, turns: 1, tokens: 20, cost: 0.5, activeMs: 300, ...changes };
}

/** Returns an owner without a process identity. */
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
