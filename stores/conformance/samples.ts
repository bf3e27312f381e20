import assert from 'node:assert/strict';
import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import type { MessageItem } from '../../protocol/item.ts';
import type { ClaimRequest, Owner } from '../../protocol/store.ts';

export function say(text: string, id?: string): MessageItem {
  const content = [{ type: 'text' as const, text }];
  return { type: 'message', role: 'user', content, ...(id !== undefined && { id }) };
}

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

export function receive(text: string, at = 2000): RunEvent {
  return { type: 'message.received', at, items: [say(text)] };
}

export function settle(
  callId: string,
  output: Extract<RunEvent, { type: 'tool.settled' }>['output'],
): RunEvent {
  return { type: 'tool.settled', at: 3000, generation: 1, callId, output, isError: false };
}

export function makeOwner(id: string): Owner {
  return { id, host: 'host', pid: 7, startedAt: '1' };
}

export function request(id: string, changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return { owner: makeOwner(id), now: 5000, leaseMs: 1000, isDead: () => false, ...changes };
}

/** Passes when `work` rejects with an `EngineError` of this code. */
export async function rejectsWith(code: string, work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, { name: 'EngineError', code });
}
