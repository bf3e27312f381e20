import { describe, expect, test } from 'vitest';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { assistant, call, messagesBy, sentBy, tool } from '../../support/adapters/chat-wire.ts';
import { request, result } from '../../support/adapters/requests.ts';

const body = (of: ModelRequest, model = 'gpt-4.1') => sentBy(openaiChat, of, { model });
const messages = (transcript: readonly Item[], model = 'gpt-4.1') =>
  messagesBy(openaiChat, transcript, { model });
const callInput = (id: string, args = '{}'): JsonObject => ({
  id,
  type: 'function',
  function: { name: 'get_weather', arguments: args },
});
const toolMessage = (id: string, content: string) => ({ role: 'tool', tool_call_id: id, content });

describe('the body of a chat request', () => {
  test('a minimal request has only model and messages, and a streaming one requests usage', async () => {
    const bare = { model: 'gpt-4.1', messages: [{ role: 'user', content: 'hi' }] };
    expect(await body(request('hi'))).toEqual(bare);
    expect(await sentBy(openaiChat, request('hi'), { model: 'gpt-4.1' }, true)).toEqual({
      ...bare,
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  test('tools are nested, and strict only if their schema allows it', async () => {
    const open = {
      ...tool,
      inputSchema: { type: 'object', properties: { a: { type: 'string' } } },
      strict: true,
    };
    const { tools, tool_choice } = await body(
      request('hi', { tools: [tool, { ...tool, strict: true }, open] }),
    );
    const { inputSchema: parameters, ...named } = tool;
    expect(tools).toEqual([
      { type: 'function', function: { ...named, parameters } },
      {
        type: 'function',
        function: { ...named, parameters: { ...parameters, additionalProperties: false }, strict: true },
      },
      { type: 'function', function: { ...named, parameters: open.inputSchema } },
    ]);
    expect(tool_choice).toBe('auto');
  });

  test('a tool without input has empty properties', async () => {
    const { tools } = await body(request('hi', { tools: [{ ...tool, inputSchema: { type: 'object' } }] }));
    expect(tools).toMatchObject([{ function: { parameters: { type: 'object', properties: {} } } }]);
  });

  test('toolChoice none keeps the tools and sends none; without tools neither is sent', async () => {
    expect(await body(request('hi', { tools: [tool], toolChoice: 'none' }))).toMatchObject({
      tools: [{ function: { name: 'get_weather' } }],
      tool_choice: 'none',
    });
    const bare = await body(request('hi', { toolChoice: 'none', settings: { parallelToolCalls: false } }));
    expect(Object.keys(bare)).toEqual(['model', 'messages']);
  });

  test('a tool, or a tool of a given name, can be required', async () => {
    const choose = async (toolChoice: ModelRequest['toolChoice']) =>
      (await body(request('hi', { tools: [tool], toolChoice }))).tool_choice;
    expect(await choose('required')).toBe('required');
    expect(await choose({ name: 'get_weather' })).toEqual({
      type: 'function',
      function: { name: 'get_weather' },
    });
  });

  test('settings, instructions and output are mapped', async () => {
    const schema = { type: 'object', properties: {} };
    const sent = await body(
      request('hi', {
        instructions: 'Be brief.',
        tools: [tool],
        output: { name: 'the city', schema, strict: true },
        settings: {
          temperature: 0,
          topP: 0.5,
          maxOutputTokens: 9,
          parallelToolCalls: false,
          reasoningEffort: 'low',
        },
      }),
    );
    expect(sent).toMatchObject({
      messages: [{ role: 'system', content: 'Be brief.' }, {}],
      temperature: 0,
      top_p: 0.5,
      max_completion_tokens: 9,
      parallel_tool_calls: false,
      reasoning_effort: 'low',
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'the_city', schema: { ...schema, additionalProperties: false }, strict: true },
      },
    });
  });

  test('only OpenAI gets max_completion_tokens and developer messages, and its first reasoning models no system message', async () => {
    const transcript: Item[] = [
      { type: 'message', role: 'developer', content: [{ type: 'text', text: 'd' }] },
    ];
    const sent = (model: string) =>
      body(request(transcript, { instructions: 'i', settings: { maxOutputTokens: 9 } }), model);
    const [own, first, other] = await Promise.all(['gpt-5', 'o1-mini', 'qwen3'].map(sent));
    expect(own).toMatchObject({
      max_completion_tokens: 9,
      messages: [{ role: 'system' }, { role: 'developer' }],
    });
    expect(first).toMatchObject({ messages: [{ role: 'user' }, { role: 'user' }] });
    expect(other).toMatchObject({ max_tokens: 9, messages: [{ role: 'system' }, { role: 'system' }] });
  });

  test("provider options come last, the request's over the adapter's, and their tools are added to the agent's", async () => {
    const sent = await sentBy(
      openaiChat,
      request('hi', {
        tools: [tool],
        settings: { temperature: 1 },
        providerOptions: { temperature: 0, service_tier: 'flex', tools: [{ type: 'web_search' }] },
        continuation: 'resp_1',
      }),
      { providerOptions: { service_tier: 'default', user: 'u' } },
    );
    expect(sent).toMatchObject({
      temperature: 0,
      service_tier: 'flex',
      user: 'u',
      tools: [{ function: { name: 'get_weather' } }, { type: 'web_search' }],
    });
    expect(JSON.stringify(sent)).not.toContain('resp_1');
  });
});

describe('the transcript as messages', () => {
  test("a user's text, images, files and audio are mapped", async () => {
    const content: Extract<Item, { type: 'message' }>['content'] = [
      { type: 'text', text: 'look' },
      { type: 'image', url: 'https://x.test/a.png' },
      { type: 'file', url: 'data:image/png;base64,AA' },
      { type: 'file', url: 'data:audio/mpeg;base64,AA' },
      { type: 'file', url: 'data:application/pdf;base64,AA', name: 'a.pdf' },
    ];
    expect(await messages([{ type: 'message', role: 'user', content }])).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'look' },
          { type: 'image_url', image_url: { url: 'https://x.test/a.png' } },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } },
          { type: 'input_audio', input_audio: { data: 'AA', format: 'mp3' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AA' } },
        ],
      },
    ]);
  });

  test('adjacent assistant items are one message, with their results directly after it', async () => {
    expect(
      await messages([
        userMessage('go'),
        assistant('Looking.'),
        call('a'),
        call('b', { arguments: '{"city":"Rome"}' }),
        result('b', 'second'),
        userMessage('hurry'),
        result('a', 'first'),
        assistant('Done.'),
      ]),
    ).toEqual([
      { role: 'user', content: 'go' },
      {
        role: 'assistant',
        content: 'Looking.',
        tool_calls: [callInput('a'), callInput('b', '{"city":"Rome"}')],
      },
      toolMessage('b', 'second'),
      toolMessage('a', 'first'),
      { role: 'user', content: 'hurry' },
      { role: 'assistant', content: 'Done.' },
    ]);
  });

  test('calls without text have no content, and missing arguments are an empty object', async () => {
    expect(await messages([call('a', { arguments: '' }), result('a', 'x')])).toEqual([
      { role: 'assistant', content: null, tool_calls: [callInput('a')] },
      toolMessage('a', 'x'),
    ]);
  });

  test('results are text: strings unchanged, other values as JSON, display text before output, failures marked', async () => {
    const items = [
      { output: 'plain' },
      { output: { a: 0 } },
      { output: 'long', shown: 'short' },
      { output: 'plain', isError: true },
    ].map((more, at): Item[] => [
      call(`c${at}`),
      { type: 'tool_result', callId: `c${at}`, isError: false, ...more },
    ]);
    const sent = await messages(items.flat());
    expect(sent.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual([
      'plain',
      '{"a":0}',
      'short',
      'Error: plain',
    ]);
  });

  test('a call has exactly one result, and a result without a call is not sent', async () => {
    const sent = await messages([
      result('x', 'lost'),
      call('a'),
      result('a', '1'),
      result('a', '2'),
      call('b'),
    ]);
    expect(sent).toEqual([
      { role: 'assistant', content: null, tool_calls: [callInput('a')] },
      toolMessage('a', '1'),
      { role: 'assistant', content: null, tool_calls: [callInput('b')] },
      toolMessage('b', 'Error: The result of this call is not known.'),
    ]);
  });

  test('arguments that are not an object are wrapped in one', async () => {
    const sent = await messages([call('a', { arguments: '{"city":' }), result('a', 'x', true)]);
    expect(sent[0]).toMatchObject({ tool_calls: [callInput('a', '{"invalid_arguments":"{\\"city\\":"}')] });
  });

  test('control items, empty messages and reasoning alone are not sent', async () => {
    expect(
      await messages([
        { type: 'approval_request', callId: 'c', name: 'a', arguments: '{}' },
        { type: 'approval_response', callId: 'c', approve: true },
        { type: 'tool_list', label: 'mcp', tools: [] },
        assistant(''),
        { type: 'message', role: 'user', content: [] },
        { type: 'reasoning', text: 'hm' },
      ]),
    ).toEqual([]);
  });

  test("another provider's opaque data is dropped and the portable part kept", async () => {
    const opaque = {
      provider: 'anthropic',
      data: { member: 'reasoning_content', refusal: 'no', extra: { a: 1 } },
    };
    expect(
      await messages([
        { type: 'reasoning', text: 'hm', opaque },
        { ...assistant('hi'), opaque } as Item,
        call('toolu_1', { opaque }),
        result('toolu_1', 'ok'),
        { type: 'provider_item', kind: 'server_tool_use', opaque },
      ]),
    ).toEqual([
      { role: 'assistant', content: 'hi', tool_calls: [callInput('toolu_1')] },
      toolMessage('toolu_1', 'ok'),
    ]);
  });

  test('ids that are too long are replaced in call and result alike, all others are kept', async () => {
    const long = 'call-00000000-0000-0000-0000-000000000000-0';
    const sent = await messages([call(long), call('a'), result(long, '1'), result('a', '2')]);
    const [message] = sent;
    const [first, second] = (message?.tool_calls ?? []) as JsonObject[];
    expect(String(first?.id)).toMatch(/^call_[0-9a-f]{24}$/);
    expect(sent[1]).toEqual(toolMessage(String(first?.id), '1'));
    expect(second?.id).toBe('a');
  });
});
