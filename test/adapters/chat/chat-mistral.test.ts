import { describe, expect, test } from 'vitest';
import { mistral } from '../../../adapters/mistral.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import {
  answering,
  assistant,
  call,
  chunk,
  completion,
  ended,
  generate,
  messagesBy,
  sentBy,
  stored,
  stream,
  tool,
} from '../../support/adapters/chat-wire.ts';
import { calling, rejection, request, result } from '../../support/adapters/requests.ts';

const thinking = (text: string, more: JsonObject = {}): JsonObject => ({
  type: 'thinking',
  thinking: [{ type: 'text', text }],
  ...more,
});
const text = (value: string): JsonObject => ({ type: 'text', text: value });

describe('responses of Mistral', () => {
  test('content may be chunks or text, and decodes to the same turn whole and streamed', async () => {
    const { turn, deltas } = await stream(
      mistral,
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: [thinking('h')] }),
      chunk({ content: [thinking('m', { closed: true }), text('1')] }),
      chunk({ content: '44' }),
      ended(),
    );
    expect(turn).toMatchObject({ text: '144', reasoning: 'hm' });
    expect(deltas.map(delta => delta.type)).toEqual(['reasoning', 'reasoning', 'text', 'text']);
    const content = [thinking('hm', { closed: true }), text('144')];
    expect(await generate(mistral, completion({ content, tool_calls: null }))).toEqual(turn);
    const sent = await messagesBy(mistral, [userMessage('a'), ...stored(turn), userMessage('b')]);
    expect(sent[1]).toEqual({ role: 'assistant', content });
  });

  test('thoughts go back with their calls, also without text', async () => {
    const calls = [{ id: 'abcdefgh1', function: { name: 'get_weather', arguments: '{}' } }];
    const turn = await generate(
      mistral,
      completion({ content: [thinking('hm')], tool_calls: calls }, 'tool_calls'),
    );
    const [message] = await messagesBy(mistral, [...stored(turn), result('abcdefgh1', 'x')]);
    expect(message).toMatchObject({ content: [thinking('hm')], tool_calls: [{ id: 'abcdefgh1' }] });
  });

  test('references keep their places until the text is edited', async () => {
    const content = [text('It is '), { type: 'reference', reference_ids: [1] }, text('so.')];
    const turn = await generate(mistral, completion({ content }));
    expect(turn.text).toBe('It is so.');
    const sent = await messagesBy(mistral, [...stored(turn), userMessage('b')]);
    expect(sent[0]).toEqual({ role: 'assistant', content });
    const edited = stored(turn).map(item => ({ ...item, content: [text('No.')] }) as Item);
    expect((await messagesBy(mistral, [...edited, userMessage('b')]))[0]).toEqual({
      role: 'assistant',
      content: 'No.',
    });
  });

  test('one chunk may hold a call, the end and usage, without type and index', async () => {
    const calls = [{ id: 'gSIMJiOkT', function: { name: 'get_weather', arguments: '{"city":"Rome"}' } }];
    const { turn } = await stream(
      mistral,
      chunk(
        { content: null, tool_calls: calls },
        { finish_reason: 'tool_calls' },
        { usage: { prompt_tokens: 124, completion_tokens: 22, prompt_tokens_details: { cached_tokens: 8 } } },
      ),
    );
    expect(turn).toMatchObject({
      toolCalls: [{ callId: 'gSIMJiOkT', input: { city: 'Rome' } }],
      usage: { inputTokens: 124, cachedInputTokens: 8 },
    });
  });

  test('a fragment with an empty name and no id belongs to the call before it', async () => {
    const { turn } = await stream(
      mistral,
      chunk({
        tool_calls: [{ id: 'chatcmpl-tool-1', index: 0, function: { name: 'get_weather', arguments: '' } }],
      }),
      chunk({ tool_calls: [{ index: 0, function: { name: '', arguments: '{"city":"Rome"}' } }] }),
      ended('tool_calls'),
    );
    expect(turn.toolCalls).toMatchObject([
      { callId: 'chatcmpl-tool-1', name: 'get_weather', input: { city: 'Rome' } },
    ]);
  });

  test.each<[object, number, object]>([
    [{ detail: 'Invalid API Key' }, 401, { code: 'authentication' }],
    [{ detail: [{ msg: 'Field required' }] }, 422, { code: 'invalid-request' }],
    [
      { object: 'error', message: 'bad id', type: 'invalid_request_error', code: '3280' },
      400,
      { code: 'invalid-request' },
    ],
  ])('%j with status %i is a ProviderError', async (body, status, expected) => {
    const adapter = answering(mistral, JSON.stringify(body), { status, type: 'application/json' });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      status,
      ...expected,
    });
  });
});

