import { afterEach, describe, expect, test, vi } from 'vitest';
import { adapterChecks, type OpenOptions } from '../../../adapters/conformance.ts';
import { type GeminiOptions, gemini } from '../../../adapters/gemini.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';

const HI = { candidates: [{ content: { parts: [{ text: 'hi' }] }, finishReason: 'STOP' }] };

type Seen = { url: string; headers: Headers };

/** An adapter that gets the same response to every call, and the requests that it has sent. */
function recording(
  options: Partial<GeminiOptions> = {},
  answer: () => Response = () => Response.json(HI),
): { adapter: ReturnType<typeof gemini>; seen: Seen[] } {
  const seen: Seen[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    seen.push({ url: String(input), headers: new Headers(init?.headers) });
    return answer();
  };
  return { adapter: gemini({ model: 'gemini-2.5-flash', apiKey: 'a-secret-key', fetch, ...options }), seen };
}

async function urlOf(options: Partial<GeminiOptions>): Promise<string | undefined> {
  const { adapter, seen } = recording(options);
  await adapter.generate(request('hi'), calling());
  return seen[0]?.url;
}

describe('the address of a call', () => {
  afterEach(() => vi.unstubAllEnvs());

  test('does not contain the key, which is sent in a header', async () => {
    const { adapter, seen } = recording({ headers: { 'x-mine': '1' } });
    await adapter.generate(request('hi'), calling());
    await collect(adapter.stream(request('hi'), calling()));
    expect(seen.map(({ url }) => url)).toEqual([
      'https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent',
      'https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    ]);
    expect(seen[0]?.headers.get('x-goog-api-key')).toBe('a-secret-key');
    expect(seen[0]?.headers.get('x-mine')).toBe('1');
  });

  test.each([
    ['http://host', 'http://host/v1beta/models/m'],
    ['http://host/', 'http://host/v1beta/models/m'],
    ['http://host/gemini', 'http://host/gemini/v1beta/models/m'],
    ['http://host/v1beta', 'http://host/v1beta/models/m'],
    ['http://host/v1/', 'http://host/v1/models/m'],
    ['http://v1.host', 'http://v1.host/v1beta/models/m'],
    [
      'https://host/v1beta1/projects/p/locations/l/publishers/google',
      'https://host/v1beta1/projects/p/locations/l/publishers/google/models/m',
    ],
  ])('for the base URL %s is %s', async (baseURL, expected) => {
    expect(await urlOf({ baseURL, model: 'm' })).toBe(`${expected}:generateContent`);
  });

  test.each([
    ['models/m', 'models/m'],
    ['tunedModels/mine', 'tunedModels/mine'],
    ['a b?c', 'models/a%20b%3Fc'],
  ])('for the model %s contains %s', async (model, expected) => {
    expect(await urlOf({ baseURL: 'http://host', model })).toBe(
      `http://host/v1beta/${expected}:generateContent`,
    );
  });

  test('and its key come from the environment', async () => {
    vi.stubEnv('GEMINI_API_KEY', '');
    vi.stubEnv('GOOGLE_API_KEY', '');
    vi.stubEnv('GOOGLE_GENERATIVE_AI_API_KEY', 'third');
    vi.stubEnv('GEMINI_BASE_URL', 'http://env.test');
    const seen: Seen[] = [];
    const fetch: typeof globalThis.fetch = async (input, init) => {
      seen.push({ url: String(input), headers: new Headers(init?.headers) });
      return Response.json(HI);
    };
    const adapter = gemini({ model: 'm', fetch });
    for (const variable of ['GOOGLE_API_KEY', 'GEMINI_API_KEY', '']) {
      await adapter.generate(request('hi'), calling());
      if (variable !== '') vi.stubEnv(variable, variable);
    }
    expect(seen.map(({ headers }) => headers.get('x-goog-api-key'))).toEqual([
      'third',
      'GOOGLE_API_KEY',
      'GEMINI_API_KEY',
    ]);
    expect(seen[0]?.url).toContain('http://env.test/v1beta/');
  });
});

describe('a failure', () => {
  const failing = (status: number, body: unknown) =>
    recording({}, () => Response.json(body, { status })).adapter.generate(request('hi'), calling());

  test('with a bad key is an authentication error, although its status is 400', async () => {
    const error = await rejection(
      failing(400, {
        error: {
          code: 400,
          message: 'API key not valid: a-secret-key.',
          status: 'INVALID_ARGUMENT',
          details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }],
        },
      }),
    );
    expect(error).toMatchObject({ code: 'authentication', status: 400, retryable: false });
    expect(`${error} ${JSON.stringify(error)}`).not.toContain('a-secret-key');
  });

  test('names the retry delay in its body alone, also in a list', async () => {
    const body = {
      error: {
        code: 429,
        message: 'You exceeded your current quota.',
        status: 'RESOURCE_EXHAUSTED',
        details: [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.4s' }],
      },
    };
    for (const shape of [body, [body]]) {
      expect(await rejection(failing(429, shape))).toMatchObject({
        code: 'rate-limit',
        retryable: true,
        retryAfterMs: 34_400,
      });
    }
  });

  test('may come with a status of 200, also in a list', async () => {
    const body = { error: { code: 500, message: 'Internal error.', status: 'INTERNAL' } };
    expect(await rejection(failing(200, [body]))).toMatchObject({ code: 'server', retryable: true });
  });
});

describe('the conformance checks', () => {
  const events = (...all: JsonObject[]) =>
    all.map(event => `data: ${JSON.stringify(event)}\r\n\r\n`).join('');
  const part = (value: JsonObject, finishReason?: string): JsonObject => ({
    candidates: [{ content: { role: 'model', parts: [value] }, ...(finishReason ? { finishReason } : {}) }],
  });
  const thought = { text: 'Hm, Ωμέγα.', thought: true };
  const first = {
    functionCall: { name: 'weather', args: { city: 'Zürich' } },
    thoughtSignature: 'c2lnbmF0dXJl+/=',
  };
  const second = { functionCall: { name: 'weather', args: {} } };
  const usageMetadata = { promptTokenCount: 5, candidatesTokenCount: 4, thoughtsTokenCount: 1 };
  const whole = {
    candidates: [
      { content: { parts: [thought, { text: 'Let me see.' }, first, second] }, finishReason: 'STOP' },
    ],
    usageMetadata,
  };
  const exchanges = [
    {
      name: 'two calls',
      streamed: false,
      response: JSON.stringify(whole),
      comesBack: [first.thoughtSignature],
      expect: { text: 'Let me see.', reasoning: thought.text, finishReason: 'tool_calls' as const },
    },
    {
      name: 'two calls, streamed',
      streamed: true,
      response: events(
        part(thought),
        part({ text: 'Let me ' }),
        part({ text: 'see.' }),
        part(first),
        part(second, 'STOP'),
        { usageMetadata },
      ),
      comesBack: [first.thoughtSignature],
      sameTurnAs: 'two calls',
    },
    {
      name: 'an error in the stream',
      streamed: true,
      response: events(part({ text: 'hi' }), { error: { code: 503, message: 'x', status: 'UNAVAILABLE' } }),
      fails: { code: 'overloaded' as const, retryable: true },
    },
  ];
  const open = (options: OpenOptions) => gemini({ model: 'gemini-3-flash', ...options });
  for (const { name, run } of adapterChecks({ open, exchanges })) test(name, run);
});
