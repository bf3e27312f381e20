import { describe, expect, test } from 'vitest';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import type { ProviderError } from '../../../protocol/error.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { textOf, userMessage } from '../../../protocol/message.ts';
import {
  answering,
  chunk,
  completion,
  ended,
  generate,
  messagesBy,
  piece,
  sse,
  stream,
} from '../../support/adapters/chat-wire.ts';
import { calling, collect, rejection, request, sumOf } from '../../support/adapters/requests.ts';

const streamed = (...events: (JsonObject | string)[]) => stream(openaiChat, ...events);
const whole = (message: JsonObject, finish: string | null = 'stop', more: JsonObject = {}) =>
  generate(openaiChat, completion(message, finish, more));
const called = (name: string, args: unknown, id = 'a'): JsonObject => ({
  id,
  type: 'function',
  function: { name, arguments: args as string },
});
const args = (text: string, more: JsonObject = {}) => piece({ function: { arguments: text }, ...more });

describe('the deltas of a streamed response', () => {
  test('text, reasoning and calls of one delta are all read', async () => {
    const { turn, deltas } = await streamed(
      chunk({
        reasoning_content: 'hm',
        content: 'Looking',
        tool_calls: [{ index: 0, ...called('one', '{}') }],
      }),
      ended('tool_calls'),
    );
    expect(deltas).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'Looking' },
      { type: 'call_started', index: 0, name: 'one', callId: 'a' },
      { type: 'call_arguments', index: 0, text: '{}' },
    ]);
    expect(turn.items.map(item => item.type)).toEqual(['reasoning', 'message', 'tool_call']);
  });

  test('reasoning and text that alternate are items in the order of the stream, and go back as one text', async () => {
    const { turn, deltas } = await streamed(
      chunk({ reasoning_content: 'First' }),
      chunk({ reasoning_content: ' this.' }),
      chunk({ content: 'One' }),
      chunk({ reasoning_content: 'Then that.' }),
      chunk({ content: ', two' }),
      chunk({ content: '.' }),
      chunk({ tool_calls: [{ index: 0, ...called('one', '{}') }] }),
      ended('tool_calls'),
    );
    expect(deltas.slice(0, 6).map(delta => delta.type)).toEqual([
      ...['reasoning', 'reasoning', 'text', 'reasoning', 'text', 'text'],
    ]);
    expect(
      turn.items.map(item => (item.type === 'reasoning' ? `(${item.text})` : textOf(item) || item.type)),
    ).toEqual(['(First this.)', 'One', '(Then that.)', ', two.', 'tool_call']);
    expect(turn).toMatchObject({ text: 'One, two.', reasoning: 'First this.Then that.' });
    expect((await messagesBy(openaiChat, [userMessage('hi'), ...turn.items], {}))[1]).toMatchObject({
      content: 'One, two.',
      reasoning_content: 'First this.Then that.',
    });
  });

  test('a stream may end without [DONE], and nothing after [DONE] is read', async () => {
    expect((await streamed(chunk({ content: 'a' }), ended())).turn.text).toBe('a');
    expect(
      (await streamed(chunk({ content: 'a' }), ended(), '[DONE]', chunk({ content: 'b' }))).turn.text,
    ).toBe('a');
  });

  test.each([' [DONE]', '[DONE] ', '\t[DONE]\u00a0', ''])(
    '%j ends the stream too, or is ignored',
    async mark => {
      const behind = mark === '' ? '[DONE]' : chunk({ content: 'b' });
      const { turn } = await streamed(chunk({ content: 'a' }), ended(), mark, behind);
      expect(turn.text).toBe('a');
    },
  );

  test('usage comes in a chunk without choices, and neither null nor a later chunk removes it', async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
    const { turn } = await streamed(
      chunk({ content: 'a' }, {}, { usage: { prompt_tokens: 1, completion_tokens: 1 } }),
      ended('length', { usage: null }),
      { choices: [], usage },
      chunk({ content: '' }, {}, { usage: null }),
      '[DONE]',
    );
    expect(turn.usage).toMatchObject({ inputTokens: 9, outputTokens: 2, cachedInputTokens: null });
    expect(turn.finishReason).toBe('length');
  });

  test('a first chunk without choices, as Azure sends it, is ignored', async () => {
    const { turn } = await streamed(
      { id: '', model: '', choices: [], prompt_filter_results: [{}] },
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: 'hi' }),
      ended(),
    );
    expect(turn).toMatchObject({ text: 'hi', model: 'm-1', usage: null });
  });

  test('only the first of several choices is read', async () => {
    const { turn } = await streamed(
      chunk({ content: 'a' }),
      chunk({ content: 'b' }, { index: 1 }),
      ended(),
      chunk({}, { index: 1, finish_reason: 'length' }),
    );
    expect(turn).toMatchObject({ text: 'a', finishReason: 'stop' });
  });

  test('reasoning repeated in two members is read once', async () => {
    const { turn, deltas } = await streamed(
      chunk({ reasoning: 'h', reasoning_content: 'h' }),
      chunk({ reasoning: 'm', reasoning_content: 'm' }),
      chunk({ content: 'a' }),
      ended(),
    );
    expect(turn.reasoning).toBe('hm');
    expect(sumOf(deltas).reasoning).toBe('hm');
  });
});

