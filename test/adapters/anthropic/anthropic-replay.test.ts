import { describe, expect, test } from 'vitest';
import { objectsOf } from '../../../adapters/turn/json-access.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import {
  answering,
  begun,
  bodyFor,
  ended,
  jsonReply,
  message,
  streamFor,
  text,
  toolUse,
  turnFor,
} from '../../support/adapters/anthropic-exchange.ts';
import { calling, rejection, request, result } from '../../support/adapters/requests.ts';

const THINKING = { type: 'thinking', thinking: 'Hm.', signature: 'sig+/=1' };
const SEARCH = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } };
const FOUND = {
  type: 'web_search_tool_result',
  tool_use_id: 'srvtoolu_1',
  content: [{ type: 'web_search_result', url: 'https://x.test', encrypted_content: 'enc==' }],
};

/** The messages of the request that follows a turn with these blocks, after a JSON round trip. */
async function messagesAfter(content: JsonObject[], ...more: Item[]): Promise<JsonObject[]> {
  const { items } = await turnFor(message(content, 'tool_use'), request('hi'));
  return messagesOf([userMessage('hi'), ...items, ...more]);
}

async function messagesOf(transcript: readonly Item[]): Promise<JsonObject[]> {
  const kept = JSON.parse(JSON.stringify(transcript)) as Item[];
  return (await bodyFor(request(kept))).messages as JsonObject[];
}

const call = (callId: string, name = 'lookup', args = '{}'): Item => ({
  type: 'tool_call',
  callId,
  name,
  arguments: args,
});
const said = (value: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text: value }],
});

