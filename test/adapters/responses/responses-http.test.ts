import { inspect } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import type { ProviderError } from '../../../protocol/error.ts';
import { userMessage } from '../../../protocol/message.ts';
import {
  type Answer,
  type ReplayServer,
  sse,
  startReplayServer,
} from '../../support/adapters/replay-server.ts';
import { calling, collect, rejection, request, result } from '../../support/adapters/requests.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const RESPONSE = {
  id: 'resp_2',
  status: 'completed',
  output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'hello' }] }],
};
const HELLO: Answer = { headers: JSON_TYPE, chunks: [JSON.stringify(RESPONSE)] };
const HELLO_STREAM: Answer = { chunks: [sse({ type: 'response.completed', response: RESPONSE })] };
const DELTA = sse({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'hel' });

const failing = (status: number, body: unknown, headers: Record<string, string> = {}): Answer => ({
  status,
  headers: { ...JSON_TYPE, ...headers },
  chunks: [JSON.stringify(body)],
});

let server: ReplayServer;
beforeAll(async () => {
  server = await startReplayServer();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(() => {
  vi.unstubAllEnvs();
});

type Options = Partial<Parameters<typeof openaiResponses>[0]>;
function adapter(options: Options = {}) {
  return openaiResponses({ model: 'gpt-4.1', apiKey: 'test-key', baseURL: server.baseURL, ...options });
}

describe('a call over HTTP', () => {
  test('is a POST to /v1/responses with the key and headers, and is not retried', async () => {
    server.answer(failing(500, {}), HELLO);
    expect(await rejection(adapter().generate(request('hi'), calling()))).toMatchObject({ code: 'server' });
    expect(server.requests).toHaveLength(1);
    await adapter({ headers: { 'x-team': 'blue' } }).generate(request('hi'), calling());
    expect(server.requests[1]).toMatchObject({
      path: '/v1/responses',
      headers: { authorization: 'Bearer test-key', 'x-team': 'blue' },
      body: { model: 'gpt-4.1' },
    });
  });

  test('takes key, URL and organization from the environment', async () => {
    vi.stubEnv('OPENAI_API_KEY', ' env-key\n');
    vi.stubEnv('OPENAI_BASE_URL', server.baseURL);
    vi.stubEnv('OPENAI_ORG_ID', 'org-1');
    server.answer(HELLO);
    const turn = await openaiResponses({ model: 'gpt-4.1' }).generate(request('hi'), calling());
    expect(turn.text).toBe('hello');
    expect(server.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer env-key',
      'openai-organization': 'org-1',
    });
  });

  test('without a key fails when the call is made, not when the adapter is created, and names the variable to set', async () => {
    vi.stubEnv('OPENAI_API_KEY', '');
    const keyless = openaiResponses({ model: 'gpt-4.1', baseURL: server.baseURL });
    for (const call of [
      keyless.generate(request('hi'), calling()),
      collect(keyless.stream(request('hi'), calling())),
    ]) {
      const error = await rejection(call);
      expect(error).toMatchObject({
        name: 'ProviderError',
        code: 'key-missing',
        provider: 'openai-responses',
      });
      expect(String(error)).toContain('Set OPENAI_API_KEY');
    }
  });

  test('does not include a wrong key in the error although the provider echoes it', async () => {
    const key = 'my-odd-key-without-a-prefix';
    const body = { error: { message: `Incorrect API key provided: ${key}.`, code: 'invalid_api_key' } };
    server.answer(failing(401, body));
    const error = (await rejection(
      adapter({ apiKey: key }).generate(request('hi'), calling()),
    )) as ProviderError;
    expect(error).toMatchObject({ code: 'authentication', retryable: false, status: 401 });
    expect(error.message).toContain('Set OPENAI_API_KEY');
    expect(inspect(error, { depth: null }) + JSON.stringify(error)).not.toContain(key);
  });

  test('converts a rate limit to a retry delay, by the given clock', async () => {
    server.answer(
      failing(429, { error: { message: 'slow down' } }, { 'retry-after': 'Thu, 01 Jan 2026 00:00:30 GMT' }),
    );
    const now = () => Date.parse('2026-01-01T00:00:10Z');
    const error = await rejection(adapter({ now }).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'rate-limit', retryable: true, retryAfterMs: 20_000 });
    expect(String(error)).toContain('Try again in 20 s.');
  });

  test('reads an error body of any shape', async () => {
    server.answer(failing(400, { code: 'invalid-argument', error: 'Incorrect API key provided.' }));
    expect(await rejection(adapter().generate(request('hi'), calling()))).toMatchObject({
      code: 'authentication',
      raw: { code: 'invalid-argument' },
    });
  });

  test('reports a refused connection as a network error that names the base URL', async () => {
    const gone = await startReplayServer();
    await gone[Symbol.asyncDispose]();
    const error = await rejection(adapter({ baseURL: gone.baseURL }).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'network', retryable: true, status: null });
    expect(String(error)).toContain(`${gone.baseURL} (ECONNREFUSED)`);
  });

  test('reports a connection lost in mid-stream as a network error, after the received deltas', async () => {
    server.answer({ chunks: [DELTA], cut: true });
    const seen: string[] = [];
    const error = await rejection(
      (async () => {
        for await (const delta of adapter().stream(request('hi'), calling())) seen.push(delta.type);
      })(),
    );
    expect(seen).toEqual(['text']);
    expect(error).toMatchObject({ code: 'network', retryable: true });
    expect(String(error)).toContain(`${server.baseURL} was lost before the response was complete`);
    expect(String(error)).not.toContain('could not be reached');
  });

  test('reports a server that does not answer in time as a timeout', async () => {
    const never: typeof fetch = (_, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason));
      });
    const error = await rejection(adapter({ fetch: never, timeoutMs: 5 }).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'timeout', retryable: true });
  });

  test('is aborted when aborted before or in the middle', async () => {
    server.answer({ chunks: [DELTA, DELTA] });
    const controller = new AbortController();
    const seen: string[] = [];
    const error = await rejection(
      (async () => {
        for await (const delta of adapter().stream(request('hi'), controller)) {
          seen.push(delta.type);
          controller.abort();
        }
      })(),
    );
    expect(error).toMatchObject({ name: 'ProviderError', code: 'aborted', retryable: false });
    expect(await rejection(adapter().generate(request('hi'), controller))).toMatchObject({ code: 'aborted' });
    expect(seen.length).toBeGreaterThan(0);
    expect(server.requests).toHaveLength(1);
  });

  test('leaves its connection for the next call when the stream ends after its last event', async () => {
    const end = Promise.withResolvers<void>();
    server.answer({ ...HELLO_STREAM, end: end.promise });
    const one = adapter();
    await collect(one.stream(request('hi'), calling()));
    const before = server.connections();
    end.resolve();
    for (let i = 0; i < 20; i += 1) await new Promise(resolve => setImmediate(resolve));
    await one.generate(request('hi'), calling());
    expect(server.connections()).toBe(before);
  });
});

