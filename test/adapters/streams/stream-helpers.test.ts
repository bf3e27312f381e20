import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import {
  classifyTurn,
  streamAndClassify,
  toolCallFrom,
  toolCallsOf,
  toolResultFrom,
  watchTurn,
} from '../../../adapters/streams.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { ModelRequest, ModelTurn, ToolCall, TurnDelta } from '../../../protocol/turn.ts';
import { collect, rejection } from '../../support/adapters/requests.ts';

const CALL: ToolCall = {
  callId: 'a',
  name: 'one',
  arguments: '{"x":1}',
  input: { x: 1 },
  executedBy: 'engine',
};
const turn = (more: Partial<ModelTurn> = {}): ModelTurn => ({
  text: 'hello',
  reasoning: 'hm',
  toolCalls: [],
  finishReason: 'stop',
  usage: null,
  model: 'm',
  items: [],
  ...more,
});

async function* streamOf(...deltas: (TurnDelta | Error)[]): AsyncGenerator<TurnDelta> {
  for (const delta of deltas) {
    if (delta instanceof Error) throw delta;
    yield delta;
  }
}

/** An adapter with this stream, and the requests that it received. */
function adapterOf(...deltas: (TurnDelta | Error)[]): ModelAdapter & { requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  return {
    provider: 'p',
    model: 'm',
    capabilities: scripted([]).capabilities,
    requests,
    generate: () => Promise.reject(new Error('Expected a stream.')),
    stream(request) {
      requests.push(request);
      return streamOf(...deltas);
    },
  };
}

const overloaded = new ProviderError('busy', {
  code: 'overloaded',
  status: 529,
  retryable: true,
  retryAfterMs: null,
  provider: 'p',
  model: 'm',
  raw: null,
});

describe('toolCallsOf', () => {
  test('yields the calls of the turn, not the streamed ones', async () => {
    const calls = toolCallsOf(
      streamOf(
        { type: 'call_started', index: 0, name: 'one' },
        { type: 'call_arguments', index: 0, text: '{"x":0}' },
        { type: 'turn', turn: turn({ toolCalls: [CALL] }) },
      ),
    );
    expect(await collect(calls)).toEqual([CALL]);
  });

  test('yields nothing before the turn, even if the arguments of a call parse', async () => {
    let resumed = false;
    const waiting = toolCallsOf(
      (async function* (): AsyncGenerator<TurnDelta> {
        yield { type: 'call_started', index: 0, name: 'one' };
        yield { type: 'call_arguments', index: 0, text: '{}' };
        yield { type: 'call_started', index: 1, name: 'two' };
        resumed = true;
        yield { type: 'turn', turn: turn({ toolCalls: [CALL] }) };
      })(),
    );
    const first = await waiting.next();
    expect([resumed, first.value]).toEqual([true, CALL]);
  });

  test('yields no call of a stream that fails after a call', async () => {
    const seen: ToolCall[] = [];
    const read = async () => {
      const stream = streamOf({ type: 'call_started', index: 0, name: 'one' }, overloaded);
      for await (const call of toolCallsOf(stream)) seen.push(call);
    };
    expect(await rejection(read())).toBe(overloaded);
    expect(seen).toEqual([]);
  });

  test('leaves out provider-run calls', async () => {
    const toolCalls: ToolCall[] = [{ ...CALL, callId: 'b', executedBy: 'provider' }, CALL];
    const stream = streamOf({ type: 'turn', turn: turn({ toolCalls }) });
    expect(await collect(toolCallsOf(stream))).toEqual([CALL]);
  });

  test('yields no call that can be run from a turn cut off by its length', async () => {
    const cut = turn({ toolCalls: [CALL], finishReason: 'length' });
    const [call] = await collect(toolCallsOf(streamOf({ type: 'turn', turn: cut })));
    expect(call).toMatchObject({ callId: 'a', error: expect.stringContaining('cut off') });
    expect(call).not.toHaveProperty('input');
    expect(classifyTurn(cut)).toMatchObject({ type: 'tool_calls', toolCalls: [call] });
  });
});

describe('streamAndClassify', () => {
  test('accepts a text as a whole request, with defaults for the rest', async () => {
    const adapter = adapterOf({ type: 'turn', turn: turn() });
    const answer = await streamAndClassify(adapter, { transcript: 'hi' });
    expect(answer).toEqual({ type: 'final_answer', text: 'hello' });
    expect(answer.turn).toEqual(turn());
    expect(adapter.requests).toEqual([
      {
        transcript: [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'hi' }] }],
        tools: [],
        toolChoice: 'auto',
        settings: {},
      },
    ]);
    const settings = { temperature: 0 };
    await streamAndClassify(adapter, { transcript: [], toolChoice: 'required', settings });
    expect(adapter.requests[1]).toEqual({ transcript: [], tools: [], toolChoice: 'required', settings });
  });

  test('returns the calls with the text, and passes on the deltas as they arrive', async () => {
    const pieces: string[] = [];
    const adapter = adapterOf(
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'hel' },
      { type: 'text', text: 'lo' },
      { type: 'turn', turn: turn({ toolCalls: [CALL] }) },
    );
    const answer = await streamAndClassify(
      adapter,
      { transcript: 'hi' },
      { onText: text => pieces.push(text), onReasoning: text => pieces.push(`(${text})`) },
    );
    expect(answer).toMatchObject({ type: 'tool_calls', toolCalls: [CALL], text: 'hello' });
    expect(answer.turn.finishReason).toBe('stop');
    expect(pieces).toEqual(['(hm)', 'hel', 'lo']);
  });

  test('throws an error of the provider unchanged, any other as a ProviderError', async () => {
    const failing = (error: Error) => streamAndClassify(adapterOf(error), { transcript: 'hi' });
    expect(await rejection(failing(overloaded))).toBe(overloaded);
    const broken = new TypeError('x is not a function');
    expect(await rejection(failing(broken))).toMatchObject({
      name: 'ProviderError',
      code: 'unknown',
      provider: 'p',
      message: expect.stringContaining('x is not a function'),
    });
    const endless = streamAndClassify(adapterOf({ type: 'text', text: 'x' }), { transcript: 'hi' });
    expect(await rejection(endless)).toMatchObject({ code: 'malformed-stream', provider: 'p', model: 'm' });
  });

  test('throws an error of a callback unchanged, and closes the stream', async () => {
    let closed = false;
    const adapter = adapterOf();
    adapter.stream = async function* (): AsyncGenerator<TurnDelta> {
      try {
        yield { type: 'text', text: 'x' };
      } finally {
        closed = true;
      }
    };
    const bug = new RangeError('a bug of the caller');
    const onText = () => Promise.reject(bug);
    expect(await rejection(streamAndClassify(adapter, { transcript: 'hi' }, { onText }))).toBe(bug);
    expect(closed).toBe(true);
  });

  test('ends the call when its signal is aborted', async () => {
    const signal = AbortSignal.abort();
    const adapter = scripted({ turns: [{ text: 'late', delayMs: 60_000 }] });
    const call = streamAndClassify(adapter, { transcript: 'hi' }, { signal });
    expect(await rejection(call)).toMatchObject({ code: 'aborted' });
  });
});

