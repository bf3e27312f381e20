import { getEventListeners } from 'node:events';
import { Anthropic } from '@anthropic-ai/sdk';
import { AzureOpenAI, BedrockOpenAI, OpenAI } from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { azure } from '../../../adapters/azure.ts';
import { groq } from '../../../adapters/groq.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { ProviderError } from '../../../protocol/error.ts';
import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';
import { recordedPlayer } from '../../support/adapters/play-recorded.ts';
import { clientFor } from '../../support/adapters/recorded-adapters.ts';
import { type RecordedTurn, recordedTurns, recordingsArePresent } from '../../support/adapters/recordings.ts';
import { type Answer, type ReplayServer, startReplayServer } from '../../support/adapters/replay-server.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';

const KEY = 'transport-test-key-77';
const JSON_TYPE = { 'content-type': 'application/json' };
const asAnswer = (body: object): Answer => ({ headers: JSON_TYPE, chunks: [JSON.stringify(body)] });
const RESPONSE = asAnswer({ id: 'r', status: 'completed', output: [] });
const COMPLETION = asAnswer({ choices: [{ finish_reason: 'stop', message: { content: 'hello' } }] });
const MESSAGE = asAnswer({ content: [{ type: 'text', text: 'hello' }], stop_reason: 'end_turn' });

let server: ReplayServer;
beforeAll(async () => {
  server = await startReplayServer();
});
afterAll(() => server[Symbol.asyncDispose]());
afterEach(() => {
  vi.unstubAllEnvs();
});

describe('every recording decodes to the same result through fetch and through the official client', () => {
  const turns = recordedTurns().filter(turn => clientFor(turn, { apiKey: 'k', baseURL: 'http://a.invalid' }));

  test.skipIf(!recordingsArePresent)('recordings are available for each kind of client', () => {
    expect(new Set(turns.map(({ format }) => format))).toEqual(new Set(['responses', 'chat', 'anthropic']));
    expect(turns.some(({ provider }) => provider === 'azure')).toBe(true);
  });

  test.each(turns)('$name', async recorded => {
    const [byFetch, throughClient] = [await played(recorded, 'fetch'), await played(recorded, 'client')];
    expect(throughClient).toEqual(byFetch);
  });

  /** The result of a recording: its turn and deltas, or its error. */
  async function played(recorded: RecordedTurn, through: 'fetch' | 'client') {
    try {
      return await recordedPlayer(recorded, through)();
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error;
      const { code, status, retryable, retryAfterMs, provider, model, raw } = error;
      const message = error.message.replace(
        /Set \w+ \(or the option apiKey\) to a valid API key/,
        'Check the API key',
      );
      return { code, status, retryable, retryAfterMs, provider, model, message, kept: keptOf(raw) };
    }
  }

  /** OpenAI's clients keep only the member `error` of an error's body, if it has one. */
  function keptOf(raw: JsonValue): JsonValue {
    return isJsonObject(raw) ? (raw.error ?? raw) : raw;
  }
});

describe('a signal that outlives its calls', () => {
  const OK_STREAM: Answer = {
    chunks: ['data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'],
  };
  const FAILED: Answer = { status: 500, headers: JSON_TYPE, chunks: ['{}'] };
  const EMPTY: Answer = { status: 204, headers: {}, chunks: [] };

  test.each(['fetch', 'client'])('keeps no listener of them, through %s', async through => {
    const own = { apiKey: KEY, baseURL: server.baseURL };
    const adapter = openaiChat({ model: 'm', ...(through === 'fetch' ? own : { client: new OpenAI(own) }) });
    const { signal } = new AbortController();
    for (const answer of [COMPLETION, OK_STREAM, FAILED, EMPTY]) {
      server.answer(answer);
      await adapter.generate(request('hi'), { signal }).catch(() => undefined);
      await collect(adapter.stream(request('hi'), { signal })).catch(() => undefined);
      expect(server.requests).toHaveLength(2);
      expect(getEventListeners(signal, 'abort')).toEqual([]);
    }
  });
});

