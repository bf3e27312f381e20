import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type AzureOptions, azure } from '../../../adapters/azure.ts';
import { replayFetch } from '../../../adapters/conformance.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { sse } from '../../support/adapters/replay-server.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';

beforeEach(() => {
  vi.unstubAllEnvs();
});

const V1 = 'https://acme.openai.azure.com/openai/v1';
const call: JsonObject = {
  id: 'fc_1',
  type: 'function_call',
  status: 'completed',
  call_id: 'call_1',
  name: 'look_up',
  arguments: '{"city":"Berlin"}',
};
const response = (more: JsonObject = {}): JsonObject => ({
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  content_filters: [
    { blocked: false, source_type: 'prompt', content_filter_results: { violence: { filtered: false } } },
  ],
  model: 'gpt-5.1',
  output: [call],
  usage: { input_tokens: 45, output_tokens: 24 },
  ...more,
});
const EVENTS = sse(
  {
    type: 'response.created',
    response: response({ output: [], status: 'in_progress', content_filters: null }),
  },
  { type: 'response.output_item.added', output_index: 0, item: { ...call, arguments: '' } },
  {
    type: 'response.function_call_arguments.delta',
    output_index: 0,
    item_id: 'fc_1',
    delta: '{"city":',
    obfuscation: 'nWru1s',
  },
  {
    type: 'response.function_call_arguments.delta',
    output_index: 0,
    item_id: 'fc_1',
    delta: '"Berlin"}',
    obfuscation: 'x',
  },
  { type: 'response.output_item.done', output_index: 0, item: call },
  { type: 'response.completed', response: response() },
);

const answer = (body: JsonObject, status = 200, headers: Record<string, string> = {}) => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  chunks: [JSON.stringify(body)],
});

async function ask(
  options: Partial<AzureOptions> = {},
  body: JsonObject = response(),
): Promise<{ turn: ModelTurn; url: string; headers: Headers; body: JsonObject }> {
  const { fetch: replay, requests } = replayFetch(answer(body));
  let url = '';
  let headers = new Headers();
  const fetch: typeof globalThis.fetch = (input, init) => {
    url = String(input);
    headers = new Headers(init?.headers);
    return replay(input, init);
  };
  const turn = await azure({
    model: 'gpt-5.1',
    apiKey: 'azure-test-key',
    baseURL: V1,
    ...options,
    fetch,
  }).generate(request('hi'), calling());
  return { turn, url, headers, body: requests[0]?.body ?? {} };
}

describe('Azure over the Responses API', () => {
  test('content_filters and obfuscation are not part of a turn, streamed or whole', async () => {
    const { fetch } = replayFetch({ chunks: [EVENTS] });
    const adapter = azure({ model: 'gpt-5.1', apiKey: 'k', baseURL: V1, fetch });
    const { turn } = await ask();
    expect((await collect(adapter.stream(request('hi'), calling()))).at(-1)).toEqual({ type: 'turn', turn });
    expect(turn).toMatchObject({ finishReason: 'tool_calls', toolCalls: [{ input: { city: 'Berlin' } }] });
  });

  test('the key is sent only as api-key; v1 has no api-version', async () => {
    const { url, headers } = await ask();
    expect(url).toBe(`${V1}/responses`);
    expect(headers.get('api-key')).toBe('azure-test-key');
    expect(headers.has('authorization')).toBe(false);
  });

  test('an authorization header of the caller is kept, for Entra ID tokens', async () => {
    const { headers } = await ask({ headers: { Authorization: 'Bearer entra-token' } });
    expect(headers.get('authorization')).toBe('Bearer entra-token');
    expect(headers.has('api-key')).toBe(false);
  });

  test('a given api-version is sent', async () => {
    expect((await ask({ apiVersion: 'preview' })).url).toBe(`${V1}/responses?api-version=preview`);
    vi.stubEnv('AZURE_API_VERSION', '2030-01-01');
    expect((await ask()).url).toBe(`${V1}/responses?api-version=2030-01-01`);
  });

  test.each(['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'])('%s is a key', async variable => {
    vi.stubEnv('AZURE_API_KEY', '');
    vi.stubEnv(variable, 'env-key');
    vi.stubEnv('AZURE_BASE_URL', V1);
    const { fetch, requests } = replayFetch(answer(response()));
    await azure({ model: 'gpt-5.1', fetch }).generate(request('hi'), calling());
    expect(requests[0]?.headers['api-key']).toBe('env-key');
  });

  test('without a base URL the error shows an example of one', async () => {
    vi.stubEnv('AZURE_BASE_URL', '');
    const error = await rejection(azure({ model: 'm', apiKey: 'k' }).generate(request('hi'), calling()));
    expect(error).toMatchObject({
      code: 'base-url-invalid',
      message: expect.stringContaining('such as https://NAME.openai.azure.com/openai/v1'),
    });
    expect(error).toMatchObject({ message: expect.stringContaining('Set AZURE_BASE_URL') });
  });

  test('a blocked prompt is a content-filter error, a blocked answer is a finish reason', async () => {
    const blocked = {
      error: {
        message: 'The response was filtered due to the prompt triggering the policy.',
        type: null,
        param: 'prompt',
        code: 'content_filter',
        status: 400,
        innererror: { code: 'ResponsibleAIPolicyViolation' },
      },
    };
    const { fetch } = replayFetch(answer(blocked, 400));
    const adapter = azure({ model: 'm', apiKey: 'k', baseURL: V1, fetch });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'content-filter',
      retryable: false,
    });
    const { turn } = await ask(
      {},
      response({ status: 'incomplete', incomplete_details: { reason: 'content_filter' }, output: [] }),
    );
    expect(turn.finishReason).toBe('content_filter');
  });

  test('a rate limit has a retry delay, in milliseconds in preference to seconds', async () => {
    const limited = {
      error: { code: 'RateLimitReached', message: 'exceeded rate limit', details: 'the same' },
    };
    const { fetch } = replayFetch(answer(limited, 429, { 'retry-after': '1', 'retry-after-ms': '0' }));
    const adapter = azure({ model: 'm', apiKey: 'k', baseURL: V1, fetch });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'rate-limit',
      retryable: true,
      retryAfterMs: 0,
    });
  });

  test('a code that is a status in words is a rejected key', async () => {
    const denied = { error: { code: '401', message: 'Access denied due to invalid subscription key.' } };
    const { fetch } = replayFetch(answer(denied, 401));
    const adapter = azure({ model: 'm', apiKey: 'k', baseURL: V1, fetch });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'authentication',
    });
  });
});

