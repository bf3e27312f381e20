import { describe, expect, test } from 'vitest';
import { groq } from '../../../adapters/groq.ts';
import type { ProviderError } from '../../../protocol/error.ts';
import {
  answering,
  chunk,
  completion,
  ended,
  generate,
  messagesBy,
  piece,
  sentBy,
  sse,
  stored,
  stream,
  tool,
} from '../../support/adapters/chat-wire.ts';
import { calling, collect, rejection, request, result } from '../../support/adapters/requests.ts';

const failedGeneration = '{"name": "get_weather", "arguments": {"town": "Rome"}}';
const failure = {
  error: {
    message: 'Tool call validation failed',
    type: 'invalid_request_error',
    code: 'tool_use_failed',
    failed_generation: failedGeneration,
    status_code: 400,
  },
};

describe('Groq', () => {
  test('a complete call in one delta and usage in x_groq are decoded', async () => {
    const { turn } = await stream(
      groq,
      chunk({ role: 'assistant', content: null }, {}, { x_groq: { id: 'req', seed: 1 } }),
      piece({
        id: 'tk85n1k4m',
        type: 'function',
        function: { name: 'get_weather', arguments: '{}' },
        index: 0,
      }),
      ended('tool_calls', { x_groq: { id: 'req', usage: { prompt_tokens: 210, completion_tokens: 15 } } }),
    );
    expect(turn).toMatchObject({
      finishReason: 'tool_calls',
      toolCalls: [{ callId: 'tk85n1k4m', input: {} }],
      usage: { inputTokens: 210, outputTokens: 15 },
    });
  });

  test('a call that failed validation is a retryable error, never a call, and the generated text is kept', async () => {
    const http = answering(groq, JSON.stringify(failure), { status: 400, type: 'application/json' });
    const inStream = answering(
      groq,
      `${sse(chunk({ reasoning: 'hm', channel: 'analysis' }))}event: error\n${sse(failure)}`,
    );
    for (const call of [
      http.generate(request('hi'), calling()),
      collect(http.stream(request('hi'), calling())),
      collect(inStream.stream(request('hi'), calling())),
    ]) {
      const error = (await rejection(call)) as ProviderError;
      expect(error).toMatchObject({
        code: 'invalid-request',
        status: 400,
        retryable: true,
        provider: 'groq',
      });
      expect(error.raw).toEqual(failure);
    }
  });

  test('no other rejection is retried', async () => {
    const refused = answering(groq, JSON.stringify({ error: { message: 'bad', code: 'wrong_api_format' } }), {
      status: 400,
      type: 'application/json',
    });
    expect(await rejection(refused.generate(request('hi'), calling()))).toMatchObject({ retryable: false });
  });

  test('tools that Groq ran are not calls, streamed in two states or whole', async () => {
    const started = { index: 0, type: 'search', arguments: '{"query":"x"}' };
    const done = { ...started, output: 'found' };
    const { turn } = await stream(
      groq,
      chunk({ executed_tools: [started] }),
      chunk({ executed_tools: [done] }),
      chunk({ content: 'It is.' }),
      ended('tool_calls'),
    );
    expect(turn).toMatchObject({ text: 'It is.', toolCalls: [], finishReason: 'stop' });
    expect(turn.items[0]).toEqual({
      type: 'provider_item',
      kind: 'search',
      opaque: { provider: 'groq', data: { executed: done } },
    });
    expect(await generate(groq, completion({ content: 'It is.', executed_tools: [done] }))).toEqual(turn);
    expect(await messagesBy(groq, stored(turn))).toEqual([{ role: 'assistant', content: 'It is.' }]);
  });

  test('reasoning is sent back with its calls', async () => {
    const calls = [{ id: 'a', type: 'function', function: { name: 'get_weather', arguments: '{}' } }];
    const turn = await generate(groq, completion({ reasoning: 'hm', tool_calls: calls }, 'tool_calls'));
    expect(turn.reasoning).toBe('hm');
    const [message] = await messagesBy(groq, [...stored(turn), result('a', 'x')]);
    expect(message).toEqual({ role: 'assistant', content: null, reasoning: 'hm', tool_calls: calls });
  });

  test('a schema is enforced without tools, and described in the instructions with tools', async () => {
    const output = { name: 'city', schema: { type: 'object' } };
    const alone = await sentBy(groq, request('hi', { instructions: 'Be brief.', output }));
    expect(alone).toMatchObject({
      response_format: { type: 'json_schema', json_schema: { name: 'city' } },
      messages: [{ content: 'Be brief.' }, {}],
    });
    const beside = await sentBy(groq, request('hi', { instructions: 'Be brief.', output, tools: [tool] }));
    expect(beside).not.toHaveProperty('response_format');
    expect((beside.messages as { content: string }[])[0]?.content).toMatch(
      /^Be brief\.[\s\S]*\{"type":"object"\}$/,
    );
  });

  test("length, effort and streaming have Groq's parameter names", async () => {
    const of = request('hi', { settings: { maxOutputTokens: 9, reasoningEffort: 'low' } });
    const sent = await sentBy(groq, of, { model: 'openai/gpt-oss-20b' }, true);
    expect(sent).toMatchObject({ max_completion_tokens: 9, reasoning_effort: 'low', stream: true });
    expect(sent).not.toHaveProperty('stream_options');
    expect(await sentBy(groq, of, { model: 'qwen/qwen3-32b' })).toMatchObject({
      reasoning_effort: 'default',
    });
  });
});
