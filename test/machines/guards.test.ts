import { describe, expect, test } from 'vitest';
import { type Call, type Context, createContext } from '../../machines/context.ts';
import { canEdit, canEditCall, canEditTurn } from '../../machines/fold.ts';
import { makeCall, makeConfig, makeStarted } from '../support/machines/builders.ts';

const READY: Call = { ...makeCall('a'), status: 'ready', attempt: 0 };

function contextWith(change: Partial<Context>): Context {
  return { ...createContext(makeStarted(makeConfig())), ...change };
}

test('a call can be edited while it is ready or gated, and not once it was attempted or settled', () => {
  const edit = { callId: 'a', digest: READY.digest, call: makeCall('a') };
  const edits = (change: Partial<Call>) =>
    canEditCall(contextWith({ calls: [{ ...READY, ...change }] }), edit);
  expect([edits({}), edits({ status: 'gated' })]).toEqual([true, true]);
  expect([edits({ attempt: 1 }), edits({ status: 'settled' })]).toEqual([false, false]);
});

test('a transcript can be edited only between batches', () => {
  expect(canEdit(contextWith({}), { calls: [] })).toBe(true);
  expect(canEdit(contextWith({ batch: 1 }), { calls: [] })).toBe(false);
});

describe('the latest turn', () => {
  const lastTurn = { provider: 'test', finishReason: 'stop', calls: 1, draft: false, from: 1 } as const;
  const edits = (final: boolean, calls: Call[]) => {
    const context = contextWith({ lastTurn: { ...lastTurn, final, calls: calls.length }, calls });
    return canEditTurn(context, { turn: context.turn.number, calls });
  };

  test('can be edited with its calls', () => {
    expect(edits(false, [READY])).toBe(true);
  });

  test('can be edited without calls if it is the final answer', () => {
    expect([edits(true, []), edits(true, [READY])]).toEqual([true, false]);
  });
});