describe('Azure over Chat Completions', () => {
  const FOUNDRY = 'https://acme.services.ai.azure.com/models';
  const completion = (more: JsonObject = {}): JsonObject => ({
    model: 'grok-4',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'ok' } }],
    usage: {
      prompt_tokens: 293,
      completion_tokens: 58,
      total_tokens: 351,
      prompt_tokens_details: { cached_tokens: 387 },
    },
    ...more,
  });

  test.each([
    [FOUNDRY, `${FOUNDRY}/chat/completions?api-version=2024-05-01-preview`],
    [`${FOUNDRY}/`, `${FOUNDRY}/chat/completions?api-version=2024-05-01-preview`],
    [
      'https://acme.openai.azure.com/openai/deployments/gpt-4o',
      'https://acme.openai.azure.com/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21',
    ],
  ])('%s has only chat, and needs an api-version', async (baseURL, expected) => {
    const { url, headers } = await ask({ baseURL }, completion());
    expect(url).toBe(expected);
    expect(headers.get('api-key')).toBe('azure-test-key');
    vi.stubEnv('AZURE_BASE_URL', baseURL);
    expect(azure({ model: 'm' }).capabilities.continuation).toBe(false);
  });

  test('v1 has both APIs: chat is selected, and a given api-version overrides the default', async () => {
    expect((await ask({ api: 'chat' }, completion())).url).toBe(`${V1}/chat/completions`);
    expect((await ask({ baseURL: FOUNDRY, apiVersion: 'next' }, completion())).url).toBe(
      `${FOUNDRY}/chat/completions?api-version=next`,
    );
  });

  test('the first chunk has only the filter results of the prompt', async () => {
    const chunk = (delta: JsonObject, finish_reason: string | null): JsonObject => ({
      id: 'c1',
      model: 'gpt-4o',
      choices: [{ index: 0, delta, finish_reason, content_filter_results: {} }],
    });
    const { fetch } = replayFetch({
      chunks: [
        sse(
          { id: '', model: '', choices: [], prompt_filter_results: [{ prompt_index: 0 }] },
          chunk({ role: 'assistant', content: 'Half' }, null),
          chunk({}, 'content_filter'),
        ),
      ],
    });
    const adapter = azure({ api: 'chat', model: 'gpt-4o', apiKey: 'k', baseURL: V1, fetch });
    const turn = (await collect(adapter.stream(request('hi'), calling()))).at(-1);
    expect(turn).toMatchObject({ turn: { text: 'Half', finishReason: 'content_filter', model: 'gpt-4o' } });
  });

  test('a rate limit of Foundry has a retry delay', async () => {
    const limited = {
      error: { code: 'RateLimitReached', message: 'exceeded rate limit', details: 'the same' },
    };
    const { fetch } = replayFetch(answer(limited, 429, { 'retry-after': '2' }));
    const adapter = azure({ model: 'm', apiKey: 'k', baseURL: FOUNDRY, fetch });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'rate-limit',
      retryAfterMs: 2_000,
    });
  });
});
