import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ScriptedError, ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { calling, type Folder, fastHost, Gateway } from '../../support/responses/gateway.ts';

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway({ hello: [{ text: 'Hello.' }, { text: 'Again.' }] });
});
afterAll(() => gateway.close());

const USER = { role: 'user', content: 'x' };
const FUNCTION = { type: 'function', name: 'f' };
const MCP = { type: 'mcp', server_label: 'desk' };

describe('the validation of a request', () => {
  it.each([
    ['temperature', { temperature: 'hot' }, 'temperature', 'invalid_value'],
    ['input', { input: 7 }, 'input', 'invalid_value'],
    ['nothing to answer', { input: [] }, 'input', 'input_items_empty'],
    ['no input', { input: undefined }, 'input', 'input_items_empty'],
    ['an empty input', { input: '' }, 'input', 'input_text_empty'],
    [
      'an empty message',
      { input: [{ role: 'user', content: '' }] },
      'input[0].content',
      'message_content_empty',
    ],
    [
      'a message without parts',
      { input: [{ role: 'user', content: [] }] },
      'input[0].content',
      'message_content_empty',
    ],
    ['more items than by default', { input: Array(10_001).fill(USER) }, 'input', 'too_many_items'],
    ['an item that is no object', { input: ['x', 5] }, 'input[0]', 'invalid_value'],
    ['an item without a type', { input: [{}] }, 'input[0].type', 'missing_required_parameter'],
    ['include', { include: ['foo.bar'] }, 'include[0]', 'invalid_value'],
    ['logprobs', { include: ['message.output_text.logprobs'] }, 'include[0]', 'unsupported_parameter'],
    ['top_logprobs', { top_logprobs: 2 }, 'top_logprobs', 'unsupported_parameter'],
    ['a penalty for a model without', { presence_penalty: 1 }, 'presence_penalty', 'unsupported_parameter'],
    ['context management', { context_management: [] }, 'context_management', 'invalid_value'],
    ['tool type', { tools: [{ type: 'hologram' }] }, 'tools[0].type', 'unsupported_tool'],
    ['function name', { tools: [{ ...FUNCTION, name: 'a b' }] }, 'tools[0].name', 'invalid_value'],
    ['two functions', { tools: [FUNCTION, FUNCTION] }, 'tools[1].name', 'duplicate_function'],
    ['no label', { tools: [{ type: 'mcp' }] }, 'tools[0].server_label', 'missing_required_parameter'],
    ['label', { tools: [{ ...MCP, server_label: '1x' }] }, 'tools[0].server_label', 'invalid_server_label'],
    [
      'two labels',
      { tools: [MCP, { ...MCP, server_label: 'DESK' }] },
      'tools[1].server_label',
      'mcp_tool_duplicate_server_label',
    ],
    [
      'two targets',
      { tools: [{ ...MCP, server_url: 'http://x', connector_id: 'c' }] },
      'tools[0].connector_id',
      'mcp_tool_conflicting_targets',
    ],
    ['choice without tools', { tool_choice: 'required' }, 'tool_choice', 'tool_choice_requires_tools'],
    [
      'choice of nothing',
      { tools: [FUNCTION], tool_choice: { type: 'function', name: 'g' } },
      'tool_choice',
      'tool_choice_function_not_found',
    ],
    ['item type', { input: [{ type: 'hologram_call' }] }, 'input[0].type', 'unsupported_input_item'],
    [
      'content type',
      { input: [{ role: 'user', content: [{ type: 'input_audio' }] }] },
      'input[0].content[0].type',
      'unsupported_content',
    ],
    ['role', { input: [{ role: 'boss', content: 'x' }] }, 'input[0].role', 'invalid_value'],
    [
      'image by id',
      { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'file_1' }] }] },
      'input[0].content[0].image_url',
      'invalid_value',
    ],
    ['background', { background: true, store: false }, 'background', 'background_requires_store'],
    ['metadata', { metadata: { a: 1 } }, 'metadata.a', 'invalid_value'],
    ['text format', { text: { format: { type: 'xml' } } }, 'text.format', 'invalid_value'],
  ])('returns a 400 that names the parameter: %s', async (_name, body, param, code) => {
    const refused = await gateway.refused({ model: 'hello', input: 'x', ...body });
    expect(refused).toMatchObject({ status: 400, type: 'invalid_request_error', param, code });
    expect(refused.message).not.toBe('');
  });

  it('happens before anything is streamed', async () => {
    const response = await gateway.send('POST', '', { model: 'hello', input: 7, stream: true });
    expect(response.status).toBe(400);
    expect(response.headers.get('content-type')).toContain('application/json');
  });

  it('creates no run when it fails', async () => {
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    await gateway.refused({ model: 'hello', input: 'x', tools: [MCP] });
    expect((await gateway.store.list({ limit: 1000 })).runs).toHaveLength(before);
  });

  it('uses the same envelope for a body that is not JSON or has another content type', async () => {
    const post = async (body: string, type = 'application/json') => {
      const response = await gateway.app.request('http://127.0.0.1:4100/v1/responses', {
        method: 'POST',
        body,
        headers: { host: '127.0.0.1:4100', 'content-type': type },
      });
      return { status: response.status, ...((await response.json()) as object) };
    };
    expect(await post('{')).toMatchObject({
      status: 400,
      error: { type: 'invalid_request_error', param: null },
    });
    expect(await post('{}', 'text/plain')).toMatchObject({
      status: 415,
      error: { code: 'unsupported_media_type' },
    });
  });
});