describe('a request through fetch', () => {
  test("sends each of the caller's headers once, in any case, and in preference to the key", async () => {
    server.answer(COMPLETION);
    const headers = { AUTHORIZATION: 'Bearer mine', 'Content-Type': 'application/json; charset=utf-8' };
    await openaiChat({ model: 'm', apiKey: KEY, baseURL: server.baseURL, headers }).generate(
      request('hi'),
      calling(),
    );
    expect(server.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer mine',
      'content-type': 'application/json; charset=utf-8',
    });
  });

  test('sends OPENAI_ORG_ID and OPENAI_PROJECT_ID of the environment to OpenAI only', async () => {
    vi.stubEnv('OPENAI_ORG_ID', 'org-1');
    vi.stubEnv('OPENAI_PROJECT_ID', 'proj-1');
    server.answer(COMPLETION);
    for (const open of [openaiChat, groq]) {
      const adapter = open({ model: 'm', apiKey: KEY, baseURL: server.baseURL });
      await adapter.generate(request('hi'), calling());
    }
    const [atOpenai, atGroq] = server.requests.map(({ headers }) => headers);
    expect(atOpenai).toMatchObject({ 'openai-organization': 'org-1', 'openai-project': 'proj-1' });
    expect(Object.keys(atGroq ?? {}).filter(name => name.startsWith('openai-'))).toEqual([]);
  });

  test('appends the query of the base URL to the path', async () => {
    server.answer(COMPLETION);
    const baseURL = `${server.baseURL}/?tenant=7`;
    await openaiChat({ model: 'm', apiKey: KEY, baseURL }).generate(request('hi'), calling());
    expect(server.requests[0]?.path).toBe('/v1/chat/completions?tenant=7');
  });

  test('reads the key and the URL from the environment at the time of the call', async () => {
    server.answer(COMPLETION);
    vi.stubEnv('OPENAI_BASE_URL', server.baseURL);
    const adapter = openaiChat({ model: 'm' });
    for (const key of ['first-key', 'second-key']) {
      vi.stubEnv('OPENAI_API_KEY', key);
      await adapter.generate(request('hi'), calling());
    }
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer first-key',
      'Bearer second-key',
    ]);
  });
});

