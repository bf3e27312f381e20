import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import {
  begun,
  delta,
  ended,
  json,
  message,
  started,
  stopped,
  streamFor,
  text,
  toolUse,
  turnFor,
} from '../../support/adapters/anthropic-exchange.ts';
import { rejection, request } from '../../support/adapters/requests.ts';

const stream = (...events: JsonObject[]) => streamFor(events, request('hi'));
const generate = (body: JsonObject) => turnFor(body, request('hi'));

describe('a streamed message', () => {
  test('interleaved blocks are kept separate by their index', async () => {
    const { turn, deltas } = await stream(
      started(),
      begun(0, toolUse('t1', 'one')),
      begun(1, toolUse('t2', 'two')),
      json(1, '{"y":'),
      json(0, '{"x":'),
      stopped(0),
      json(1, '2}'),
      json(0, '1}'),
      stopped(1),
      ...ended('tool_use'),
    );
    expect(turn.toolCalls.map(({ callId, input }) => [callId, input])).toEqual([
      ['t1', { x: 1 }],
      ['t2', { y: 2 }],
    ]);
    expect(deltas.slice(0, 4)).toEqual([
      { type: 'call_started', index: 0, name: 'one', callId: 't1' },
      { type: 'call_started', index: 1, name: 'two', callId: 't2' },
      { type: 'call_arguments', index: 1, text: '{"y":' },
      { type: 'call_arguments', index: 0, text: '{"x":' },
    ]);
  });

  test('decodes to the turn and the items of the same message sent whole', async () => {
    const content: JsonObject[] = [
      { type: 'thinking', thinking: 'Hm. So.', signature: 'sig' },
      { type: 'redacted_thinking', data: 'red' },
      { type: 'server_tool_use', id: 'srv', name: 'web_search', input: { query: 'x' } },
      { type: 'web_search_tool_result', tool_use_id: 'srv', content: [] },
      { type: 'text', text: 'Look', citations: [{ cited_text: 'a' }, { cited_text: 'b' }] },
      toolUse('t1', 'one', { a: 1 }),
    ];
    const { turn } = await stream(
      started(),
      { type: 'ping' },
      begun(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, { type: 'thinking_delta', thinking: 'Hm. ' }),
      delta(0, { type: 'thinking_delta', thinking: 'So.' }),
      delta(0, { type: 'signature_delta', signature: 'sig' }),
      stopped(0),
      begun(1, content[1] as JsonObject),
      stopped(1),
      begun(2, { ...(content[2] as JsonObject), input: {} }),
      json(2, '{"query":"x"}'),
      stopped(2),
      begun(3, content[3] as JsonObject),
      stopped(3),
      begun(4, { type: 'text', text: '', citations: [] }),
      delta(4, { type: 'citations_delta', citation: { cited_text: 'a' } }),
      delta(4, { type: 'text_delta', text: 'Look' }),
      delta(4, { type: 'citations_delta', citation: { cited_text: 'b' } }),
      stopped(4),
      begun(5, toolUse('t1', 'one')),
      json(5, ''),
      json(5, '{"a":1}'),
      stopped(5),
      ...ended('tool_use'),
    );
    expect(turn).toEqual(await generate(message(content, 'tool_use')));
    expect(turn.items.map(item => item.type)).toEqual([
      'reasoning',
      'reasoning',
      'provider_item',
      'provider_item',
      'message',
      'tool_call',
    ]);
    expect(turn.items[4]).toMatchObject({
      content: [{ annotations: [{ cited_text: 'a' }, { cited_text: 'b' }] }],
    });
  });

  test('a block may start with its text or its input', async () => {
    const { turn, deltas } = await stream(
      started(),
      begun(0, text('Hel')),
      delta(0, { type: 'text_delta', text: 'lo' }),
      begun(1, toolUse('t1', 'one', { a: 1 })),
      stopped(1),
      begun(2, toolUse('t2', 'two', { ignored: true })),
      json(2, '{"b":2}'),
      ...ended('tool_use'),
    );
    expect(turn.text).toBe('Hello');
    expect(turn.toolCalls.map(call => call.input)).toEqual([{ a: 1 }, { b: 2 }]);
    expect(deltas).toContainEqual({ type: 'call_arguments', index: 0, text: '{"a":1}' });
  });

  test.each([
    ['an empty piece', [json(0, '')]],
    ['no piece', []],
  ])('a call with %s as arguments has empty arguments', async (_, pieces) => {
    const { turn } = await stream(
      started(),
      begun(0, toolUse('t1', 'one')),
      ...pieces,
      stopped(0),
      ...ended('tool_use'),
    );
    expect(turn.toolCalls).toMatchObject([{ arguments: '{}', input: {} }]);
  });

  test('arguments that are not JSON are an error for the model to read', async () => {
    const { turn } = await stream(
      started(),
      begun(0, toolUse('t1', 'one')),
      json(0, '{"a":'),
      stopped(0),
      ...ended('tool_use'),
    );
    expect(turn.toolCalls[0]).toMatchObject({
      arguments: '{"a":',
      error: expect.stringContaining('not valid JSON'),
    });
    expect(turn.toolCalls[0]).not.toHaveProperty('input');
  });

  test('calls that are in the message when it starts come first, once', async () => {
    const start = { ...started(), message: message([toolUse('t0', 'zero', { z: 0 })], null) };
    const { turn, deltas } = await stream(
      start,
      begun(0, toolUse('t0', 'zero', { z: 0 })),
      begun(1, toolUse('t1', 'one')),
      json(1, '{"x":1}'),
      ...ended('tool_use'),
    );
    expect(turn.toolCalls.map(({ callId, input }) => [callId, input])).toEqual([
      ['t0', { z: 0 }],
      ['t1', { x: 1 }],
    ]);
    expect(deltas.filter(({ type }) => type === 'call_started')).toHaveLength(2);
  });

  test('blocks that all have the same index are sequential', async () => {
    const { turn } = await stream(
      started(),
      begun(0, text('')),
      delta(0, { type: 'text_delta', text: 'a' }),
      stopped(0),
      begun(0, toolUse('t1', 'one')),
      json(0, '{"x":1}'),
      stopped(0),
      ...ended('tool_use'),
    );
    expect(turn).toMatchObject({ text: 'a', toolCalls: [{ input: { x: 1 } }] });
  });

  test('text without a block start is text, and a delta of an unknown type is kept', async () => {
    const { turn } = await stream(
      started(),
      delta(0, { type: 'text_delta', text: 'hi' }),
      begun(1, { type: 'compaction', content: null }),
      delta(1, { type: 'compaction_delta', content: 'summary', encrypted_content: 'enc' }),
      ...ended('compaction'),
    );
    expect(turn).toMatchObject({ text: 'hi', finishReason: 'pause' });
    expect(turn.items[1]).toMatchObject({
      kind: 'compaction',
      opaque: { data: { block: { type: 'compaction', content: 'summary', encrypted_content: 'enc' } } },
    });
  });
});

