import { createAnthropic } from '@ai-sdk/anthropic';
import { describe, expect, test } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';
import {
  replaying,
  stream,
  tool,
  turnOf,
  twoRounds,
  whole,
} from '../../support/adapters/wire/ai-sdk-http.ts';

describe('@ai-sdk/anthropic', () => {
  const BLOCKS: JsonObject[] = [
    { type: 'thinking', thinking: 'Let me look.', signature: 'c2lnbmF0dXJl' },
    { type: 'redacted_thinking', data: 'cmVkYWN0ZWQ=' },
    { type: 'text', text: 'Searching first.' },
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'oslo' } },
    {
      type: 'web_search_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: [
        {
          type: 'web_search_result',
          url: 'https://x.test',
          title: 'Oslo',
          encrypted_content: 'ZW5jcnlwdGVk',
          page_age: null,
        },
      ],
    },
    { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Oslo' } },
  ];
  const ANSWER: JsonObject[] = [{ type: 'text', text: 'Rain.' }];
  const usage = { input_tokens: 10, cache_read_input_tokens: 4, output_tokens: 6 };

  const message = (content: JsonObject[], stop: string) => ({
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    model: 'claude-x',
    content,
    stop_reason: stop,
    stop_sequence: null,
    usage,
  });

  function events(content: JsonObject[], stop: string): JsonObject[] {
    return [
      {
        type: 'message_start',
        message: { ...message([], stop), stop_reason: null, usage: { ...usage, output_tokens: 1 } },
      },
      ...content.flatMap((block, index) => blockEvents(block, index)),
      {
        type: 'message_delta',
        delta: { stop_reason: stop, stop_sequence: null },
        usage: { output_tokens: 6 },
      },
      { type: 'message_stop' },
    ];
  }

  function blockEvents(block: JsonObject, index: number): JsonObject[] {
    const delta = (value: JsonObject) => ({ type: 'content_block_delta', index, delta: value });
    const start = (value: JsonObject) => ({ type: 'content_block_start', index, content_block: value });
    const stop = { type: 'content_block_stop', index };
    switch (block.type) {
      case 'thinking':
        return [
          start({ type: 'thinking', thinking: '', signature: '' }),
          delta({ type: 'thinking_delta', thinking: block.thinking ?? '' }),
          delta({ type: 'signature_delta', signature: block.signature ?? '' }),
          stop,
        ];
      case 'text':
        return [
          start({ type: 'text', text: '' }),
          delta({ type: 'text_delta', text: block.text ?? '' }),
          stop,
        ];
      case 'tool_use':
      case 'server_tool_use':
        return [
          start({ ...block, input: {} }),
          delta({ type: 'input_json_delta', partial_json: JSON.stringify(block.input) }),
          stop,
        ];
      default:
        return [start(block), stop];
    }
  }

  test.each([false, true])(
    'two rounds, streaming %s: blocks go back in order, bytes unchanged',
    async streaming => {
      const { fetch, bodies } = streaming
        ? replaying(stream(events(BLOCKS, 'tool_use')), stream(events(ANSWER, 'end_turn')))
        : replaying(whole(message(BLOCKS, 'tool_use')), whole(message(ANSWER, 'end_turn')));
      const anthropic = createAnthropic({ apiKey: 'test', fetch });
      const adapter = aiSdk(anthropic('claude-sonnet-4-5'), {
        providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 2000 } } },
        providerTools: { web_search: anthropic.tools.webSearch_20250305({ maxUses: 1 }) },
      });
      const { first, second } = await twoRounds(
        adapter,
        { tools: [tool], settings: { maxOutputTokens: 100 } },
        streaming,
      );
      expect(first).toMatchObject({
        text: 'Searching first.',
        reasoning: 'Let me look.',
        finishReason: 'tool_calls',
        toolCalls: [{ callId: 'toolu_1', name: 'weather', input: { city: 'Oslo' } }],
        usage: { inputTokens: 14, outputTokens: 6, cachedInputTokens: 4 },
      });
      expect(second).toMatchObject({ text: 'Rain.', finishReason: 'stop', toolCalls: [] });
      const [, assistant, results] = (bodies[1]?.messages ?? []) as JsonObject[];
      expect(assistant).toEqual({ role: 'assistant', content: BLOCKS });
      expect(results).toEqual({
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'rain' }],
      });
      expect(bodies[0]).toMatchObject({
        thinking: { type: 'enabled', budget_tokens: 2000 },
        tools: [{ name: 'weather' }, { type: 'web_search_20250305', name: 'web_search', max_uses: 1 }],
      });
    },
  );

  test('whole and streamed responses decode to the same turn', async () => {
    const of = request('Weather in Oslo?', { tools: [tool] });
    const first = createAnthropic({
      apiKey: 'k',
      fetch: replaying(whole(message(BLOCKS, 'tool_use'))).fetch,
    });
    const second = createAnthropic({
      apiKey: 'k',
      fetch: replaying(stream(events(BLOCKS, 'tool_use'))).fetch,
    });
    expect(await turnOf(aiSdk(second('claude-sonnet-4-5')), of, true)).toEqual(
      await turnOf(aiSdk(first('claude-sonnet-4-5')), of, false),
    );
  });

  test('a paused turn is continued without a user message', async () => {
    const paused = BLOCKS.slice(2, 4);
    const { fetch, bodies } = replaying(
      whole(message(paused, 'pause_turn')),
      whole(message(ANSWER, 'end_turn')),
    );
    const anthropic = createAnthropic({ apiKey: 'test', fetch });
    const adapter = aiSdk(anthropic('claude-sonnet-4-5'), {
      providerTools: { web_search: anthropic.tools.webSearch_20250305({}) },
    });
    const transcript = [userMessage('hi')];
    const turn = await adapter.generate(request(transcript), calling());
    expect(turn).toMatchObject({ finishReason: 'pause', toolCalls: [] });
    await adapter.generate(request([...transcript, ...turn.items]), calling());
    expect(bodies[1]?.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ type: 'text' }, { type: 'server_tool_use', id: 'srvtoolu_1' }] },
    ]);
  });

  test('a rejected key and an overloaded server are mapped', async () => {
    const failing = (status: number, type: string) => () =>
      Response.json({ type: 'error', error: { type, message: 'no' } }, { status });
    const { fetch } = replaying(failing(401, 'authentication_error'), failing(529, 'overloaded_error'));
    const adapter = aiSdk(createAnthropic({ apiKey: 'test', fetch })('claude-sonnet-4-5'));
    const errors = [
      await rejection(adapter.generate(request('hi'), calling())),
      await rejection(collect(adapter.stream(request('hi'), calling()))),
    ];
    expect(errors).toMatchObject([
      { code: 'authentication', status: 401, retryable: false },
      { code: 'overloaded', status: 529, retryable: true },
    ]);
  });

  test('an error in a 200 stream and a truncated stream are errors', async () => {
    const [begin, ...rest] = events(ANSWER, 'end_turn');
    const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
    const { fetch } = replaying(
      stream([overloaded]),
      stream([begin ?? {}, ...rest.slice(0, 2), overloaded]),
      stream([begin ?? {}, ...rest.slice(0, 2)]),
    );
    const adapter = aiSdk(createAnthropic({ apiKey: 'test', fetch })('claude-sonnet-4-5'));
    const errors: unknown[] = [];
    for (let at = 0; at < 3; at += 1) {
      errors.push(await rejection(collect(adapter.stream(request('hi'), calling()))));
    }
    expect(errors).toMatchObject([
      { code: 'overloaded', retryable: true },
      { code: 'overloaded', retryable: true },
      { code: 'malformed-stream', retryable: true },
    ]);
  });
});
