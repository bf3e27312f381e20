import { describe, expect, test } from 'vitest';
import { AZURE_CHAT } from '../../../adapters/azure.ts';
import { type ChatOptions, chatAdapter } from '../../../adapters/chat/adapter.ts';
import { DEEPSEEK_CHAT } from '../../../adapters/deepseek.ts';
import { OLLAMA_CHAT } from '../../../adapters/ollama.ts';
import { XAI_CHAT } from '../../../adapters/xai.ts';
import type { ProviderError } from '../../../protocol/error.ts';
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
  piece,
  sentBy,
  stored,
  stream,
  tool,
} from '../../support/adapters/chat-wire.ts';
import { calling, rejection, request, result } from '../../support/adapters/requests.ts';

const xai = (options: ChatOptions) => chatAdapter(XAI_CHAT, options);
const deepseek = (options: ChatOptions) => chatAdapter(DEEPSEEK_CHAT, options);
const azure = (options: ChatOptions) => chatAdapter(AZURE_CHAT, options);
const ollama = (options: ChatOptions) => chatAdapter(OLLAMA_CHAT, options);
const output = { name: 'city', schema: { type: 'object' } };

describe("xAI's chat", () => {
  test('a complete call is one delta, and reasoning is counted in addition to the completion', async () => {
    const { turn } = await stream(
      xai,
      chunk({ reasoning_content: 'First', role: 'assistant' }),
      piece({ id: 'call_1', function: { name: 'get_weather', arguments: '{}' }, index: 0, type: 'function' }),
      ended('tool_calls'),
      {
        choices: [],
        usage: {
          prompt_tokens: 291,
          completion_tokens: 26,
          total_tokens: 513,
          prompt_tokens_details: { cached_tokens: 290 },
          completion_tokens_details: { reasoning_tokens: 196 },
        },
      },
      '[DONE]',
    );
    expect(turn).toMatchObject({
      reasoning: 'First',
      toolCalls: [{ callId: 'call_1' }],
      usage: { inputTokens: 291, outputTokens: 222, cachedInputTokens: 290, reasoningTokens: 196 },
    });
    const [message] = await messagesBy(xai, [...stored(turn), result('call_1', 'x')]);
    expect(Object.keys(message ?? {})).toEqual(['role', 'content', 'tool_calls']);
  });

  test('a wrong key is an authentication error even in a 400', async () => {
    const body = { code: 'invalid-argument', error: 'Incorrect API key provided.' };
    const adapter = answering(xai, JSON.stringify(body), { status: 400, type: 'application/json' });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'authentication',
    });
  });
});

describe("DeepSeek's chat", () => {
  test('reasoning comes before the answer and is sent back only with calls, as an empty text if there was none', async () => {
    const { turn } = await stream(
      deepseek,
      chunk({ content: null, reasoning_content: 'h' }),
      chunk({ content: null, reasoning_content: 'm' }),
      chunk({ content: 'Let me look.', reasoning_content: null }),
      piece({
        index: 0,
        id: 'call_00_a',
        type: 'function',
        function: { name: 'get_weather', arguments: '' },
      }),
      piece({
        index: 1,
        id: 'call_01_b',
        type: 'function',
        function: { name: 'get_weather', arguments: '' },
      }),
      piece({ index: 0, function: { arguments: '{}' } }),
      piece({ index: 1, function: { arguments: '{"city":"Rome"}' } }),
      ended('tool_calls'),
    );
    expect(turn.toolCalls.map(({ input }) => input)).toEqual([{}, { city: 'Rome' }]);
    const foreign = { provider: 'anthropic', data: { signature: 'c2ln' } };
    const sent = await messagesBy(deepseek, [
      ...stored(turn),
      result('call_00_a', '1'),
      result('call_01_b', '2'),
      { type: 'reasoning', text: 'foreign', opaque: foreign },
      call('toolu_1'),
      result('toolu_1', '3'),
      assistant('Done.'),
      userMessage('thanks'),
    ]);
    const assistantMessages = sent.filter(({ role }) => role === 'assistant');
    expect(assistantMessages.map(message => message.reasoning_content)).toEqual(['hm', '', undefined]);
  });

  test('a schema is described in the instructions, and JSON is requested', async () => {
    const sent = await sentBy(deepseek, request('hi', { output }));
    expect(sent).toMatchObject({
      response_format: { type: 'json_object' },
      messages: [{ role: 'system' }, {}],
    });
    expect(JSON.stringify(sent.messages)).toMatch(/JSON Schema.*type/);
  });

  test.each([
    ['high', { reasoning_effort: 'high' }],
    ['none', { thinking: { type: 'disabled' } }],
  ])('effort %s is mapped to a valid value', async (reasoningEffort, expected) => {
    const {
      messages: _,
      model: __,
      ...rest
    } = await sentBy(deepseek, request('hi', { settings: { reasoningEffort } }));
    expect(rest).toEqual(expected);
  });

  test('insufficient resources are an overload, an empty balance is a quota error', async () => {
    expect(
      await rejection(stream(deepseek, chunk({ content: 'a' }), ended('insufficient_system_resource'))),
    ).toMatchObject({
      code: 'overloaded',
      retryable: true,
    });
    const body = JSON.stringify({ error: { message: 'Insufficient Balance', type: 'unknown_error' } });
    const adapter = answering(deepseek, body, { status: 402, type: 'application/json' });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'quota',
      retryable: false,
    });
  });
});