describe("the model's output is sent back", () => {
  test('byte for byte and in order, whatever its blocks are', async () => {
    const content: JsonObject[] = [
      THINKING,
      { type: 'redacted_thinking', data: 'EmwK==' },
      { type: 'thinking', thinking: '', signature: 'sig-omitted' },
      {
        type: 'text',
        text: 'See',
        citations: [{ type: 'web_search_result_location', encrypted_index: 'Eo8=' }],
      },
      SEARCH,
      FOUND,
      { type: 'server_tool_use', id: 'srvtoolu_2', name: 'web_fetch', input: {} },
      {
        type: 'web_fetch_tool_result',
        tool_use_id: 'srvtoolu_2',
        content: { type: 'web_fetch_tool_result_error', error_code: 'unavailable' },
      },
      { type: 'mcp_tool_use', id: 'mcptoolu_1', name: 'ask', server_name: 'wiki', input: {} },
      { type: 'mcp_tool_result', tool_use_id: 'mcptoolu_1', is_error: false, content: [text('yes')] },
      { type: 'block_of_the_future', secret: [1, null, { a: 'b' }] },
      { type: 'tool_use', id: 'toolu_1', name: 'lookup', input: { b: 1, a: [] }, caller: { type: 'direct' } },
    ];
    const messages = await messagesAfter(content, result('toolu_1', 'ok'));
    expect(JSON.stringify(messages[1])).toBe(JSON.stringify({ role: 'assistant', content }));
    expect(messages[2]).toEqual({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'ok' }],
    });
  });

  // Stand-ins in the documented format: no recording of these blocks exists.
  test('also what tools of the provider, code and compactions left in it', async () => {
    const content: JsonObject[] = [
      { type: 'compaction', content: 'So far: hi.', encrypted_content: 'enc==' },
      { type: 'mcp_tool_listing', mcp_server_name: 'wiki', tools: [{ name: 'ask', input_schema: {} }] },
      { type: 'server_tool_use', id: 'st_1', name: 'tool_search_tool_bm25', input: { query: 'x' } },
      {
        type: 'tool_search_tool_result',
        tool_use_id: 'st_1',
        content: { type: 'tool_search_tool_search_result', tool_references: [{ tool_name: 'lookup' }] },
      },
      { type: 'server_tool_use', id: 'st_2', name: 'code_execution', input: { code: 'await lookup()' } },
      {
        type: 'tool_use',
        id: 'toolu_1',
        name: 'lookup',
        input: {},
        caller: { type: 'code_execution_20260521', tool_id: 'st_2' },
      },
    ];
    const messages = await messagesAfter(content, result('toolu_1', 'ok'));
    expect(messages[1]).toEqual({ role: 'assistant', content });
  });

  test('with the container of the code that waits for results, until it has them', async () => {
    const container = { id: 'container_1', expires_at: '2026-12-01T00:00:00Z' };
    const caller = { type: 'code_execution_20260521', tool_id: 'st_2' };
    const { items } = await turnFor(
      message([{ ...toolUse('toolu_1', 'lookup'), caller }, toolUse('toolu_2', 'lookup')], 'tool_use', {
        container,
      }),
      request('hi'),
    );
    const results = [result('toolu_1', 'a'), result('toolu_2', 'b')];
    const waiting = [userMessage('hi'), ...items, ...results];
    expect(await bodyFor(request(waiting))).toMatchObject({ container: 'container_1' });
    expect(await bodyFor(request([...waiting, userMessage('and?')]))).not.toHaveProperty('container');
  });

  test('with the toolset of its call beside each result', async () => {
    const click = { ...toolUse('toolu_1', 'left_click'), toolset_name: 'computer' };
    const messages = await messagesAfter([click], result('toolu_1', 'ok'));
    expect(messages[2]).toMatchObject({ content: [{ type: 'tool_result', toolset_name: 'computer' }] });
  });

  test('from its last signed summary on, which stands for all before it', async () => {
    const summary = { type: 'compaction', content: 'So far: hi.', signature: 'sig==' };
    const { items, finishReason } = await turnFor(message([summary], 'compaction'), request('hi'));
    expect(finishReason).toBe('pause');
    const before: Item[] = [
      { type: 'message', role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
      userMessage('hi'),
      call('t1'),
      result('t1', 'x'),
      ...items,
      userMessage('more'),
    ];
    const sent = await bodyFor(request([...before, ...items, said('Well.'), userMessage('and?')]));
    expect(sent.system).toBe('Be brief.');
    expect(sent.messages).toEqual([
      { role: 'assistant', content: [summary, text('Well.')] },
      { role: 'user', content: [text('and?')] },
    ]);
  });

  // A stand-in in the documented format of the beta feature thinking-binding-controls-2026-08-01.
  test('and what the provider says it left out of it is named, whole and streamed', async () => {
    const { items } = await turnFor(message([THINKING, toolUse('t1', 'lookup')], 'tool_use'), request('hi'));
    const [thought, called] = items.map((item, at) => ({ ...item, id: `item_${at}` }));
    const transcript = [userMessage('hi'), thought, called, result('t1', 'x')].filter(
      item => item !== undefined,
    );
    const input_transformations = [
      { type: 'thinking_dropped', path: 'messages.1.content.0', reason: 'prefix_binding_mismatch' },
      { type: 'thinking_mismatch_allowed', path: 'messages.1.content.1', reason: 'prefix_binding_mismatch' },
      { type: 'thinking_dropped', path: 'messages.9.content.0', reason: 'model_binding_mismatch' },
    ];
    const body = message([text('Well.')], 'end_turn', { input_transformations });
    expect((await turnFor(body, request(transcript))).dropped).toEqual(['item_0']);
    const start = { type: 'message_start', message: { ...message([], null), input_transformations } };
    const events = [start, begun(0, text('Well.')), ...ended('end_turn')];
    expect((await streamFor(events, request(transcript))).turn.dropped).toEqual(['item_0']);
    expect(await turnFor(message([text('Well.')]), request(transcript))).not.toHaveProperty('dropped');
  });

  test('with all before a compaction that failed', async () => {
    const failed = { type: 'compaction', content: null, signature: 'sig==' };
    const messages = await messagesAfter([failed], userMessage('go on'));
    expect(messages).toMatchObject([{ role: 'user' }, { content: [failed] }, { role: 'user' }]);
  });

  test('without empty texts, unsigned thinking, and thinking at the end', async () => {
    const [, assistant] = await messagesAfter(
      [text(''), { ...THINKING, signature: '' }, { ...THINKING, signature: ' ' }, text('a'), THINKING],
      userMessage('go on'),
    );
    expect(assistant).toEqual({ role: 'assistant', content: [text('a')] });
    const messages = await messagesAfter([THINKING], userMessage('go on'));
    expect(messages).toEqual([{ role: 'user', content: [text('hi'), text('go on')] }]);
  });

  test('as it was edited since', async () => {
    const { items } = await turnFor(
      message([text('one'), toolUse('t1', 'lookup', { a: 1 })], 'tool_use'),
      request('hi'),
    );
    const edited = items.map((item): Item => {
      if (item.type === 'message') return { ...item, content: [{ type: 'text', text: 'two' }] };
      return item.type === 'tool_call' ? { ...item, callId: 'run_2', arguments: '{"a":2}' } : item;
    });
    const messages = await messagesOf([userMessage('hi'), ...edited, result('run_2', 'ok')]);
    expect(messages.slice(1)).toEqual([
      { role: 'assistant', content: [text('two'), toolUse('run_2', 'lookup', { a: 2 })] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'run_2', content: 'ok' }] },
    ]);
  });

  test('without a server result whose call was dropped', async () => {
    const { items } = await turnFor(message([SEARCH, FOUND, text('a')]), request('hi'));
    const messages = await messagesOf([userMessage('hi'), ...items.slice(1), userMessage('b')]);
    expect(messages[1]).toEqual({ role: 'assistant', content: [text('a')] });
  });
});

