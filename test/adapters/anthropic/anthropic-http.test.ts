import { describe, expect, test, vi } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { answering, jsonReply, message, text } from '../../support/adapters/anthropic-exchange.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';

const HELLO = jsonReply(message([text('hello')]));
const failing = (status: number, type: string, said: string, headers: Record<string, string> = {}) =>
  jsonReply({ type: 'error', error: { type, message: said }, request_id: 'req_1' }, status, headers);

/** The address and headers of one call. */
async function sentBy(options: Partial<Parameters<typeof anthropic>[0]>, more: Partial<ModelRequest> = {}) {
  const seen: { url: string; headers: Headers }[] = [];
  const adapter = anthropic({
    model: 'claude-sonnet-4-5',
    fetch: async (input, init) => {
      seen.push({ url: String(input), headers: new Headers(init?.headers) });
      return HELLO.clone();
    },
    ...options,
  });
  await adapter.generate(request('hi', more), calling());
  return { url: seen[0]?.url, header: (name: string) => seen[0]?.headers.get(name) };
}

const betasOf = async (
  providerOptions: JsonObject,
  options: Parameters<typeof sentBy>[0] = {},
  more: Partial<ModelRequest> = {},
) => {
  const sent = await sentBy({ apiKey: 'k', ...options }, { providerOptions, ...more });
  return sent.header('anthropic-beta')?.split(',') ?? [];
};

describe('a call over HTTP', () => {
  test('goes to /v1/messages with the version and the key, which is not a bearer token', async () => {
    const { url, header } = await sentBy({ apiKey: 'test-key' });
    expect(url).toBe('https://api.anthropic.com/v1/messages');
    expect(header('x-api-key')).toBe('test-key');
    expect(header('authorization')).toBeNull();
    expect(header('anthropic-version')).toBe('2023-06-01');
  });

  test('takes key and root URL from the environment', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', ' env-key\n');
    vi.stubEnv('ANTHROPIC_AUTH_TOKEN', 'not-this-one');
    vi.stubEnv('ANTHROPIC_BASE_URL', 'https://proxy.test/claude/');
    const { url, header } = await sentBy({});
    vi.unstubAllEnvs();
    expect(url).toBe('https://proxy.test/claude/v1/messages');
    expect(header('x-api-key')).toBe('env-key');
    expect(header('authorization')).toBeNull();
  });

  test('prefers the configured headers to its own', async () => {
    const headers = {
      'anthropic-beta': 'mcp-client-2025-04-04',
      'Anthropic-Version': '2026-10-21',
      Authorization: 'Bearer x',
    };
    const { header } = await sentBy({ apiKey: 'test-key', headers });
    expect(header('anthropic-beta')).toBe('mcp-client-2025-04-04');
    expect(header('anthropic-version')).toBe('2026-10-21');
    expect(header('authorization')).toBe('Bearer x');
  });

  test.each([
    ['claude-opus-5-5', {}, '2026-10-21'],
    ['claude-opus-9', {}, '2026-10-21'],
    ['claude-opus-9', { settings: { temperature: 0.5 } }, '2023-06-01'],
    ['claude-haiku-4-5', {}, '2023-06-01'],
    ['qwen3', {}, '2023-06-01'],
  ])('to %s with %j has the version %3$s', async (model, more, version) => {
    const { header } = await sentBy({ apiKey: 'k', model }, more);
    expect(header('anthropic-version')).toBe(version);
    const fixed = await sentBy({ apiKey: 'k', model, apiVersion: '2030-01-01' }, more);
    expect(fixed.header('anthropic-version')).toBe('2030-01-01');
  });

  test.each<[JsonObject, string[]]>([
    [{}, []],
    [{ metadata: { user_id: 'u' } }, []],
    [{ thinking: { type: 'adaptive', display: 'updates' } }, ['thinking-display-updates-2026-08-18']],
    [
      { thinking: { type: 'adaptive', block_binding: { prefix_mismatch_behavior: 'drop_block' } } },
      ['thinking-binding-controls-2026-08-01'],
    ],
    [{ compaction: { type: 'summarize' } }, ['compact-2026-09-04']],
    [
      { context_management: { edits: [{ type: 'compact_20260112' }, { type: 'clear_tool_uses_20250919' }] } },
      ['compact-2026-01-12', 'context-management-2025-06-27'],
    ],
    [
      { mcp_servers: [{ type: 'url', name: 'a', url: 'https://x.test' }], tools: [{ type: 'mcp_toolset' }] },
      ['mcp-client-2026-09-15'],
    ],
    [{ fallbacks: 'default', speed: 'fast' }, ['server-side-fallback-2026-07-01', 'fast-mode-2026-02-01']],
  ])('with %j turns on the beta features that it needs, each once', async (providerOptions, betas) => {
    expect(await betasOf(providerOptions, { model: 'claude-opus-5-5' })).toEqual(betas);
  });

  test("turns on the caller's beta features beside them; a caller's version of a feature is the only one", async () => {
    const compacting = { compaction: { type: 'summarize' } };
    const options = {
      betas: ['extra-2026-01-01'],
      headers: { 'Anthropic-Beta': 'a-2025-01-01, b-2025-01-01' },
    };
    expect(await betasOf(compacting, options)).toEqual([
      'a-2025-01-01',
      'b-2025-01-01',
      'extra-2026-01-01',
      'compact-2026-09-04',
    ]);
    expect(await betasOf(compacting, { betas: ['compact-2027-01-01'] })).toEqual(['compact-2027-01-01']);
  });

  test('with a block in its transcript that needs a beta feature turns it on', async () => {
    const compacted: Item = {
      type: 'provider_item',
      kind: 'compaction',
      opaque: {
        provider: 'anthropic',
        data: { block: { type: 'compaction', content: 'So far: hi.', signature: 'sig' } },
      },
    };
    const transcript = [compacted, userMessage('hi')];
    expect(await betasOf({}, {}, { transcript })).toEqual(['compact-2026-09-04']);
  });

  test('may be long and not streamed, and prints nothing', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const long = request('hi', { settings: { maxOutputTokens: 128_000, reasoningEffort: 'high' } });
    for (const model of ['claude-sonnet-4-5', 'claude-opus-4-6']) {
      const { adapter } = answering([HELLO], { model });
      expect((await adapter.generate(long, calling())).text).toBe('hello');
    }
    expect(warn).not.toHaveBeenCalled();
    warn.mockRestore();
  });

  test('without a key names the variable to set', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', '');
    const error = await rejection(
      anthropic({ model: 'claude-sonnet-4-5' }).generate(request('hi'), calling()),
    );
    vi.unstubAllEnvs();
    expect(error).toMatchObject({ code: 'key-missing', provider: 'anthropic' });
    expect(String(error)).toContain('ANTHROPIC_API_KEY');
  });
});