describe('an unknown path', () => {
  it('gets an error in the envelope of the API it is under', async () => {
    const response = await gateway.send('GET', '');
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual({
      error: {
        type: 'invalid_request_error',
        code: 'not_found',
        param: null,
        message: 'There is no GET route at this path.',
      },
    });
    const other = await gateway.app.request('http://127.0.0.1:4100/nothing', {
      headers: { host: '127.0.0.1:4100' },
    });
    expect(await other.json()).toEqual({
      error: {
        code: 'not-found',
        message: 'There is no GET route at this path. /openapi.json lists all routes.',
      },
    });
  });
});

describe('the checks of the server', () => {
  it('apply to responses too: the token, and Host and Origin', async () => {
    const guarded = new Gateway({ hello: [{ text: 'Hello.' }] }, { token: 'letmein' });
    const ask = (headers: Record<string, string>) =>
      guarded.send('POST', '', { model: 'hello', input: 'x' }, headers);
    const nobody = await ask({});
    expect(nobody.status).toBe(401);
    expect(nobody.headers.get('www-authenticate')).toBe('Bearer');
    expect(await nobody.json()).toMatchObject({
      error: {
        type: 'authentication_error',
        code: 'unauthorized',
        param: null,
        message: expect.stringMatching(/Authorization: Bearer TOKEN(?!.*session)/),
      },
    });
    const token = { authorization: 'Bearer letmein' };
    expect((await ask(token)).status).toBe(200);
    expect((await ask({ ...token, host: 'evil.example' })).status).toBe(403);
    expect((await ask({ ...token, origin: 'http://evil.example' })).status).toBe(403);
    await guarded.close();
  });
});