describe('the calls of a streamed response', () => {
  test('fragments are assigned by id, then by index, then to the call of the last fragment', async () => {
    const { turn } = await streamed(
      piece({ index: 1, ...called('one', '') }),
      piece({ index: 3, ...called('two', '', 'b') }),
      args('{"x":', { index: 1 }),
      args('{"y":', { id: 'b', index: 1 }),
      args('2}'),
      args('1}', { index: 1, id: '' }),
      ended('tool_calls'),
    );
    expect(turn.toolCalls.map(call => [call.callId, call.name, call.input])).toEqual([
      ['a', 'one', { x: 1 }],
      ['b', 'two', { y: 2 }],
    ]);
  });

  test('a new id starts a new call even if every index is 0', async () => {
    const { turn } = await streamed(
      piece({ index: 0, ...called('one', '{"x":1}') }),
      piece({ index: 0, ...called('two', '{"y":2}', 'b') }),
      ended('tool_calls'),
    );
    expect(turn.toolCalls.map(call => call.input)).toEqual([{ x: 1 }, { y: 2 }]);
  });

  test.each<[string, unknown, object]>([
    ['whole', '{"city":"Rome"}', { input: { city: 'Rome' } }],
    ['empty', '', { input: {}, arguments: '{}' }],
    ['null', null, { input: {}, arguments: '{}' }],
    ['an object', { city: 'Rome' }, { input: { city: 'Rome' }, arguments: '{"city":"Rome"}' }],
    ['invalid', '{"city":', { error: expect.stringContaining('not valid JSON'), arguments: '{"city":' }],
    ['an array', '[1]', { error: expect.stringContaining('an array') }],
    ['a number', '3', { error: expect.stringContaining('a number') }],
    ['the word null', 'null', { error: expect.stringContaining('null') }],
  ])('arguments that are %s decode to the same call streamed and whole', async (_, value, expected) => {
    const { turn } = await streamed(piece({ index: 0, ...called('one', value) }), ended('tool_calls'));
    expect(turn.toolCalls).toMatchObject([expected]);
    expect(turn).toEqual(await whole({ content: null, tool_calls: [called('one', value)] }, 'tool_calls'));
  });

  test('calls without an id get one, the same for a repeated request', async () => {
    const events = [
      piece({ index: 0, ...called('one', '{}', '') }),
      piece({ index: 1, ...called('one', '{}', '') }),
      ended('stop'),
    ];
    const ids = (await streamed(...events)).turn.toolCalls.map(call => call.callId);
    expect(new Set(ids).size).toBe(2);
    expect((await streamed(...events)).turn.toolCalls.map(call => call.callId)).toEqual(ids);
  });

  test('a legacy function call is a call', async () => {
    const { turn } = await streamed(
      chunk({ function_call: { name: 'one', arguments: '' } }),
      chunk({ function_call: { arguments: '{"x":1}' } }),
      ended('function_call'),
    );
    expect(turn).toMatchObject({ finishReason: 'tool_calls', toolCalls: [{ name: 'one', input: { x: 1 } }] });
    const message = { content: null, function_call: { name: 'one', arguments: '{"x":1}' } };
    expect(await whole(message, 'function_call')).toEqual(turn);
  });

  test('a whole message identifies its calls by order, whatever their indexes are', async () => {
    const turn = await whole(
      {
        content: '',
        tool_calls: [
          { index: 0, ...called('one', '{"x":1}') },
          { index: 0, ...called('two', '{"y":2}', 'b') },
        ],
      },
      'tool_calls',
    );
    expect(turn.toolCalls.map(call => call.name)).toEqual(['one', 'two']);
  });
});

