import { describe, expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { groq } from '../../../adapters/groq.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { countTokens } from '../../../server/gateway/agents/gateway-agents.ts';
import { request } from '../../support/adapters/requests.ts';

type Make = (options: { fetch: typeof fetch; apiKey: string }) => ModelAdapter;

const TOOL = { name: 'look', description: 'Looks.', inputSchema: { type: 'object', properties: {} } };
const REQUEST = request('hi there', {
  instructions: 'Be brief.',
  tools: [TOOL],
  settings: { maxOutputTokens: 5, temperature: 0 },
});

/** The request that the adapter sends to count tokens, and its result. */
async function count(make: Make, answer: JsonObject, status = 200) {
  const sent = { path: '', body: {} as JsonObject };
  const reply = (async (url: string | URL, init: { body: string }) => {
    sent.path = new URL(url).pathname;
    sent.body = JSON.parse(init.body);
    return Response.json(answer, { status });
  }) as unknown as typeof fetch;
  const adapter = make({ fetch: reply, apiKey: 'key' });
  const tokens = await countTokens(adapter, REQUEST).catch((error: unknown) => error);
  return { ...sent, tokens };
}

const claude: Make = options => anthropic({ ...options, model: 'claude-sonnet-4-5' });
const gpt: Make = options => openaiResponses({ ...options, model: 'gpt-5', baseURL: 'http://x.test/v1' });
const flash: Make = options => gemini({ ...options, model: 'gemini-2.5-flash' });

describe('the input tokens of a request', () => {
  test('are counted by Anthropic, from the relevant parts of the request', async () => {
    const { path, body, tokens } = await count(claude, { input_tokens: 12 });
    expect({ path, tokens }).toEqual({ path: '/v1/messages/count_tokens', tokens: 12 });
    expect(Object.keys(body).sort()).toEqual(['messages', 'model', 'system', 'tool_choice', 'tools']);
  });

  test('are counted by OpenAI, from the relevant parts of the request', async () => {
    const { path, body, tokens } = await count(gpt, { object: 'response.input_tokens', input_tokens: 13 });
    expect({ path, tokens }).toEqual({ path: '/v1/responses/input_tokens', tokens: 13 });
    expect(Object.keys(body).sort()).toEqual(['input', 'instructions', 'model', 'tool_choice', 'tools']);
  });

  test('are counted by Gemini, from the request that it would generate from', async () => {
    const { path, body, tokens } = await count(flash, { totalTokens: 14 });
    expect({ path, tokens }).toEqual({ path: '/v1beta/models/gemini-2.5-flash:countTokens', tokens: 14 });
    expect(body).toMatchObject({
      generateContentRequest: {
        model: 'models/gemini-2.5-flash',
        contents: [{ parts: [{ text: 'hi there' }] }],
      },
    });
  });

  test('are estimated if the provider or the server at its URL has no such endpoint', async () => {
    const none = await count(options => groq({ ...options, model: 'x' }), {});
    const missing = await count(gpt, { error: { message: 'no such path' } }, 404);
    expect(none).toMatchObject({ path: '', tokens: missing.tokens });
    const bytes = 'Be brief.hi there'.length + JSON.stringify(TOOL).length;
    expect(none.tokens).toBe(Math.ceil(bytes / 4) + 8);
  });

  test('are an error if the provider rejects the request or its response has no number', async () => {
    const refused = await count(claude, { error: { message: 'too long' } }, 400);
    expect(refused.tokens).toMatchObject({ name: 'ProviderError', status: 400 });
    const odd = await count(claude, { input_tokens: 'many' });
    expect(odd.tokens).toMatchObject({ name: 'ProviderError' });
  });
});

test('are estimated for images as images, not by their bytes', async () => {
  const adapter = groq({ model: 'x', apiKey: 'key' });
  const url = `data:image/png;base64,${'A'.repeat(100_000)}`;
  const message: Item = { type: 'message', role: 'user', content: [{ type: 'image', url }] };
  expect(await countTokens(adapter, request([message]))).toBe(1_004);
});