describe('a paused turn', () => {
  test('is continued with its content at the end and no user message', async () => {
    const paused = await turnFor(message([text('a'), SEARCH], 'pause_turn'), request('hi'));
    expect(paused).toMatchObject({ finishReason: 'pause', toolCalls: [] });
    expect(await messagesOf([userMessage('hi'), ...paused.items])).toEqual([
      { role: 'user', content: [text('hi')] },
      { role: 'assistant', content: [text('a'), SEARCH] },
    ]);
  });

  test('that continues with a client tool is one message with it', async () => {
    const paused = await turnFor(message([text('a'), SEARCH], 'pause_turn'), request('hi'));
    const transcript = [userMessage('hi'), ...paused.items];
    const next = await turnFor(message([FOUND, toolUse('t1', 'lookup')], 'tool_use'), request(transcript));
    expect(next).toMatchObject({ finishReason: 'tool_calls', toolCalls: [{ callId: 't1' }] });
    expect((await messagesOf([...transcript, ...next.items, result('t1', 'ok')])).slice(1)).toEqual([
      { role: 'assistant', content: [text('a'), SEARCH, FOUND, toolUse('t1', 'lookup')] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: 'ok' }] },
    ]);
  });

  test('with calls waits for their results', async () => {
    const turn = await turnFor(message([toolUse('t1', 'lookup'), SEARCH], 'pause_turn'), request('hi'));
    expect(turn.finishReason).toBe('tool_calls');
  });
});

describe('results', () => {
  const uses = (message: JsonObject | undefined) =>
    objectsOf(message?.content).map(block => block.tool_use_id ?? block.text);

  test('of one turn are in one message, before the next user message, in the order of the calls', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      call('a'),
      call('b'),
      userMessage('and?'),
      result('b', '2'),
      result('a', '1'),
    ]);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
    expect(uses(messages[2])).toEqual(['a', 'b', 'and?']);
  });

  test('match calls one to one', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      call('a'),
      call('b'),
      result('a', '1'),
      result('z', '9'),
    ]);
    expect(messages.at(-1)?.content).toEqual([
      { type: 'tool_result', tool_use_id: 'a', content: '1' },
      { type: 'tool_result', tool_use_id: 'b', content: 'There is no result for this call.', is_error: true },
    ]);
  });

  test('of sequential calls each follow their own call', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      call('a'),
      result('a', '1'),
      call('b'),
      result('b', '2'),
    ]);
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant', 'user']);
  });

  test('are marked as errors, never have an empty text, and contain the display text', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      call('a'),
      call('b'),
      call('c'),
      result('a', 'no', true),
      result('b', '', true),
      { type: 'tool_result', callId: 'c', output: { rows: [1, 2] }, isError: false, shown: '[1, …]' },
    ]);
    expect(messages.at(-1)?.content).toMatchObject([
      { content: 'no', is_error: true },
      { content: 'The tool failed.', is_error: true },
      { content: '[1, …]' },
    ]);
  });
});