describe("Azure's chat", () => {
  test('cached tokens may exceed input tokens, as Grok counts them there', async () => {
    const usage = {
      prompt_tokens: 293,
      completion_tokens: 58,
      total_tokens: 351,
      prompt_tokens_details: { cached_tokens: 387 },
    };
    expect((await generate(azure, completion({ content: 'a' }, 'stop', { usage }))).usage).toEqual({
      inputTokens: 293,
      outputTokens: 58,
      cachedInputTokens: 387,
      cacheWriteTokens: null,
      reasoningTokens: null,
    });
  });

  test.each<[object, number, object]>([
    [
      { error: { code: 'RateLimitReached', message: 'slow', details: '' } },
      429,
      { code: 'rate-limit', retryable: true },
    ],
    [{ error: { code: '401', message: 'Access denied' } }, 401, { code: 'authentication' }],
    [
      { error: { code: 'content_filter', message: 'filtered', status: 400 } },
      400,
      { code: 'content-filter' },
    ],
  ])('%j with status %i is a ProviderError', async (body, status, expected) => {
    const adapter = answering(azure, JSON.stringify(body), { status, type: 'application/json' });
    const error = (await rejection(adapter.generate(request('hi'), calling()))) as ProviderError;
    expect(error).toMatchObject({ status, ...expected });
    expect(error.raw).toEqual(body);
  });

  test("the length limit has the parameter name of the model's maker", async () => {
    const of = request('hi', { settings: { maxOutputTokens: 9 } });
    expect(await sentBy(azure, of, { model: 'gpt-5' })).toMatchObject({ max_completion_tokens: 9 });
    expect(await sentBy(azure, of, { model: 'grok-4' })).toMatchObject({ max_tokens: 9 });
  });
});

describe("Ollama's compatible endpoint", () => {
  test('calls that all have index 0 stay separate, and calls without an id get one', async () => {
    const { turn } = await stream(
      ollama,
      piece({ id: 'call_1', index: 0, type: 'function', function: { name: 'one', arguments: '{}' } }),
      piece({ id: 'call_2', index: 0, type: 'function', function: { name: 'two', arguments: '{}' } }),
      ended('tool_calls'),
    );
    expect(turn.toolCalls.map(({ callId }) => callId)).toEqual(['call_1', 'call_2']);
    const nameless = [
      { function: { name: 'one', arguments: '{}' } },
      { function: { name: 'two', arguments: '{}' } },
    ];
    const { toolCalls } = await generate(ollama, completion({ content: '', tool_calls: nameless }, 'stop'));
    expect(new Set(toolCalls.map(({ callId }) => callId)).size).toBe(2);
  });

  test('reasoning is sent back with its calls', async () => {
    const calls = [{ id: 'call_1', type: 'function', function: { name: 'one', arguments: '{}' } }];
    const turn = await generate(
      ollama,
      completion({ content: '', reasoning: 'hm', tool_calls: calls }, 'tool_calls'),
    );
    const [message] = await messagesBy(ollama, [...stored(turn), result('call_1', 'x')]);
    expect(message).toEqual({ role: 'assistant', content: null, reasoning: 'hm', tool_calls: calls });
  });

  test('a schema is enforced without tools, and described in the instructions with tools', async () => {
    expect(await sentBy(ollama, request('hi', { output }))).toMatchObject({
      response_format: { type: 'json_schema' },
    });
    const beside = await sentBy(ollama, request('hi', { output, tools: [tool] }));
    expect(beside).not.toHaveProperty('response_format');
  });

  test('no key is needed', async () => {
    expect(await sentBy(ollama, request('hi'), { apiKey: '' })).toMatchObject({ model: 'm' });
  });
});

test.each([
  [XAI_CHAT, { reasoningReplay: false, serverTools: false, structuredOutput: 'native' }],
  [DEEPSEEK_CHAT, { reasoningReplay: true, serverTools: false, structuredOutput: 'instructions' }],
  [AZURE_CHAT, { reasoningReplay: true, serverTools: false, structuredOutput: 'native' }],
  [OLLAMA_CHAT, { reasoningReplay: true, serverTools: false, structuredOutput: 'instructions' }],
])('$provider declares its capabilities', (dialect, expected) => {
  expect(chatAdapter(dialect, { model: 'm' }).capabilities).toMatchObject({
    ...expected,
    continuation: false,
  });
});
