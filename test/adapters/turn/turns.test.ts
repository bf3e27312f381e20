import { describe, expect, test } from 'vitest';
import { classifyTurn, collectTurn } from '../../../adapters/streams.ts';
import { mergeOptions } from '../../../adapters/turn/json-access.ts';
import { deltasUpTo, ShownDeltas } from '../../../adapters/turn/turn-deltas.ts';
import { normalizeUsage } from '../../../adapters/turn/usage.ts';
import type { FinishReason, ModelTurn, ToolCall, TurnDelta } from '../../../protocol/turn.ts';
import { rejection } from '../../support/adapters/requests.ts';

const call = (executedBy: ToolCall['executedBy']): ToolCall => ({
  callId: executedBy,
  name: 'a',
  arguments: '{}',
  input: {},
  executedBy,
});
const turn = (finishReason: FinishReason, toolCalls: ToolCall[] = []): ModelTurn => ({
  text: 'hello',
  reasoning: 'hm',
  toolCalls,
  finishReason,
  usage: null,
  model: 'm',
  items: [],
});

async function* streamOf(...deltas: TurnDelta[]): AsyncGenerator<TurnDelta> {
  yield* deltas;
}

describe('classifyTurn', () => {
  test.each(['engine', 'client'] as const)(
    'lets a call for the %s take precedence over the finish reason stop',
    by => {
      expect(classifyTurn(turn('stop', [call(by)]))).toMatchObject({ type: 'tool_calls', text: 'hello' });
    },
  );

  test('treats a turn with only provider-run calls as a final answer', () => {
    expect(classifyTurn(turn('stop', [call('provider')]))).toEqual({ type: 'final_answer', text: 'hello' });
  });

  test('treats the finish reason tool_calls without calls as tool_calls with none', () => {
    expect(classifyTurn(turn('tool_calls', [call('provider')]))).toMatchObject({
      type: 'tool_calls',
      toolCalls: [],
    });
  });
});

describe('collectTurn', () => {
  test('returns the turn at the end of the stream', async () => {
    expect(
      await collectTurn(streamOf({ type: 'text', text: 'x' }, { type: 'turn', turn: turn('stop') })),
    ).toEqual(turn('stop'));
  });

  test('rejects a stream without a turn as malformed', async () => {
    expect(await rejection(collectTurn(streamOf({ type: 'text', text: 'x' })))).toMatchObject({
      name: 'ProviderError',
      code: 'malformed-stream',
    });
  });
});

describe('deltasUpTo', () => {
  test('yields only what was not shown yet', () => {
    const shown = new ShownDeltas();
    shown.record({ type: 'text', text: 'hel' });
    shown.record({ type: 'call_started', index: 0, name: 'a' });
    expect([...deltasUpTo(turn('stop', [call('engine'), call('client')]), shown)].slice(0, -1)).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'lo' },
      { type: 'call_arguments', index: 0, text: '{}' },
      { type: 'call_started', index: 1, name: 'a', callId: 'client' },
      { type: 'call_arguments', index: 1, text: '{}' },
    ]);
  });
});

describe('normalizeUsage', () => {
  test('missing counts are unknown, and missing usage is null', () => {
    expect(normalizeUsage({ input: undefined, output: null })).toBeNull();
    expect(normalizeUsage({ input: 3, output: undefined })).toEqual({
      inputTokens: 3,
      outputTokens: 0,
      cachedInputTokens: null,
      cacheWriteTokens: null,
      reasoningTokens: null,
    });
  });

  test('no count is negative, and a cached count above the input count is kept', () => {
    expect(
      normalizeUsage({ input: 293, output: -1, cachedInput: 387, cacheWrite: -5, reasoning: 0 }),
    ).toEqual({
      inputTokens: 293,
      outputTokens: 0,
      cachedInputTokens: 387,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
    });
  });
});

describe('mergeOptions', () => {
  test('objects are merged, tools and include are appended, other values are replaced', () => {
    expect(
      mergeOptions(
        { text: { format: 1 }, tools: ['a'], include: ['x'], stop: ['s'], n: 1 },
        { text: { verbosity: 'low' }, tools: ['b'], include: ['y'], stop: ['t'], n: 2 },
      ),
    ).toEqual({
      text: { format: 1, verbosity: 'low' },
      tools: ['a', 'b'],
      include: ['x', 'y'],
      stop: ['t'],
      n: 2,
    });
  });
});