// Stand-ins in the documented format of a model that declines halfway and of the one that takes over.
describe('a turn that another model took over', () => {
  const THOUGHT = { type: 'thinking', thinking: 'Hm.', signature: 'sig' };
  const HANDOVER = {
    type: 'fallback',
    from: { model: 'a' },
    to: { model: 'b' },
    trigger: { type: 'refusal' },
  };
  const search = (id: string) => ({ type: 'server_tool_use', id, name: 'web_search', input: {} });
  const found = { type: 'web_search_tool_result', tool_use_id: 's1', content: [] };
  const content = [
    THOUGHT,
    text('Let me see. '),
    search('s1'),
    found,
    search('s2'),
    toolUse('t1', 'declined'),
    HANDOVER,
    { ...THOUGHT, thinking: 'So.' },
    toolUse('t2', 'lookup'),
  ];
  const kept = [text('Let me see. '), search('s1'), found, HANDOVER, ...content.slice(7)];

  test('has no calls and no thinking of the one that declined', async () => {
    const turn = await generate(message(content, 'tool_use'));
    expect(turn.toolCalls.map(({ name }) => name)).toEqual(['lookup']);
    expect(turn.reasoning).toBe('So.');
    const blocks = turn.items.map(item => ('opaque' in item ? item.opaque?.data : undefined));
    expect(blocks).toEqual(kept.map(block => ({ block })));
  });

  test('is the same from a stream, whose calls are counted from the first that stays', async () => {
    const events = content.flatMap((block, at) => [begun(at, block), stopped(at)]);
    const { turn, deltas } = await stream(started(), ...events, ...ended('tool_use'));
    expect(turn.items).toEqual((await generate(message(content, 'tool_use'))).items);
    expect(deltas.findLast(({ type }) => type === 'call_started')).toMatchObject({
      index: 0,
      name: 'lookup',
    });
  });
});

describe('a message that is started twice', () => {
  const hello = [begun(0, text('')), delta(0, { type: 'text_delta', text: 'hi' })];

  test('with the same id is one message', async () => {
    const { turn } = await stream(
      started(),
      ...hello,
      started(),
      delta(0, { type: 'text_delta', text: '!' }),
      ...ended('end_turn'),
    );
    expect(turn).toMatchObject({ text: 'hi!', items: [{ type: 'message' }] });
  });

  test('with another id is two streams spliced together, and produces no call', async () => {
    const error = await rejection(
      stream(
        started('msg_1'),
        begun(0, toolUse('t1', 'one')),
        json(0, '{}'),
        started('msg_2'),
        ...hello,
        ...ended('end_turn'),
      ),
    );
    expect(error).toMatchObject({ code: 'malformed-stream', retryable: true });
    expect(String(error)).toContain('msg_2 starts before msg_1 has ended');
  });
});