describe('requests to Mistral', () => {
  const idsOf = (sent: JsonObject[]) => {
    const calls = sent.flatMap(message => (message.tool_calls ?? []) as JsonObject[]).map(({ id }) => id);
    const results = sent.filter(({ role }) => role === 'tool').map(message => message.tool_call_id);
    return { calls, results };
  };

  test('ids have nine letters and digits, are equal in call and result, and stay distinct', async () => {
    const ids = ['abcdefgh1', 'call_1', 'call_2', 'toolu_01', 'chatcmpl-tool-9f149c74c42f265b', 'ABCDEFGHI'];
    const transcript = [...ids.map(id => call(id)), ...ids.map(id => result(id, id))];
    const { calls, results } = idsOf(await messagesBy(mistral, transcript));
    expect(results).toEqual(calls);
    expect(new Set(calls).size).toBe(ids.length);
    expect(calls.every(id => /^[A-Za-z0-9]{9}$/.test(String(id)))).toBe(true);
    expect([calls[0], calls[5]]).toEqual(['abcdefgh1', 'ABCDEFGHI']);
  });

  test('a replacement id is the same in every later request', async () => {
    const first = [call('call_1'), result('call_1', 'x')];
    const later = [
      ...first,
      call('abcdefgh1'),
      call('call_2'),
      result('abcdefgh1', 'x'),
      result('call_2', 'x'),
    ];
    const before = idsOf(await messagesBy(mistral, first)).calls;
    expect(idsOf(await messagesBy(mistral, later)).calls[0]).toBe(before[0]);
  });

  test('a replacement id that another call already has is not used twice', async () => {
    const made = String(idsOf(await messagesBy(mistral, [call('call_1'), result('call_1', 'x')])).calls[0]);
    const both = [call('call_1'), call(made), result('call_1', 'x'), result(made, 'x')];
    const { calls, results } = idsOf(await messagesBy(mistral, both));
    expect(new Set(calls).size).toBe(2);
    expect(calls[1]).toBe(made);
    expect(results).toEqual(calls);
  });

  test('a required tool call is requested with any', async () => {
    const sent = await sentBy(mistral, request('hi', { tools: [tool], toolChoice: 'required' }));
    expect(sent.tool_choice).toBe('any');
  });

  test('an assistant message separates a result from a user message, and a final assistant message is a prefix', async () => {
    const sent = await messagesBy(mistral, [
      call('abcdefgh1'),
      result('abcdefgh1', 'x'),
      userMessage('b'),
      assistant('It'),
    ]);
    expect(sent.slice(1)).toEqual([
      { role: 'tool', tool_call_id: 'abcdefgh1', content: 'x' },
      { role: 'assistant', content: 'OK' },
      { role: 'user', content: 'b' },
      { role: 'assistant', content: 'It', prefix: true },
    ]);
  });

  test('effort is high or none, files are documents, and usage is not requested', async () => {
    const content: Extract<Item, { type: 'message' }>['content'] = [
      { type: 'file', url: 'https://x.test/a.pdf' },
    ];
    const of = request([{ type: 'message', role: 'user', content }], {
      settings: { reasoningEffort: 'low', maxOutputTokens: 9 },
    });
    const sent = await sentBy(mistral, of, {}, true);
    expect(sent).toMatchObject({
      messages: [{ content: [{ type: 'document_url', document_url: 'https://x.test/a.pdf' }] }],
      reasoning_effort: 'high',
      max_tokens: 9,
      stream: true,
    });
    expect(sent).not.toHaveProperty('stream_options');
    const off = request('hi', { settings: { reasoningEffort: 'minimal' } });
    expect(await sentBy(mistral, off)).toMatchObject({ reasoning_effort: 'none' });
  });
});