describe('a request through a client', () => {
  test("has the client's key, address and headers; headers of the adapter take precedence", async () => {
    vi.stubEnv('OPENAI_API_KEY', 'of-the-environment');
    vi.stubEnv('OPENAI_BASE_URL', 'http://environment.invalid');
    server.answer(COMPLETION);
    const client = new OpenAI({
      apiKey: KEY,
      baseURL: server.baseURL,
      organization: 'org-of-client',
      defaultHeaders: { 'x-team': 'red', 'x-client': 'yes' },
    });
    await openaiChat({ model: 'm', client, headers: { 'X-Team': 'blue' } }).generate(
      request('hi'),
      calling(),
    );
    expect(server.requests[0]).toMatchObject({
      path: '/v1/chat/completions',
      headers: {
        authorization: `Bearer ${KEY}`,
        'openai-organization': 'org-of-client',
        'x-team': 'blue',
        'x-client': 'yes',
      },
      body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
    });
  });

  test('has the same body as through fetch', async () => {
    const modelRequest = request('hi', { instructions: 'Be brief.', settings: { maxOutputTokens: 9 } });
    const own = { apiKey: KEY, baseURL: server.baseURL };
    server.answer(RESPONSE, RESPONSE, MESSAGE, MESSAGE);
    for (const adapter of [
      openaiResponses({ model: 'm', ...own }),
      openaiResponses({ model: 'm', client: new OpenAI(own) }),
      anthropic({ model: 'claude-sonnet-4-5', ...own }),
      anthropic({ model: 'claude-sonnet-4-5', client: new Anthropic(own) }),
    ]) {
      await adapter.generate(modelRequest, calling());
    }
    const [byFetch, throughOpenai, byFetchToo, throughAnthropic] = server.requests.map(({ body }) => body);
    expect(throughOpenai).toEqual(byFetch);
    expect(throughAnthropic).toEqual(byFetchToo);
  });

  test("is made once, regardless of the client's retries", async () => {
    server.answer({ status: 503, headers: JSON_TYPE, chunks: ['{"error":{"message":"busy"}}'] });
    const client = new OpenAI({ apiKey: KEY, baseURL: server.baseURL, maxRetries: 5 });
    const error = await rejection(openaiChat({ model: 'm', client }).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'overloaded', retryable: true });
    expect(server.requests).toHaveLength(1);
  });

  test('goes to Azure with an Entra ID token for each call, the deployment and the api-version', async () => {
    server.answer(COMPLETION);
    let tokens = 0;
    const client = new AzureOpenAI({
      baseURL: server.baseURL,
      apiVersion: '2030-01-01',
      azureADTokenProvider: async () => `token-${++tokens}`,
    });
    const adapter = azure({ model: 'gpt-4o', api: 'chat', client });
    await adapter.generate(request('hi'), calling());
    await adapter.generate(request('hi'), calling());
    expect(server.requests.map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ['/v1/deployments/gpt-4o/chat/completions?api-version=2030-01-01', 'Bearer token-1'],
      ['/v1/deployments/gpt-4o/chat/completions?api-version=2030-01-01', 'Bearer token-2'],
    ]);
    expect(server.requests[0]?.headers).not.toHaveProperty('api-key');
  });

  test('goes to Bedrock with its bearer token', async () => {
    server.answer(RESPONSE);
    const client = new BedrockOpenAI({ apiKey: 'bedrock-token', baseURL: server.baseURL });
    await openaiResponses({ model: 'openai.gpt-oss-120b', client }).generate(request('hi'), calling());
    expect(server.requests[0]).toMatchObject({
      path: '/v1/responses',
      headers: { authorization: 'Bearer bedrock-token' },
    });
  });

  test('goes to Anthropic with the client’s token, in the API version of the adapter', async () => {
    server.answer(MESSAGE);
    const client = new Anthropic({ authToken: 'oauth-token', apiKey: null, baseURL: server.baseURL });
    await anthropic({ model: 'claude-sonnet-4-5', client }).generate(request('hi'), calling());
    expect(server.requests[0]).toMatchObject({
      path: '/v1/v1/messages',
      headers: { authorization: 'Bearer oauth-token', 'anthropic-version': '2023-06-01' },
    });
  });

  test('shows neither the client’s key in an error nor a variable that would not help', async () => {
    server.answer({ status: 401, headers: JSON_TYPE, chunks: [`{"error":{"message":"not ${KEY}"}}`] });
    const client = new OpenAI({ apiKey: KEY, baseURL: server.baseURL });
    const error = await rejection(openaiChat({ model: 'm', client }).generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'authentication', raw: { message: 'not [redacted]' } });
    expect(String(error)).toContain('not [redacted]. Check the API key.');
    expect(String(error)).not.toContain(KEY);
  });

  test.each([
    ['{"message":"no such model","type":"not_found"}', 'no such model'],
    ['plain words', 'plain words'],
    ['', 'no reason was given'],
  ])('maps an error with the body %j', async (body, said) => {
    server.answer({ status: 404, headers: { ...JSON_TYPE, 'x-request-id': 'req-9' }, chunks: [body] });
    const own = { apiKey: KEY, baseURL: server.baseURL };
    for (const adapter of [
      openaiChat({ model: 'm', ...own }),
      openaiChat({ model: 'm', client: new OpenAI(own) }),
      anthropic({ model: 'm', client: new Anthropic(own) }),
    ]) {
      const error = await rejection(adapter.generate(request('hi'), calling()));
      expect(error).toMatchObject({ code: 'not-found', status: 404 });
      expect(String(error)).toContain(`(HTTP 404, request req-9): ${said}`);
    }
  });
});

describe('a client that waits for its token forever', () => {
  const client = () => {
    server.answer(RESPONSE);
    return new AzureOpenAI({
      baseURL: server.baseURL,
      apiVersion: 'preview',
      azureADTokenProvider: () => new Promise(() => undefined),
    });
  };

  test('is abandoned when the call is aborted', async () => {
    const controller = new AbortController();
    const call = rejection(azure({ model: 'm', client: client() }).generate(request('hi'), controller));
    controller.abort();
    expect(await call).toMatchObject({ code: 'aborted' });
  });

  test('is abandoned after the first-byte timeout', async () => {
    const adapter = azure({ model: 'm', client: client(), timeoutMs: 5 });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'timeout',
      retryable: true,
    });
    expect(server.requests).toHaveLength(0);
  });
});