describe('the end', () => {
  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['pause_turn', 'pause'],
    ['a_reason_of_the_future', 'unknown'],
  ])('%s is %s', async (stop_reason, finishReason) => {
    expect(await generate(message([text('a')], stop_reason))).toMatchObject({ finishReason });
    const { turn } = await stream(started(), begun(0, text('a')), ...ended(stop_reason));
    expect(turn).toMatchObject({ finishReason });
  });

  test('tools that the provider ran are not calls', async () => {
    const content = [{ type: 'server_tool_use', id: 'srv', name: 'web_search', input: {} }, text('a')];
    expect(await generate(message(content))).toMatchObject({ finishReason: 'stop', toolCalls: [] });
  });

  test('calls take precedence over end_turn, and a refusal without content is a refusal', async () => {
    expect(await generate(message([toolUse('t1', 'one')], 'end_turn'))).toMatchObject({
      finishReason: 'tool_calls',
    });
    expect(await generate(message([], 'refusal'))).toMatchObject({
      finishReason: 'content_filter',
      text: '',
      items: [],
    });
  });

  test.each([
    ['in the middle of its arguments', [json(0, '{"to": "Al')]],
    ['before its arguments', [json(0, '')]],
  ])('a call that is cut off %s finishes the turn with length and cannot be run', async (_, pieces) => {
    const { turn } = await stream(
      started(),
      begun(0, toolUse('t1', 'send')),
      ...pieces,
      stopped(0),
      ...ended('max_tokens'),
    );
    expect(turn).toMatchObject({ finishReason: 'length', toolCalls: [{ error: expect.any(String) }] });
    expect(turn.toolCalls[0]).not.toHaveProperty('input');
  });

  test.each([
    ['before message_stop', [started(), begun(0, text('a')), ended('end_turn')[0] as JsonObject]],
    ['in the middle of a call', [started(), begun(0, toolUse('t1', 'one')), json(0, '{}'), stopped(0)]],
    ['before anything', []],
  ])('a stream that ends %s is truncated, never a turn', async (_, events) => {
    const error = await rejection(stream(...events));
    expect(error).toMatchObject({ code: 'malformed-stream', retryable: true });
    expect(String(error)).toContain('truncated stream');
  });

  test('an error as the first event or in the middle is thrown with its own code', async () => {
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    expect(await rejection(stream(overloaded))).toMatchObject({
      code: 'overloaded',
      retryable: true,
      raw: overloaded,
    });
    const failed = { type: 'error', error: { type: 'api_error', message: 'Internal' } };
    expect(await rejection(stream(started(), begun(0, text('a')), failed))).toMatchObject({
      code: 'server',
      retryable: true,
    });
  });
});

describe('usage', () => {
  test('the input includes cached tokens', async () => {
    const usage = {
      input_tokens: 3,
      cache_creation_input_tokens: 40,
      cache_read_input_tokens: 500,
      output_tokens: 7,
      output_tokens_details: { thinking_tokens: 2 },
    };
    expect((await generate(message([text('a')], 'end_turn', { usage }))).usage).toEqual({
      inputTokens: 543,
      outputTokens: 7,
      cachedInputTokens: 500,
      cacheWriteTokens: 40,
      reasoningTokens: 2,
    });
  });

  test('counts of message_delta override those of message_start, and null is ignored', async () => {
    const { turn } = await stream(
      started('msg_1', { input_tokens: 43, cache_read_input_tokens: 5, output_tokens: 1 }),
      begun(0, text('a')),
      ...ended('end_turn', { input_tokens: 61, cache_read_input_tokens: null, output_tokens: 2 }),
    );
    expect(turn.usage).toMatchObject({ inputTokens: 66, outputTokens: 2, cachedInputTokens: 5 });
  });

  test('missing counts are null', async () => {
    expect((await generate(message([text('a')], 'end_turn', { usage: {} }))).usage).toBeNull();
  });

  // Stand-ins in the documented format of a compaction, whose tokens the counts of the call leave out.
  test('includes the compactions of the call', async () => {
    const compaction = {
      type: 'compaction',
      input_tokens: 144,
      output_tokens: 276,
      cache_read_input_tokens: 6,
    };
    const message_ = { type: 'message', input_tokens: 3, output_tokens: 7 };
    const alone = { input_tokens: 0, output_tokens: 0, iterations: [compaction] };
    const summary = { type: 'compaction', content: 'So far: hi.', signature: 'sig' };
    expect((await generate(message([summary], 'compaction', { usage: alone }))).usage).toMatchObject({
      inputTokens: 150,
      outputTokens: 276,
      cachedInputTokens: 6,
    });
    const beside = { input_tokens: 3, output_tokens: 7, iterations: [compaction, message_] };
    expect((await generate(message([text('a')], 'end_turn', { usage: beside }))).usage).toMatchObject({
      inputTokens: 153,
      outputTokens: 283,
    });
  });

  test('sums up the cache writes by their lifetime if their sum is not reported', async () => {
    const usage = {
      input_tokens: 3,
      output_tokens: 7,
      cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 4 },
    };
    expect((await generate(message([text('a')], 'end_turn', { usage }))).usage).toMatchObject({
      inputTokens: 27,
      cacheWriteTokens: 24,
    });
    const summed = { ...usage, cache_creation_input_tokens: 24 };
    expect((await generate(message([text('a')], 'end_turn', { usage: summed }))).usage).toMatchObject({
      inputTokens: 27,
    });
  });
});
