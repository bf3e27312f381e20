import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { calling, request, sumOf } from '../../support/adapters/requests.ts';
import { answering, call, generate, says, stream, text } from '../../support/adapters/wire/gemini-stream.ts';

const started = (name: string, more: JsonObject = {}): JsonObject => ({
  functionCall: { name, willContinue: true },
  ...more,
});
const piece = (...partialArgs: JsonObject[]): JsonObject => ({
  functionCall: { partialArgs, willContinue: true },
});
const mine = (data: JsonObject) => ({ opaque: { provider: 'gemini', data } });

describe('the parts of a turn', () => {
  test('calls without an id get one each, the same for a repeated request', async () => {
    const parts = [call('topic'), call('topic'), call('topic')];
    const { turn } = await stream(says(parts, 'STOP'));
    const again = await generate(says(parts, 'STOP'));
    const ids = turn.toolCalls.map(made => made.callId);
    expect(new Set(ids).size).toBe(3);
    expect(again).toEqual(turn);
    expect(turn.finishReason).toBe('tool_calls');
    expect(turn.items).toEqual(
      ids.map(callId => ({ type: 'tool_call', callId, name: 'topic', arguments: '{}' })),
    );
  });

  test('an id of the provider is kept and remembered as its own', async () => {
    const { turn } = await stream(says([{ functionCall: { name: 'a', args: {}, id: '96c1su3s' } }], 'STOP'));
    expect(turn.items).toMatchObject([{ type: 'tool_call', callId: '96c1su3s', ...mine({ hasId: true }) }]);
  });

  test('an id that the transcript already has is replaced', async () => {
    const modelRequest = request([
      { type: 'tool_call', callId: 'x', name: 'a', arguments: '{}' },
      { type: 'tool_result', callId: 'x', output: 1, isError: false },
    ]);
    const body = JSON.stringify(says([{ functionCall: { name: 'a', id: 'x' } }], 'STOP'));
    const turn = await answering(body, 'application/json').generate(modelRequest, calling());
    expect(turn.toolCalls[0]?.callId).not.toBe('x');
  });

  test('only the first of parallel calls carries a signature', async () => {
    const { turn } = await stream(
      says([call('a', { x: 0 }, { thoughtSignature: 'c2ln' }), call('b')]),
      says([text('')], 'STOP'),
    );
    const [first, second] = turn.toolCalls;
    expect(turn.items).toEqual([
      {
        type: 'tool_call',
        callId: first?.callId,
        name: 'a',
        arguments: '{"x":0}',
        ...mine({ thoughtSignature: 'c2ln' }),
      },
      { type: 'tool_call', callId: second?.callId, name: 'b', arguments: '{}' },
    ]);
  });

  test('thoughts are reasoning and not text', async () => {
    const { turn, deltas } = await stream(
      says([text('First ', { thought: true })]),
      says([text('this.', { thought: true }), text('Then ')]),
      says([text('that.')], 'STOP'),
    );
    expect(turn).toMatchObject({ reasoning: 'First this.', text: 'Then that.', finishReason: 'stop' });
    expect(turn.items).toEqual([
      { type: 'reasoning', text: 'First this.' },
      { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'Then that.' }] },
    ]);
    expect(deltas.map(delta => delta.type)).toEqual(['reasoning', 'reasoning', 'text', 'text']);
  });

  test('a signature on an empty text at the end belongs to the text before, and keeps its part', async () => {
    const { turn } = await stream(
      says([text('Hel')]),
      says([text('lo')]),
      says([text('', { thoughtSignature: 'c2ln' })], 'STOP'),
    );
    expect(turn.items).toEqual([
      {
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: 'Hello' }],
        ...mine({ spans: [{ length: 5 }, { length: 0, thoughtSignature: 'c2ln' }] }),
      },
    ]);
  });

  test('a signature on an empty text after a call is kept unchanged', async () => {
    const signature = text('', { thoughtSignature: 'c2ln' });
    const { turn } = await stream(says([call('a')]), says([signature], 'STOP'));
    expect(turn.items[1]).toEqual({ type: 'provider_item', kind: 'text', ...mine({ part: signature }) });
    expect(turn.text).toBe('');
  });

  test('code that the provider ran is kept whole and in place, and is not a call', async () => {
    const code = {
      executableCode: { language: 'PYTHON', code: '1+1', id: 'e' },
      thoughtSignature: 'c2ln',
    };
    const outcome = { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '2\n', id: 'e' } };
    const { turn } = await stream(
      says([text('Let me see.'), code, text('')]),
      says([outcome]),
      says([text('It is 2.')], 'STOP'),
    );
    expect(turn).toMatchObject({ text: 'Let me see.It is 2.', toolCalls: [], finishReason: 'stop' });
    expect(turn.items).toMatchObject([
      { type: 'message' },
      { type: 'provider_item', kind: 'executableCode', ...mine({ part: code }) },
      { type: 'provider_item', kind: 'codeExecutionResult', ...mine({ part: outcome }) },
      { type: 'message' },
    ]);
  });

  test('an image is a part of the answer', async () => {
    const image = { inlineData: { mimeType: 'image/png', data: 'aGk=' }, thoughtSignature: 'c2ln' };
    const { turn } = await stream(says([text('Look:'), image], 'STOP'));
    expect(turn.items[1]).toEqual({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'image', url: 'data:image/png;base64,aGk=' }],
      ...mine({ thoughtSignature: 'c2ln' }),
    });
  });

  test('search results are merged and kept after the answer', async () => {
    const { turn } = await stream(
      { candidates: [{ content: { parts: [text('Sunny')] }, groundingMetadata: {} }] },
      { candidates: [{ groundingMetadata: { webSearchQueries: ['weather'] } }] },
      { candidates: [{ finishReason: 'STOP', groundingMetadata: { groundingChunks: [{ web: {} }] } }] },
    );
    expect(turn.items[1]).toEqual({
      type: 'provider_item',
      kind: 'groundingMetadata',
      ...mine({ webSearchQueries: ['weather'], groundingChunks: [{ web: {} }] }),
    });
  });

  test('only the first candidate is read', async () => {
    const other = { content: { parts: [text('other')] }, index: 1, finishReason: 'STOP' };
    const { turn } = await stream({ candidates: [other] }, says([text('mine')], 'STOP'));
    expect(turn.text).toBe('mine');
  });

  test('arguments that are not an object are an error of the call', async () => {
    const { turn } = await stream(
      says([{ functionCall: { name: 'a', args: [1] } }, { functionCall: { name: 'b', args: null } }], 'STOP'),
    );
    expect(turn.toolCalls).toMatchObject([
      { arguments: '[1]', error: expect.stringContaining('an array') },
      { arguments: '{}', input: {} },
    ]);
  });
});

