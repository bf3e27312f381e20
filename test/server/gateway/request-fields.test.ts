import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chatBody } from '../../../server/chat-completions/chat-request.ts';
import { REQUEST_FIELDS, type RequestApi } from '../../../server/gateway/request/field-table.ts';
import { RequestFields } from '../../../server/gateway/request/read-fields.ts';
import { messageBody } from '../../../server/messages/message-request.ts';
import { createBody } from '../../../server/responses/request-body.ts';
import { serveRuns } from '../../../server/serve.ts';
import { post } from '../../support/messages/client.ts';
import { ClientSocket } from '../../support/responses/client-socket.ts';
import { Gateway } from '../../support/responses/gateway.ts';

/** Kept without effect in one API, and without a member that is used in another. */
const KEPT = ['metadata', 'user', 'stream_options'];

const messages = [{ role: 'user', content: 'hi' }];
const BODIES = {
  '/v1/responses': { model: 'any', input: 'hi' },
  '/v1/chat/completions': { model: 'any', messages },
  '/v1/messages': { model: 'any', messages, max_tokens: 100 },
} as const;
type Route = keyof typeof BODIES;

let gateway: Gateway;
beforeAll(() => {
  gateway = new Gateway({
    any: [{ text: 'Fine.' }],
    broken: [{ error: { code: 'server', message: 'out of order', retryable: false } }],
  });
});
afterAll(() => gateway.close());

const ask = (route: Route, more: object) => post(gateway, route, { ...BODIES[route], ...more });

describe('a field without effect', () => {
  it.each<[Route, object, string]>([
    ['/v1/responses', { client_metadata: { a: 'b' } }, 'client_metadata'],
    ['/v1/responses', { service_tier: 'flex', user: 'u' }, 'service_tier, user'],
    ['/v1/responses', { reasoning: { context: 'all_turns' } }, 'reasoning.context'],
    [
      '/v1/responses',
      { stream_options: { include_obfuscation: true } },
      'stream_options.include_obfuscation',
    ],
    ['/v1/chat/completions', { prediction: { type: 'content', content: 'x' } }, 'prediction'],
    ['/v1/chat/completions', { provider: { order: ['a'] }, metadata: {} }, 'provider, metadata'],
    ['/v1/messages', { speed: 'fast', inference_geo: 'us' }, 'speed, inference_geo'],
    ['/v1/messages', { cache_control: { type: 'ephemeral' } }, 'cache_control'],
    ['/v1/messages', { metadata: { user_id: 'u' } }, 'metadata.user_id'],
    [
      '/v1/messages',
      {
        tools: ['a', 'b'].map(name => ({
          name,
          input_schema: { type: 'object' },
          cache_control: { type: 'ephemeral' },
        })),
      },
      'tools.cache_control',
    ],
  ])('of %s in %j is named in the header of the response', async (route, more, names) => {
    const { status, headers } = await ask(route, more);
    expect(status).toBe(200);
    expect(headers.get('agentchart-ignored')).toBe(names);
  });

  it('is named with a stream, with a failure and with a refusal', async () => {
    const hint = { client_metadata: {} };
    const streamed = await gateway.send('POST', '', { ...BODIES['/v1/responses'], ...hint, stream: true });
    expect(streamed.headers.get('content-type')).toContain('event-stream');
    expect(streamed.headers.get('agentchart-ignored')).toBe('client_metadata');
    await streamed.text();
    const failed = await ask('/v1/responses', { ...hint, model: 'broken' });
    expect(failed.status).toBe(502);
    expect(failed.headers.get('agentchart-ignored')).toBe('client_metadata');
    const refused = await ask('/v1/responses', { ...hint, other: 1 });
    expect(refused.status).toBe(400);
    expect(refused.headers.get('agentchart-ignored')).toBe('client_metadata');
  });

  it('is not named if its value asks for nothing', async () => {
    const nothing = { service_tier: 'auto', truncation: 'disabled', user: null, metadata: { a: 'b' } };
    const { headers } = await ask('/v1/responses', nothing);
    expect(headers.get('agentchart-ignored')).toBeNull();
  });

  it('is logged once for each API, also on a WebSocket', async () => {
    const own = new Gateway({ any: [{ text: 'Fine.' }] });
    const serving = await serveRuns(own.app, { host: '127.0.0.1', port: 0 });
    const socket = await ClientSocket.open(`${serving.url}/v1/responses`);
    await socket.create({ ...BODIES['/v1/responses'], user: 'u' });
    await post(own, '/v1/responses', { ...BODIES['/v1/responses'], user: 'u' });
    await post(own, '/v1/chat/completions', { ...BODIES['/v1/chat/completions'], user: 'u' });
    expect(own.log).toEqual([
      'A request to /v1/responses has the field "user", which was ignored.',
      'A request to /v1/chat/completions has the field "user", which was ignored.',
    ]);
    socket.close();
    await serving.close();
    await own.close();
  });
});