describe('the model a request names', () => {
  it('is an alias or has a provider prefix; any other name goes to the provider of the environment', async () => {
    const script = gateway.folder.models.hello ?? '';
    const ours = new Gateway({ fast: [{ text: 'Fast.' }] }, { model: script });
    expect((await ours.create({ model: 'fast', input: 'x' })).output).toMatchObject([
      { content: [{ text: 'Fast.' }] },
    ]);
    const other = await ours.create({ model: 'gpt-of-tomorrow', input: 'x' });
    expect(other).toMatchObject({ model: 'gpt-of-tomorrow', output: [{ content: [{ text: 'Hello.' }] }] });
    expect((await ours.create({ input: 'x' })).output).toMatchObject([{ content: [{ text: 'Hello.' }] }]);
    await ours.close();
  });

  it('is refused when unknown or missing; the error lists the aliases', async () => {
    expect(await gateway.refused({ model: 'gpt-5', input: 'x' })).toMatchObject({
      status: 400,
      code: 'model_not_found',
      param: 'model',
      message: expect.stringMatching(/Its aliases are: hello\./),
    });
    expect(await gateway.refused({ input: 'x' })).toMatchObject({ code: 'missing_required_parameter' });
  });

  it('is never a file of this machine', async () => {
    const refused = await gateway.refused({ model: 'scripted:/etc/passwd', input: 'x' });
    expect(refused).toMatchObject({ code: 'model_not_found' });
    expect(refused.message).not.toContain('JSON');
  });

  it('yields a failed response and ends the run if its provider has no key', async () => {
    const before = process.env.GROQ_API_KEY;
    delete process.env.GROQ_API_KEY;
    const open = new Gateway({});
    const error = await open.refused({ model: 'groq:some-model', input: 'x', stream: true });
    if (before !== undefined) process.env.GROQ_API_KEY = before;
    expect(error).toMatchObject({ code: 'server_error', message: expect.stringContaining('See its log') });
    const [run] = (await open.store.list({})).runs;
    expect(run?.status).toBe('cancelled');
    expect(await open.get(`${run?.runId}`.replace('run_', 'resp_'))).toMatchObject({
      status: 'failed',
      error: { code: 'server_error' },
    });
    expect(open.log.join('\n')).toContain('GROQ_API_KEY');
    await open.close();
  });

  it('is refused with a provider prefix if the server has aliases', async () => {
    expect(await gateway.refused({ model: 'openai:gpt-5-mini', input: 'x' })).toMatchObject({
      status: 400,
      code: 'model_not_found',
      param: 'model',
    });
  });
});

it('a run that an agent of the same name started is not a response', async () => {
  const agent = createAgent({ name: 'responses', model: scripted([{ text: 'Hi.' }]), store: gateway.store });
  const run = await agent.start('x');
  await run.settled();
  expect((await gateway.send('GET', `/${run.id.replace('run_', 'resp_')}`)).status).toBe(404);
});

describe('a failure of the provider', () => {
  const failing = (error: ScriptedError): ScriptedTurn[] => [{ error }, { text: 'never' }];
  const scripts = {
    busy: failing({ code: 'rate-limit', status: 429, message: 'slow down', retryAfterMs: 1_500 }),
    down: failing({ code: 'server', status: 500, message: 'oops', retryAfterMs: 0 }),
    overloaded: failing({ code: 'overloaded', status: 503, message: 'full', retryAfterMs: 0 }),
    after: [calling('echo', { text: 'x' }), ...failing({ code: 'server', message: 'oops', retryAfterMs: 0 })],
    secret: failing({ code: 'authentication', status: 401, message: 'set X_KEY for http://10.0.0.1' }),
  };
  let own: Gateway;
  beforeAll(() => {
    const config = (folder: Folder) => ({
      mcp_servers: { desk: folder.server({ require_approval: 'never' }) },
    });
    own = new Gateway(scripts, { config, host: fastHost });
  });
  afterAll(() => own.close());
  const ask = async (model: string, more: object = {}) => {
    const { status, headers } = await own.send('POST', '', { model, input: 'x', ...more });
    return { status, retry: headers.get('x-should-retry'), after: headers.get('retry-after') };
  };

  it.each([
    { model: 'busy', status: 429, after: '2' },
    { model: 'down', status: 503, after: '1' },
    { model: 'overloaded', status: 503, after: '1' },
  ])('before any output can be retried: $model', async ({ model, status, after }) => {
    expect(await ask(model)).toEqual({ status, retry: null, after: expect.any(String) });
    expect(Number((await ask(model)).after)).toBeGreaterThanOrEqual(Number(after));
  });

  it('after a tool ran cannot be retried, because the tool would run again', async () => {
    expect(await ask('after', { tools: [MCP] })).toEqual({ status: 502, retry: 'false', after: null });
  });

  it('that the operator has to fix is in the log, not in the response', async () => {
    const response = await own.send('POST', '', { model: 'secret', input: 'x' });
    const text = await response.text();
    expect(text).not.toMatch(/X_KEY|10\.0\.0\.1/);
    expect(text).toContain('authentication');
    await expect.poll(() => own.log.join('\n')).toContain('set X_KEY for http://10.0.0.1');
  });
});