describe('watchTurn', () => {
  test('leaves the finish reason undefined until the end', async () => {
    const watched = watchTurn(
      streamOf(
        { type: 'reasoning', text: 'h' },
        { type: 'text', text: 'hel' },
        { type: 'call_started', index: 0, name: 'one' },
        { type: 'call_arguments', index: 0, text: '{"x"' },
        { type: 'turn', turn: turn({ toolCalls: [CALL], finishReason: 'tool_calls' }) },
      ),
    );
    const seen: unknown[] = [];
    for await (const _ of watched) {
      const { text, reasoning, finishReason, calls } = watched;
      seen.push([text, reasoning, finishReason, calls.map(call => call.arguments)]);
    }
    expect(seen).toEqual([
      ['', 'h', undefined, []],
      ['hel', 'h', undefined, []],
      ['hel', 'h', undefined, ['']],
      ['hel', 'h', undefined, ['{"x"']],
      ['hello', 'hm', 'tool_calls', ['{"x":1}']],
    ]);
    expect(watched.turn?.toolCalls).toEqual([CALL]);
  });

  test('keeps the received content after a stream that failed', async () => {
    const watched = watchTurn(streamOf({ type: 'text', text: 'hel' }, overloaded));
    expect(await rejection(collect(watched))).toBe(overloaded);
    expect([watched.text, watched.finishReason, watched.turn]).toEqual(['hel', undefined, undefined]);
  });
});

describe('calls and results from other code', () => {
  test('plain arguments and their JSON text produce equal calls', () => {
    const plain = toolCallFrom({ id: 'a', name: 'one', arguments: { x: 1 } });
    expect(plain).toEqual(CALL);
    expect(toolCallFrom({ callId: 'a', name: 'one', arguments: '{"x":1}' })).toEqual(plain);
    expect(toolCallFrom({ id: 'a', name: 'one', input: { x: 1 } })).toEqual(plain);
    expect(toolCallFrom(plain)).toBe(plain);
  });

  test.each([undefined, null, '', {}, '{}'])('the arguments %j are none', given => {
    expect(toolCallFrom({ id: 'a', name: 'one', arguments: given })).toMatchObject({
      arguments: '{}',
      input: {},
    });
  });

  test.each([[[1]], [3], ['{"x"'], ['"x"'], [false]])('the arguments %j are an error', given => {
    const call = toolCallFrom({ id: 'a', name: 'one', arguments: given });
    expect(call.error).toContain('must be a JSON object');
    expect(call).not.toHaveProperty('input');
  });

  test('arguments that JSON cannot represent are rejected by name', () => {
    expect(() => toolCallFrom({ id: 'a', name: 'one', arguments: { cents: 1n } })).toThrow('"cents"');
  });

  test('a turn from other code is classified, and its calls without ids get distinct ids', () => {
    const calls = [
      { name: 'one', arguments: { x: 1 } },
      { id: '', name: 'two', arguments: '{}' },
      { id: 'c', name: 'search', arguments: {}, executedBy: 'provider' as const },
    ];
    expect(classifyTurn({ toolCalls: calls })).toMatchObject({
      type: 'tool_calls',
      text: '',
      toolCalls: [
        { callId: 'call_0', input: { x: 1 } },
        { callId: 'call_1', input: {} },
      ],
    });
    expect(classifyTurn({ text: 'done', toolCalls: null })).toEqual({ type: 'final_answer', text: 'done' });
  });

  test('an output is a value, its JSON text unchanged, or an error', () => {
    const base = { type: 'tool_result', callId: 'a', isError: false };
    expect(toolResultFrom({ id: 'a', output: { x: 1 } })).toEqual({ ...base, output: { x: 1 } });
    expect(toolResultFrom({ callId: 'a', output: '{"id":12345678901234567890}' })).toEqual({
      ...base,
      output: '{"id":12345678901234567890}',
    });
    expect(toolResultFrom({ callId: 'a' })).toEqual({ ...base, output: null });
    expect(toolResultFrom({ callId: 'a', output: new Error('no such order') })).toEqual({
      ...base,
      output: 'no such order',
      isError: true,
    });
    expect(() => toolResultFrom({ output: 1 })).toThrow('callId');
    expect(() => toolResultFrom({ callId: 'a', output: new Map() })).toThrow('Map');
  });
});