describe('a field in no table is refused by name', () => {
  it.each<[string, object, string, string]>([
    ['some_new_field', { some_new_field: { a: 1 } }, '', 'some_new_field'],
    ['max_token', { max_token: 5 }, " Did you mean 'max_tokens'?", 'max_token'],
    ['a member', { reasoning_effort: 'low', reasoning: { more: 1 } }, '', 'reasoning.more'],
    [
      'a member of a tool',
      {
        tools: [
          { type: 'function', function: { name: 'a' } },
          { type: 'function', function: { x: 1 } },
        ],
      },
      '',
      'tools[1].function.x',
    ],
    ['a member of __proto__', JSON.parse('{"__proto__":{"a":1}}'), '', '__proto__'],
    ['a member of every object', { constructor: 1 }, '', 'constructor'],
  ])('as OpenAI does: %s', async (_, more, advice, param) => {
    const text = JSON.stringify(BODIES['/v1/chat/completions']).slice(0, -1);
    const response = await gateway.app.request('http://127.0.0.1:4100/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', host: '127.0.0.1:4100' },
      body: `${text},${JSON.stringify(more).slice(1)}`,
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      error: {
        message: `Unknown parameter: '${param}'.${advice}`,
        type: 'invalid_request_error',
        code: 'unknown_parameter',
        param,
      },
    });
  });

  it.each<[object, string]>([
    [{ some_new_field: 1 }, 'some_new_field: Extra inputs are not permitted'],
    [{ top_kk: 1 }, "top_kk: Extra inputs are not permitted. Did you mean 'top_k'?"],
    [{ output_config: { more: 1 } }, 'output_config.more: Extra inputs are not permitted'],
    [{ thinking: { type: 'disabled', more: 1 } }, 'thinking.more: Extra inputs are not permitted'],
    [
      { tools: [{ name: 'a', input_schema: { type: 'object' }, more: 1 }] },
      'tools.0.more: Extra inputs are not permitted',
    ],
  ])('as Anthropic does: %j', async (more, message) => {
    const { status, body } = await ask('/v1/messages', more);
    expect(status).toBe(400);
    expect(body.error).toMatchObject({ type: 'invalid_request_error', message });
  });

  it('also where it is long', async () => {
    const { body } = await ask('/v1/responses', { ['x'.repeat(5_000)]: 1 });
    expect(JSON.stringify(body).length).toBeLessThan(1_000);
  });
});

describe('a field that would change the answer is refused by name', () => {
  it.each<[Route, object, string]>([
    ['/v1/responses', { prompt: { id: 'p' } }, "Unsupported parameter: 'prompt' is not supported. "],
    ['/v1/responses', { reasoning: { mode: 'pro' } }, "Unsupported parameter: 'reasoning.mode' is not "],
    ['/v1/chat/completions', { moderation: { model: 'm' } }, "Unsupported parameter: 'moderation' is not "],
    ['/v1/chat/completions', { min_p: 0.1 }, "Unsupported parameter: 'min_p' is not supported. "],
    ['/v1/messages', { container: 'c' }, 'container: This field is not supported. '],
    ['/v1/messages', { compaction: {} }, 'compaction: This field is not supported. '],
  ])('of %s: %j', async (route, more, message) => {
    const { status, body } = await ask(route, more);
    expect(status).toBe(400);
    expect(String((body.error as { message: string }).message)).toContain(message);
  });
});

describe('the provider of the model decides', () => {
  it.each<[RequestApi, object, string, string[] | 'refused']>([
    ['responses', { prompt_cache_key: 'k' }, 'openai-responses', []],
    ['responses', { prompt_cache_key: 'k' }, 'mistral', []],
    ['responses', { prompt_cache_key: 'k' }, 'anthropic', ['prompt_cache_key']],
    ['responses', { presence_penalty: 1 }, 'groq', []],
    ['responses', { presence_penalty: 1 }, 'anthropic', 'refused'],
    ['responses', { presence_penalty: 0 }, 'anthropic', []],
    ['chat', { top_k: 5 }, 'ollama', []],
    ['chat', { top_k: 5 }, 'openai-chat', 'refused'],
    ['messages', { metadata: { user_id: 'u' } }, 'anthropic', []],
    ['messages', { metadata: { user_id: 'u' } }, 'groq', ['metadata.user_id']],
    ['messages', { output_config: { task_budget: {} } }, 'anthropic', []],
    ['messages', { output_config: { task_budget: {} } }, 'gemini', ['output_config.task_budget']],
  ])('about %s %j with %s', (api, body, provider, expected) => {
    const fields = new RequestFields({ providerOf: () => provider, log() {} });
    const ignored: string[] = [];
    const check = () => fields.check(api, { model: 'm', ...body }, names => ignored.push(...names));
    if (expected === 'refused') return expect(check).toThrow('is not supported for this model.');
    check();
    expect(ignored).toEqual(expected);
  });
});

it.each<[RequestApi, object]>([
  ['responses', createBody.shape],
  ['chat', chatBody.shape],
  ['messages', messageBody.shape],
])('the schema of %s reads the fields that are used, and those that are kept with the run', (api, shape) => {
  const rules = Object.entries(REQUEST_FIELDS[api]);
  const used = rules.flatMap(([name, { fate }]) => (fate === 'used' ? [name] : []));
  const read = Object.keys(shape).filter(name => !KEPT.includes(name));
  expect(read.sort()).toEqual(used.filter(name => !KEPT.includes(name)).sort());
});
