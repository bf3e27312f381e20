import type Anthropic from '@anthropic-ai/sdk';
import type { ClientOptions } from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { anthropicOn, post } from '../../support/messages/client.ts';
import { Gateway } from '../../support/responses/gateway.ts';

let gateway: Gateway;
let client: Anthropic;

beforeAll(() => {
  gateway = new Gateway({
    any: [{ text: 'Fine.' }],
    broken: [{ error: { code: 'server', message: 'out of order', retryable: false } }],
    long: [{ error: { code: 'context-too-long', message: '9 tokens, at most 8' } }],
    limited: [{ error: { code: 'rate-limit', message: 'slow down', retryable: false } }],
  });
  client = anthropicOn(gateway);
});
afterAll(() => gateway.close());

const user = (content: string) => ({ role: 'user' as const, content });
const base = { max_tokens: 100, messages: [user('hi')] };

describe('an error', () => {
  it.each<[string, object, number, string, RegExp]>([
    [
      'without max_tokens',
      { max_tokens: undefined },
      400,
      'invalid_request_error',
      /^max_tokens: Field required$/,
    ],
    ['with an unknown model', { model: 'no-such' }, 404, 'not_found_error', /no-such/],
    ['that fails', { model: 'broken' }, 500, 'api_error', /out of order|failed/],
    ['over the limit', { model: 'limited' }, 429, 'rate_limit_error', /./],
    [
      'with a connector',
      { mcp_servers: [{ type: 'url', url: 'https://x', name: 'x' }] },
      400,
      'invalid_request_error',
      /^mcp_servers: /,
    ],
    ['with top_k', { top_k: 5 }, 400, 'invalid_request_error', /^top_k: .*not supported/],
    ['with stop_sequences', { stop_sequences: ['x'] }, 400, 'invalid_request_error', /^stop_sequences: /],
    [
      'with a tool that only code may call',
      {
        tools: [
          { name: 'a', input_schema: { type: 'object' }, allowed_callers: ['code_execution_20260521'] },
        ],
      },
      400,
      'invalid_request_error',
      /^tools\.0\.allowed_callers: .*direct/,
    ],
    [
      'with a message for one turn',
      { messages: [user('hi'), { role: 'system', content: 'x', clear_at: 'next_user_message' }] },
      400,
      'invalid_request_error',
      /^messages\.1\.clear_at: .*not supported/,
    ],
    [
      'with a message that changes the effort',
      { messages: [user('hi'), { role: 'system', content: 'x', output_config: { effort: 'low' } }] },
      400,
      'invalid_request_error',
      /^messages\.1\.output_config\.effort: .*supported/,
    ],
    [
      'with a server tool',
      { tools: [{ type: 'bash_20250124', name: 'bash' }] },
      400,
      'invalid_request_error',
      /^tools\.0\.type: .*bash_20250124/,
    ],
    [
      'with a web search that the server does not have',
      { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      400,
      'invalid_request_error',
      /^tools\.0\.type: .*"web_search" is not available/,
    ],
    [
      'with an invalid name of a tool',
      { tools: [{ name: 'a b', input_schema: { type: 'object' } }] },
      400,
      'invalid_request_error',
      /^tools\.0\.name: This field is not valid/,
    ],
    [
      'without messages',
      { messages: [] },
      400,
      'invalid_request_error',
      /^messages: at least one message is required$/,
    ],
    [
      'with messages that say nothing',
      { messages: [{ role: 'assistant', content: [] }] },
      400,
      'invalid_request_error',
      /^'messages' is empty/,
    ],
    [
      'with a block of an unknown type',
      { messages: [{ role: 'user', content: [{ type: 'search_result' }] }] },
      400,
      'invalid_request_error',
      /^messages\.0\.content\.0\.type: .*search_result/,
    ],
    [
      'with a file id',
      { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }] }] },
      400,
      'invalid_request_error',
      /^messages\.0\.content\.0\.source\.type: /,
    ],
    [
      'with a result of no call',
      { messages: [user('a'), { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'x' }] }] },
      400,
      'invalid_request_error',
      /^messages\.1\.content\.0: unexpected `tool_use_id`.*x\./,
    ],
    [
      'with a call without result',
      {
        messages: [
          user('a'),
          { role: 'assistant', content: [{ type: 'tool_use', id: 'x', name: 'y', input: {} }] },
          user('b'),
        ],
      },
      400,
      'invalid_request_error',
      /^messages\.1: `tool_use` ids were found without .*: x\./,
    ],
  ])('of a request %s is in Anthropic’s envelope', async (_, more, status, type, message) => {
    const answer = await post(gateway, '/v1/messages', { ...base, model: 'any', ...more });
    expect(answer).toMatchObject({
      status,
      body: { type: 'error', error: { type, message: expect.stringMatching(message) } },
    });
    expect(answer.body.request_id).toBe(answer.headers.get('request-id'));
    expect(answer.body.request_id).toMatch(/^req_/);
  });

  it('of a stream that has not begun is a status, which the client throws', async () => {
    const { status } = await post(gateway, '/v1/messages', { ...base, model: 'broken', stream: true });
    expect(status).toBe(500);
    await expect(client.messages.stream({ ...base, model: 'broken' }).finalMessage()).rejects.toMatchObject({
      error: { error: { type: 'api_error' } },
    });
  });

  it('of a conversation that is too long begins with the words that clients shorten it by', async () => {
    const error = {
      type: 'invalid_request_error',
      message: expect.stringMatching(/^prompt is too long: .*at most 8/),
    };
    const asked = { ...base, model: 'long' };
    const whole = await post(gateway, '/v1/messages', asked);
    expect(whole).toMatchObject({ status: 400, body: { error } });
    await expect(client.messages.stream(asked).finalMessage()).rejects.toMatchObject({ error: { error } });
  });

  it('of a path below is in the same envelope', async () => {
    const answer = await post(gateway, '/v1/messages/batches', {});
    expect(answer).toMatchObject({ status: 404, body: { error: { type: 'not_found_error' } } });
  });
});

describe('a token', () => {
  it('is accepted as x-api-key and as a bearer token', async () => {
    const guarded = new Gateway({ any: [{ text: 'Fine.' }] }, { token: 'secret-token-of-the-server' });
    const ask = (options: ClientOptions) =>
      anthropicOn(guarded, options).messages.create({ ...base, model: 'any' });
    await expect(ask({ apiKey: 'secret-token-of-the-server' })).resolves.toMatchObject({ type: 'message' });
    await expect(ask({ apiKey: null, authToken: 'secret-token-of-the-server' })).resolves.toMatchObject({
      type: 'message',
    });
    await expect(ask({ apiKey: 'wrong' })).rejects.toMatchObject({
      status: 401,
      error: { type: 'error', error: { type: 'authentication_error' } },
    });
    await guarded.close();
  });
});