describe('the end of a response', () => {
  const calls = { content: null, tool_calls: [called('one', '{}')] };

  test.each<[string | null, JsonObject, string]>([
    ['stop', { content: 'a' }, 'stop'],
    ['length', { content: 'a' }, 'length'],
    ['model_length', { content: 'a' }, 'length'],
    ['content_filter', { content: null }, 'content_filter'],
    [null, { content: 'a' }, 'unknown'],
    ['something_new', { content: 'a' }, 'unknown'],
    ['tool_calls', { content: 'a' }, 'tool_calls'],
    ['stop', calls, 'tool_calls'],
    [null, calls, 'tool_calls'],
    ['something_new', calls, 'tool_calls'],
    ['length', calls, 'length'],
    ['content_filter', calls, 'content_filter'],
    ['stop', { content: null, refusal: 'No.' }, 'content_filter'],
  ])('finish %s of %j is %s', async (finish, message, expected) => {
    expect((await whole(message, finish)).finishReason).toBe(expected);
  });

  test('a refusal is kept, but is not part of the text', async () => {
    const { turn } = await streamed(chunk({ refusal: 'N' }), chunk({ refusal: 'o.' }), ended());
    expect(turn).toMatchObject({ text: '', finishReason: 'content_filter' });
    expect(turn.items).toEqual([
      {
        type: 'message',
        role: 'assistant',
        content: [],
        opaque: { provider: 'openai-chat', data: { refusal: 'No.' } },
      },
    ]);
    expect(await whole({ content: null, refusal: 'No.' })).toEqual(turn);
  });

  test.each([
    ['nothing', []],
    ['text', [chunk({ content: 'a' })]],
    ['a call that looks complete', [piece({ index: 0, ...called('one', '{}') })]],
    ['text and [DONE]', [chunk({ content: 'a' }), '[DONE]']],
  ])('a stream that ends after %s without a finish reason is truncated', async (_, events) => {
    const error = (await rejection(streamed(...events))) as ProviderError;
    expect(error).toMatchObject({ name: 'ProviderError', code: 'malformed-stream', retryable: true });
    expect(error.message).toContain('truncated stream');
  });

  test('annotations stay with the text', async () => {
    const annotations = [{ type: 'url_citation', url_citation: { url: 'https://x.test' } }];
    const { turn } = await streamed(chunk({ content: 'a' }), chunk({ annotations }), ended());
    expect(turn.items).toMatchObject([{ content: [{ type: 'text', text: 'a', annotations }] }]);
    expect(await whole({ content: 'a', annotations })).toEqual(turn);
  });

  test('sources beside the choices are annotations of the text, in their order', async () => {
    const sources = {
      citations: ['https://one.test', 'https://two.test'],
      search_results: [{ url: 'https://two.test', title: 'Two', date: '2026-06-07' }],
    };
    const { turn } = await streamed(
      { ...chunk({ content: 'a [1]' }), ...sources },
      { ...chunk({ content: '[2]' }), ...sources },
      { ...ended(), ...sources },
    );
    const annotations = [
      { type: 'url_citation', url_citation: { url: 'https://one.test' } },
      { type: 'url_citation', url_citation: { url: 'https://two.test', title: 'Two' } },
    ];
    expect(turn.items).toMatchObject([{ content: [{ type: 'text', text: 'a [1][2]', annotations }] }]);
    expect(await whole({ content: 'a [1][2]' }, 'stop', sources)).toEqual(turn);
  });

  test('a body without choices is malformed', async () => {
    const error = await rejection(generate(openaiChat, { id: 'c' }));
    expect(error).toMatchObject({ code: 'malformed-stream' });
  });

  test('an event that is not JSON is malformed', async () => {
    expect(await rejection(streamed('<html>'))).toMatchObject({ code: 'malformed-stream' });
  });
});