describe('arguments in pieces', () => {
  const inputs = async (...all: JsonObject[]) => {
    const { turn, deltas } = await stream(...all);
    expect(sumOf(deltas).calls).toEqual(turn.toolCalls.map(made => [made.name, made.arguments]));
    return turn.toolCalls.map(made => made.input ?? made.error);
  };

  test('are assigned to their paths, and texts for one path are joined', async () => {
    const places = [
      { jsonPath: '$.city', stringValue: 'San ', willContinue: true },
      { jsonPath: '$.city', stringValue: 'José' },
      { jsonPath: '$.days[0]', numberValue: 0 },
      { jsonPath: '$.days[1].sure', boolValue: false },
      { jsonPath: '$.deep[\'a.b\']["c\\"d"]', nullValue: 'NULL_VALUE' },
    ];
    expect(
      await inputs(
        says([started('weather')]),
        ...places.map(place => says([piece(place)])),
        says([{ functionCall: {} }], 'STOP'),
      ),
    ).toEqual([{ city: 'San José', days: [0, { sure: false }], deep: { 'a.b': { 'c"d': null } } }]);
  });

  test('belong to the open call, whose signature comes with its first part', async () => {
    const { turn, deltas } = await stream(
      says([started('weather', { thoughtSignature: 'c2ln' })]),
      says([piece({ jsonPath: '$.city', stringValue: 'Rome' })]),
      says([{ functionCall: {} }]),
      says([started('weather')]),
      says([piece({ jsonPath: '$.city', stringValue: 'Oslo' })]),
      says([{ functionCall: {} }], 'STOP'),
    );
    expect(turn.toolCalls.map(made => made.input)).toEqual([{ city: 'Rome' }, { city: 'Oslo' }]);
    expect(turn.items.map(item => 'opaque' in item)).toEqual([true, false]);
    expect(deltas).toEqual([
      { type: 'call_started', index: 0, name: 'weather' },
      { type: 'call_arguments', index: 0, text: '{"city":"Rome"}' },
      { type: 'call_started', index: 1, name: 'weather' },
      { type: 'call_arguments', index: 1, text: '{"city":"Oslo"}' },
    ]);
  });

  test('end with the stream or with the next call if no end is marked', async () => {
    expect(
      await inputs(
        says([started('a'), piece({ jsonPath: '$.x', numberValue: 1 })]),
        says([started('b'), piece({ jsonPath: '$.y', numberValue: 2 })], 'STOP'),
      ),
    ).toEqual([{ x: 1 }, { y: 2 }]);
  });

  test('may be empty', async () => {
    expect(
      await inputs(says([{ functionCall: { name: 'a' } }, started('b'), { functionCall: {} }], 'STOP')),
    ).toEqual([{}, {}]);
  });

  test.each(['$.list[7]', '$.city.name', '$', '$..x', 'x[', '$.constructor.prototype[0]'])(
    'with an invalid path (%s) make the call an error',
    async jsonPath => {
      const [error] = await inputs(
        says([started('a'), piece({ jsonPath: '$.city', stringValue: 'Rome' })]),
        says([piece({ jsonPath: '$.constructor.prototype.x', numberValue: 1 })]),
        says([piece({ jsonPath, stringValue: 'y' })], 'STOP'),
      );
      expect(error).toContain('not valid JSON');
    },
  );

  test('never write outside the arguments', async () => {
    const [input] = await inputs(
      says([{ functionCall: { name: 'a', args: { given: {} }, willContinue: true } }]),
      says([piece({ jsonPath: '$.given.__proto__.polluted', numberValue: 1 })]),
      says([piece({ jsonPath: '$.__proto__.polluted', numberValue: 1 })], 'STOP'),
    );
    expect(input).toBeDefined();
    expect(Object.hasOwn(Object.prototype, 'polluted')).toBe(false);
  });

  test('without a call before them are ignored', async () => {
    expect(await inputs(says([piece({ jsonPath: '$.x', numberValue: 1 })], 'STOP'))).toEqual([]);
  });
});
