import { describe, expect, test } from 'vitest';
import { cerebras } from '../../../adapters/cerebras.ts';
import { adapterChecks, replayFetch } from '../../../adapters/conformance.ts';
import { objectsOf } from '../../../adapters/turn/json-access.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { sse } from '../../support/adapters/replay-server.ts';
import { calling, rejection, request, result } from '../../support/adapters/requests.ts';

const call = {
  id: 'bbd2b9d98',
  type: 'function',
  function: { name: 'look_up', arguments: '{"city":"Rom"}' },
};
const usage = {
  prompt_tokens: 322,
  completion_tokens: 104,
  prompt_tokens_details: { cached_tokens: 256 },
  completion_tokens_details: { reasoning_tokens: 97 },
};
const message = { role: 'assistant', reasoning: 'One call.', tool_calls: [call] };
const BODY = JSON.stringify({
  model: 'zai-glm-4.7',
  choices: [{ index: 0, finish_reason: 'tool_calls', message }],
  usage,
});

const piece = (delta: JsonObject, more: JsonObject = {}): JsonObject => ({
  model: 'zai-glm-4.7',
  choices: [{ index: 0, delta, ...more }],
});
const STREAM = sse(
  piece({ role: 'assistant' }),
  piece({ reasoning: 'One ' }),
  piece({ reasoning: 'call.' }),
  piece({ tool_calls: [{ ...call, index: 0 }] }),
  { ...piece({}, { finish_reason: 'tool_calls' }), usage, time_info: { total_time: 0.18 } },
);

describe('Cerebras', () => {
  const exchanges = [
    {
      name: 'a call',
      streamed: false,
      response: BODY,
      expect: { reasoning: 'One call.', finishReason: 'tool_calls' as const },
      comesBack: ['One call.'],
    },
    { name: 'a call, streamed', streamed: true, response: STREAM, sameTurnAs: 'a call' },
  ];
  for (const check of adapterChecks({ open: options => cerebras({ model: 'm', ...options }), exchanges })) {
    test(check.name, check.run);
  }

  test('reasoning is sent back as reasoning, never as reasoning_content; usage includes it', async () => {
    const { fetch, requests } = replayFetch({
      headers: { 'content-type': 'application/json' },
      chunks: [BODY],
    });
    const adapter = cerebras({ model: 'zai-glm-4.7', apiKey: 'test-key', fetch });
    const turn = await adapter.generate(request('Rome?'), calling());
    expect(turn.usage).toEqual({
      inputTokens: 322,
      outputTokens: 104,
      cachedInputTokens: 256,
      cacheWriteTokens: null,
      reasoningTokens: 97,
    });
    const transcript = [...request('Rome?').transcript, ...turn.items, result('bbd2b9d98', 'sunny')];
    await adapter.generate(request(transcript, { settings: { maxOutputTokens: 99 } }), calling());
    expect(requests[1]).toMatchObject({
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer test-key' },
      body: { model: 'zai-glm-4.7', max_completion_tokens: 99 },
    });
    const [, callMessage, answered] = objectsOf(requests[1]?.body.messages);
    expect(callMessage).toMatchObject({ role: 'assistant', reasoning: 'One call.', tool_calls: [call] });
    expect(callMessage).not.toHaveProperty('reasoning_content');
    expect(answered).toEqual({ role: 'tool', tool_call_id: 'bbd2b9d98', content: 'sunny' });
  });

  test('a schema is enforced without tools, and described in words with tools', async () => {
    const { fetch, requests } = replayFetch({
      headers: { 'content-type': 'application/json' },
      chunks: [BODY],
    });
    const adapter = cerebras({ model: 'm', apiKey: 'test-key', fetch });
    const output = { name: 'city', schema: { type: 'object', properties: { name: { type: 'string' } } } };
    const tools = [{ name: 'look_up', description: '', inputSchema: { type: 'object' } }];
    await adapter.generate(request('Rome?', { output }), calling());
    await adapter.generate(request('Rome?', { output, tools }), calling());
    expect(requests[0]?.body.response_format).toMatchObject({ type: 'json_schema' });
    expect(requests[1]?.body.response_format).toBeUndefined();
    expect(JSON.stringify(requests[1]?.body.messages)).toContain('JSON Schema');
  });

  test('its errors are read in both of their formats', async () => {
    const wrongKey = { message: 'Wrong API Key', type: 'invalid_request_error', code: 'wrong_api_key' };
    const broken = { status_code: 500, error: { message: 'try again', type: 'server_error', code: '' } };
    const failing = (status: number, body: object) =>
      cerebras({
        model: 'm',
        apiKey: 'test-key',
        fetch: replayFetch({
          status,
          headers: { 'content-type': 'application/json' },
          chunks: [JSON.stringify(body)],
        }).fetch,
      }).generate(request('hi'), calling());
    expect(await rejection(failing(401, wrongKey))).toMatchObject({
      code: 'authentication',
      message: expect.stringContaining('CEREBRAS_API_KEY'),
    });
    expect(await rejection(failing(500, broken))).toMatchObject({ code: 'server', retryable: true });
  });
});