describe('an error inside a 200', () => {
  test.each<[string, JsonObject[], object]>([
    [
      'next to choices, even after a finish reason',
      [ended('length'), { ...chunk({}), error: { code: 502, message: 'upstream broke' } }],
      { code: 'server', status: 502, retryable: true },
    ],
    [
      'of a choice',
      [chunk({}, { error: { code: 429, message: 'slow down' }, finish_reason: 'error' })],
      { code: 'rate-limit', retryable: true },
    ],
    [
      'that is only a finish reason',
      [chunk({ content: 'a' }), ended('error')],
      { code: 'server', retryable: true },
    ],
    [
      "about DeepSeek's resources",
      [chunk({ content: 'a' }), ended('insufficient_system_resource')],
      { code: 'overloaded', retryable: true },
    ],
    ['that is a text', [{ error: 'model not loaded' }], { code: 'unknown' }],
    [
      'about quota',
      [{ error: { code: 'insufficient_quota', message: 'no' } }],
      { code: 'quota', retryable: false },
    ],
  ])('%s is a ProviderError', async (_, events, expected) => {
    expect(await rejection(streamed(chunk({ content: 'a' }), ...events))).toMatchObject({
      name: 'ProviderError',
      ...expected,
    });
  });

  test('an event named error is an error, whatever its data are', async () => {
    const body = `${sse(chunk({ content: 'a' }))}event: error\ndata: it broke\n\n`;
    const error = await rejection(collect(answering(openaiChat, body).stream(request('hi'), calling())));
    expect(error).toMatchObject({ name: 'ProviderError', raw: 'it broke' });
  });

  test('a whole body that is an error, or whose choice failed, is an error too', async () => {
    const refused = await rejection(generate(openaiChat, { error: { message: 'no', code: 503 } }));
    expect(refused).toMatchObject({ code: 'overloaded', status: 503 });
    const failed = (await rejection(whole({ content: 'a' }, 'error'))) as ProviderError;
    expect(failed).toMatchObject({ code: 'server', retryable: true });
    expect(failed.raw).toMatchObject({ finish_reason: 'error' });
  });
});

describe('usage', () => {
  test.each<[string, JsonObject, object]>([
    [
      'of OpenAI has its details',
      {
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 15,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 3 },
      },
      { inputTokens: 10, outputTokens: 5, cachedInputTokens: 4, cacheWriteTokens: null, reasoningTokens: 3 },
    ],
    [
      'of Grok adds reasoning to the completion',
      {
        prompt_tokens: 291,
        completion_tokens: 26,
        total_tokens: 513,
        completion_tokens_details: { reasoning_tokens: 196 },
      },
      { outputTokens: 222, reasoningTokens: 196 },
    ],
    [
      'of DeepSeek has other names for cached tokens',
      { prompt_tokens: 10, completion_tokens: 5, prompt_cache_hit_tokens: 8, prompt_cache_miss_tokens: 2 },
      { inputTokens: 10, cachedInputTokens: 8 },
    ],
    [
      'of OpenRouter has cache writes',
      {
        prompt_tokens: 10,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 7 },
      },
      { cachedInputTokens: 0, cacheWriteTokens: 7 },
    ],
    [
      'is never negative, and cached tokens may exceed input tokens',
      { prompt_tokens: 293, completion_tokens: -1, prompt_tokens_details: { cached_tokens: 387 } },
      { inputTokens: 293, outputTokens: 0, cachedInputTokens: 387 },
    ],
  ])('%s', async (_, usage, expected) => {
    expect((await whole({ content: 'a' }, 'stop', { usage })).usage).toMatchObject(expected);
  });

  test('that is missing is null', async () => {
    expect((await whole({ content: 'a' })).usage).toBeNull();
  });
});