describe('items of other providers', () => {
  const foreign = { provider: 'openai-responses', data: { item: { encrypted_content: 'theirs' } } };

  test('are sent in their portable form, without their reasoning', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      { type: 'reasoning', text: 'their thoughts', opaque: foreign },
      { type: 'provider_item', kind: 'web_search_call', opaque: foreign },
      { ...said('one'), opaque: foreign } as Item,
      { ...call('call_1', 'lookup', '{"q":1}'), opaque: foreign } as Item,
      result('call_1', 'ok'),
    ]);
    expect(messages[1]).toEqual({
      role: 'assistant',
      content: [text('one'), toolUse('call_1', 'lookup', { q: 1 })],
    });
    expect(JSON.stringify(messages)).not.toContain('their');
  });

  test('have their ids made valid, the same in call and result, and distinct if they were distinct', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      call('call:1'),
      call('call_1'),
      call('call/1'),
      result('call:1', 'x'),
      result('call_1', 'y'),
      result('call/1', 'z'),
    ]);
    const ids = objectsOf(messages[1]?.content).map(({ id }) => id);
    expect(ids.every(id => /^[a-zA-Z0-9_-]+$/.test(String(id)))).toBe(true);
    expect(new Set(ids).size).toBe(3);
    expect(ids[1]).toBe('call_1');
    expect(messages[2]?.content).toMatchObject(
      ['x', 'y', 'z'].map((content, at) => ({ tool_use_id: ids[at], content })),
    );
  });

  test('with a repeated call id get two ids, each with its own result', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      call('a'),
      result('a', '1'),
      call('a'),
      result('a', '2'),
    ]);
    expect(messages[2]?.content).toMatchObject([{ tool_use_id: 'a', content: '1' }]);
    expect(messages[4]?.content).toMatchObject([{ tool_use_id: 'a_', content: '2' }]);
  });

  test('with arguments that are not an object, or with invalid names, are made valid', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      call('a', 'math.add', '{"x":'),
      result('a', 'bad', true),
    ]);
    expect(messages[1]?.content).toEqual([toolUse('a', 'math_add', {})]);
  });

  test('that are control items or empty messages are not sent', async () => {
    const messages = await messagesOf([
      userMessage('hi'),
      said(''),
      { type: 'approval_request', callId: 'a', name: 'lookup', arguments: '{}' },
      { type: 'tool_list', label: 'x', tools: [] },
      { type: 'approval_response', callId: 'a', approve: true },
      userMessage(''),
    ]);
    expect(messages).toEqual([{ role: 'user', content: [text('hi')] }]);
  });
});

describe('thinking that the provider rejects', () => {
  const refusal = (said: string) =>
    jsonReply({ type: 'error', error: { type: 'invalid_request_error', message: said } }, 400);
  const transcriptOf = async () => {
    const { items } = await turnFor(message([THINKING, toolUse('t1', 'lookup')], 'tool_use'), request('hi'));
    return [userMessage('hi'), ...items, result('t1', 'ok')];
  };

  test('is left out in one more request, as after a change of the model', async () => {
    const answers = [
      refusal('messages.1.content.0: Invalid `signature` in `thinking` block'),
      jsonReply(message([text('ok')])),
    ];
    const { adapter, sent } = answering(answers);
    const turn = await adapter.generate(request(await transcriptOf()), calling());
    expect(turn.text).toBe('ok');
    expect(sent.map(({ messages }) => JSON.stringify(messages).includes('sig+/=1'))).toEqual([true, false]);
  });

  test('is the only reason for another request: other rejections are final', async () => {
    const other = answering([refusal('max_tokens: too many')]);
    expect(await rejection(other.adapter.generate(request(await transcriptOf()), calling()))).toMatchObject({
      code: 'invalid-request',
    });
    const plain = answering([refusal('Invalid `signature` in `thinking` block')]);
    await rejection(plain.adapter.generate(request('hi'), calling()));
    expect([other.sent.length, plain.sent.length]).toEqual([1, 1]);
  });
});