describe('a continuation', () => {
  const transcript = [
    userMessage('hi'),
    { type: 'tool_call' as const, callId: 'c1', name: 'a', arguments: '{}' },
    result('c1', 'ok'),
  ];
  const FORGOTTEN = failing(400, {
    error: { code: 'previous_response_not_found', message: "Previous response with id 'resp_1' not found." },
  });
  const continued = request(transcript, { continuation: 'resp_1' });

  test('sends the id and the items after the last turn', async () => {
    server.answer(HELLO);
    const turn = await adapter().generate(continued, calling());
    expect(server.requests.map(seen => seen.body)).toEqual([
      {
        model: 'gpt-4.1',
        previous_response_id: 'resp_1',
        input: [{ type: 'function_call_output', call_id: 'c1', output: 'ok' }],
      },
    ]);
    expect(turn.continuation).toBe('resp_2');
  });

  test.each(['generate', 'stream'] as const)(
    'that the provider forgot is replaced by one request with the whole transcript (%s)',
    async how => {
      server.answer(FORGOTTEN, how === 'generate' ? HELLO : HELLO_STREAM);
      const deltas =
        how === 'generate'
          ? [await adapter().generate(continued, calling())]
          : await collect(adapter().stream(continued, calling()));
      expect(deltas.length).toBeGreaterThan(0);
      const [first, second, ...more] = server.requests.map(seen => seen.body);
      expect(more).toEqual([]);
      expect(first?.previous_response_id).toBe('resp_1');
      expect(second).not.toHaveProperty('previous_response_id');
      expect(second?.input).toHaveLength(3);
    },
  );

  test('that fails for another reason is not replaced, and neither is the replacement', async () => {
    server.answer(failing(400, { error: { message: 'bad temperature' } }));
    expect(await rejection(adapter().generate(continued, calling()))).toMatchObject({
      code: 'invalid-request',
    });
    expect(server.requests).toHaveLength(1);
    server.answer(FORGOTTEN);
    expect(await rejection(adapter().generate(continued, calling()))).toMatchObject({
      name: 'ProviderError',
    });
    expect(server.requests).toHaveLength(2);
  });

  test('is neither used nor returned when the provider is to store nothing', async () => {
    server.answer({ ...HELLO, chunks: [JSON.stringify({ ...RESPONSE, store: false })] });
    const turn = await adapter({ store: false }).generate(continued, calling());
    expect(server.requests[0]?.body).toMatchObject({ store: false });
    expect(server.requests[0]?.body.input).toHaveLength(3);
    expect(turn).not.toHaveProperty('continuation');
  });
});

describe('encrypted reasoning', () => {
  test.each([
    ['gpt-5', true],
    ['gpt-5.1-codex-mini', true],
    ['o4-mini', true],
    ['o3', true],
    ['codex-mini-latest', true],
    ['gpt-4.1', false],
    ['gpt-4o', false],
    ['gpt-5-chat-latest', false],
  ])('is requested from %s: %s', async (model, asked) => {
    server.answer(HELLO);
    await adapter({ model }).generate(request('hi'), calling());
    expect(server.requests[0]?.body.include).toEqual(asked ? ['reasoning.encrypted_content'] : undefined);
  });

  test('follows the option if it is given', async () => {
    server.answer(HELLO);
    await adapter({ model: 'my-deployment', reasoning: true }).generate(request('hi'), calling());
    expect(server.requests[0]?.body.include).toEqual(['reasoning.encrypted_content']);
  });
});