describe('a failure', () => {
  test.each([
    [401, 'authentication_error', 'invalid x-api-key', 'authentication', false],
    [
      400,
      'invalid_request_error',
      'prompt is too long: 210000 tokens > 200000 maximum',
      'context-too-long',
      false,
    ],
    [400, 'invalid_request_error', 'max_tokens: required', 'invalid-request', false],
    [
      400,
      'invalid_request_error',
      'Your credit balance is too low to access the Anthropic API.',
      'quota',
      false,
    ],
    [403, 'permission_error', 'no', 'permission', false],
    [404, 'not_found_error', 'model: claude-9', 'not-found', false],
    [413, 'request_too_large', 'too large', 'context-too-long', false],
    [500, 'api_error', 'internal', 'server', true],
    [529, 'overloaded_error', 'Overloaded', 'overloaded', true],
  ])('with status %d %s "%s" is %s', async (status, type, said, code, retryable) => {
    const { adapter, sent } = answering([failing(status, type, said)]);
    const error = await rejection(adapter.generate(request('hi'), calling()));
    expect(error).toMatchObject({ name: 'ProviderError', status, code, retryable, provider: 'anthropic' });
    expect(String(error)).toContain(said);
    expect(sent).toHaveLength(1);
  });

  test('because of the rate limit has a retry delay', async () => {
    const { adapter } = answering([failing(429, 'rate_limit_error', 'slow down', { 'retry-after': '13' })]);
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'rate-limit',
      retryable: true,
      retryAfterMs: 13_000,
    });
  });

  test('in a 200 is an error, and so is a body that is not a message', async () => {
    const overloaded = failing(200, 'overloaded_error', 'Overloaded');
    expect(await rejection(answering([overloaded]).adapter.generate(request('hi'), calling()))).toMatchObject(
      {
        code: 'overloaded',
        retryable: true,
      },
    );
    expect(
      await rejection(answering([jsonReply({ ok: true })]).adapter.generate(request('hi'), calling())),
    ).toMatchObject({
      code: 'malformed-stream',
    });
  });

  test("of the network is found in the client's error", async () => {
    const fetch = async () => {
      throw Object.assign(new TypeError('fetch failed'), {
        cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }),
      });
    };
    const { adapter } = answering([], { fetch });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'network',
      retryable: true,
    });
  });

  test('by an abort is an abort', async () => {
    const { adapter } = answering([HELLO]);
    const error = await rejection(adapter.generate(request('hi'), { signal: AbortSignal.abort() }));
    expect(error).toMatchObject({ code: 'aborted', retryable: false });
  });
});
