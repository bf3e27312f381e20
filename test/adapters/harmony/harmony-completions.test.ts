import { beforeEach, describe, expect, test, vi } from 'vitest';
import { replayFetch } from '../../../adapters/conformance.ts';
import { type HarmonyOptions, harmony } from '../../../adapters/harmony.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const completion = (text: string, more: JsonObject = {}) =>
  JSON.stringify({
    object: 'text_completion',
    model: 'm',
    choices: [{ index: 0, text, finish_reason: 'stop', ...more }],
  });

function answering(text: string, options: Partial<HarmonyOptions> = {}) {
  const { fetch, requests } = replayFetch({ headers: JSON_TYPE, chunks: [completion(text)] });
  const adapter = harmony({
    model: 'openai/gpt-oss-20b',
    baseURL: 'http://localhost:8000/v1',
    fetch,
    ...options,
  });
  return { adapter, requests };
}

async function bodyFor(of: ModelRequest, options: Partial<HarmonyOptions> = {}): Promise<JsonObject> {
  const { adapter, requests } = answering('<|channel|>final<|message|>ok', options);
  await adapter.generate(of, calling());
  return requests[0]?.body ?? {};
}

beforeEach(() => {
  vi.unstubAllEnvs();
  vi.stubEnv('HARMONY_BASE_URL', '');
  vi.stubEnv('HARMONY_API_KEY', '');
});

describe('the request', () => {
  test('requests special tokens, stops at both stop tokens, and never keeps the default length of 16 tokens', async () => {
    const { prompt, ...rest } = await bodyFor(request('hi'));
    expect(prompt).toMatch(/^<\|start\|>system.*<\|start\|>assistant$/s);
    expect(rest).toEqual({
      model: 'openai/gpt-oss-20b',
      max_tokens: null,
      stop: ['<|return|>', '<|call|>'],
      stop_token_ids: [200002, 200012],
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      stream: false,
    });
  });

  test('has settings and provider options; those of the request override those of the adapter', async () => {
    const body = await bodyFor(
      request('hi', {
        settings: { temperature: 0, topP: 0.5, maxOutputTokens: 9, reasoningEffort: 'low' },
        providerOptions: { seed: 2 },
      }),
      { providerOptions: { seed: 1, min_p: 0.1 } },
    );
    expect(body).toMatchObject({ temperature: 0, top_p: 0.5, max_tokens: 9, seed: 2, min_p: 0.1 });
    expect(body.prompt).toContain('Reasoning: low');
  });

  test('tells the model the current or configured date, and its knowledge cutoff', async () => {
    const now = () => Date.UTC(2026, 1, 3, 23, 59);
    expect((await bodyFor(request('hi'), { now })).prompt).toContain(
      'Knowledge cutoff: 2024-06\nCurrent date: 2026-02-03\n',
    );
    const options = { today: '2025-01-02', knowledgeCutoff: '2023-10' };
    expect((await bodyFor(request('hi'), options)).prompt).toContain(
      'Knowledge cutoff: 2023-10\nCurrent date: 2025-01-02\n',
    );
  });

  test('requests usage when it is streamed', async () => {
    const { fetch, requests } = replayFetch({ chunks: [`data: ${completion('<|message|>x')}\n\n`] });
    const adapter = harmony({ model: 'm', baseURL: 'http://localhost:8000/v1', fetch });
    await collect(adapter.stream(request('hi'), calling()));
    expect(requests[0]).toMatchObject({
      path: '/v1/completions',
      body: { stream: true, stream_options: { include_usage: true } },
    });
  });

  test('needs no key, and sends a configured one', async () => {
    const { adapter, requests } = answering('<|message|>x');
    await adapter.generate(request('hi'), calling());
    vi.stubEnv('HARMONY_API_KEY', 'key-1');
    await adapter.generate(request('hi'), calling());
    expect(requests.map(({ headers }) => headers.authorization)).toEqual([undefined, 'Bearer key-1']);
  });
});

describe('a server that removes the special tokens', () => {
  test('causes an error, so that reasoning is not shown to readers', async () => {
    for (const text of ['analysisUser says hi.assistantfinalHello!', 'finalHello!']) {
      const error = await rejection(answering(text).adapter.generate(request('hi'), calling()));
      expect(error).toMatchObject({
        code: 'malformed-stream',
        message: expect.stringContaining('skip_special_tokens'),
      });
    }
  });

  test('causes no error if the model only wrote an answer', async () => {
    const turn = await answering('Hello!').adapter.generate(request('hi'), calling());
    expect(turn.text).toBe('Hello!');
  });
});
