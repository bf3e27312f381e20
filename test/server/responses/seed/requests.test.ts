/**
 * The invariants of requests and errors, of the gateway that this one was built after. A title that begins with
 * "differs" names a deliberate difference.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import type { Store } from '../../../../protocol/store.ts';
import { memory } from '../../../../stores/memory.ts';
import { watchStore } from '../../../support/engine/watched-store.ts';
import { endOf, Gateway, typesOf } from '../../../support/responses/gateway.ts';
import { ASK, ECHO, ObedientGateway, server } from '../../../support/responses/obedient-gateway.ts';
import { HttpMcpServer } from '../../../support/tools/http-mcp-server.ts';

let gateway: ObedientGateway;
beforeAll(async () => {
  gateway = await ObedientGateway.start(folder => ({
    desk: folder.server(),
    broken: { url: 'http://127.0.0.1:9/mcp' },
  }));
});
afterAll(() => gateway.close());

const model = 'obedient';
const desk = server('desk', { require_approval: 'never' });

function faultyStore(message: string): Store {
  return watchStore(memory(), {
    before: method => {
      if (method === 'create') throw new Error(message);
    },
  });
}

describe('a server', () => {
  it('that cannot be reached is no error: its list is empty and says so', async () => {
    const { status, output } = await gateway.create({ model, input: 'hello', tools: [server('broken')] });
    expect(status).toBe('completed');
    expect(output).toMatchObject([
      { type: 'mcp_list_tools', tools: [], error: expect.any(String) },
      { type: 'message' },
    ]);
  });

  it('that cannot be reached refuses an approval of its call, which can be approved once it is there', async () => {
    const shop = await HttpMcpServer.start();
    const own = await ObedientGateway.start(() => ({}), { allowed_server_urls: [shop.url] });
    const tools = [server('shop', { server_url: shop.url, require_approval: 'always' })];
    const asked = await own.create({ model, input: ECHO, tools });
    shop.instead = () => new Response('down for repair', { status: 503 });
    const approval_request_id = asked.output.at(-1)?.id;
    const input = [{ type: 'mcp_approval_response', approval_request_id, approve: true }];
    const body = { model, tools, previous_response_id: asked.id, input };
    expect(await own.refused(body)).toMatchObject({
      status: 400,
      code: 'approval_continuation_invalid_tool',
      message: expect.stringContaining('cannot be reached'),
    });
    shop.instead = undefined;
    expect(typesOf((await own.create(body)).output)).toEqual(['mcp_call', 'message']);
    expect(shop.ran).toEqual(['echo']);
    await own.close();
    await shop.close();
  });

  it.each(['ftp://example.com/mcp', 'file:///etc/passwd', 'http://169.254.169.254/mcp', 'nonsense'])(
    'differs: %s is refused before anything runs unless the operator allowed it, so that no request reaches inner hosts',
    async server_url => {
      const tools = [server('other', { server_url })];
      const sent = await gateway.sentDuring(async () => {
        expect(await gateway.refused({ model, input: 'hello', tools })).toMatchObject({
          status: 400,
          code: 'mcp_server_url_not_allowed',
          param: 'tools[0].server_url',
        });
      });
      expect(sent).toEqual([]);
    },
  );

  it.each<[string, JsonObject[], string]>([
    ['without a label', [{ type: 'mcp' }], 'missing_required_parameter'],
    ['with a label that is not a name', [server('1 desk')], 'invalid_server_label'],
    [
      'with the label of another, in other letters',
      [desk, server('DESK')],
      'mcp_tool_duplicate_server_label',
    ],
    [
      'with a URL and a connector',
      [server('x', { server_url: 'https://example.com/mcp', connector_id: 'c' })],
      'mcp_tool_conflicting_targets',
    ],
  ])('%s is refused', async (_, tools, code) => {
    expect(await gateway.refused({ model, input: 'hello', tools })).toMatchObject({ status: 400, code });
  });
});

describe('a request', () => {
  it.each<[string, object, string]>([
    ['with an empty text', { input: '' }, 'input_text_empty'],
    ['without items', { input: [] }, 'input_items_empty'],
    ['with an empty message', { input: [{ role: 'user', content: [] }] }, 'message_content_empty'],
    [
      'that forces a tool without tools',
      { input: 'hi', tool_choice: 'required' },
      'tool_choice_requires_tools',
    ],
    [
      'that forces a function it does not declare',
      { input: 'hi', tools: [ASK], tool_choice: { type: 'function', name: 'other' } },
      'tool_choice_function_not_found',
    ],
  ])('%s is refused', async (_, body, code) => {
    expect(await gateway.refused({ model, ...body })).toMatchObject({ status: 400, code });
  });

  it('differs: of function outputs alone is accepted, because clients send it', async () => {
    const asked = await gateway.create({ model, input: 'ask with the arguments {}', tools: [ASK] });
    const input = [{ type: 'function_call_output', call_id: asked.output[0]?.call_id, output: 'x' }];
    const done = await gateway.create({ model, input, tools: [ASK], previous_response_id: asked.id });
    expect(typesOf(done.output)).toEqual(['message']);
  });

  it('differs: may have background and stream, as at OpenAI: its events follow, and it continues without them', async () => {
    const events = await gateway.stream({ model, input: 'hello', background: true });
    expect(endOf(events)).toMatchObject({ status: 'completed', background: true });
    const answer = await gateway.send('POST', '', { model, input: 'hello', background: true, stream: true });
    const [first] = new TextDecoder().decode((await answer.body?.getReader().read())?.value).split('\n\n');
    const { id } = JSON.parse(first?.split('data: ')[1] ?? '').response;
    await expect.poll(async () => (await gateway.get(id)).status).toBe('completed');
  });

  it.each([[[]], [['message.output_text.logprobs']]])(
    'differs: with top_logprobs and include %j is refused, because no model here gives log probabilities',
    async include => {
      const refused = await gateway.refused({ model, input: 'hello', top_logprobs: 2, include });
      expect(refused).toMatchObject({ status: 400, code: 'unsupported_parameter' });
    },
  );

  it.each([
    ['GET', ''],
    ['DELETE', ''],
    ['GET', '/input_items'],
    ['POST', '/cancel'],
  ])('for a response that does not exist is a 404: %s %s', async (method, path) => {
    const answer = await gateway.send(method, `/resp_none${path}`);
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({
      error: { type: 'invalid_request_error', code: 'response_not_found' },
    });
  });

  it.each([
    [
      'the provider fails',
      502,
      'server_error',
      [{ error: { code: 'server', message: 'oops', retryable: false } }],
    ],
    [
      'the provider refuses it',
      400,
      'invalid_prompt',
      [{ error: { code: 'invalid-request', message: 'bad' } }],
    ],
    [
      'the conversation is too long',
      400,
      'context_length_exceeded',
      [{ error: { code: 'context-too-long', message: 'too long' } }],
    ],
  ] as const)('is answered with the status of its failure: %s, %i', async (_, status, code, turns) => {
    const other = new Gateway({ failing: [...turns] });
    expect(await other.refused({ model: 'failing', input: 'hello' })).toMatchObject({ status, code });
    await other.close();
  });

  it('that this server fails to answer is a 500 without the reason, which is in the log', async () => {
    const broken = new Gateway(
      { any: [{ text: 'x' }] },
      { store: faultyStore('disk at /var/runs.db is gone') },
    );
    const refused = await broken.refused({ model: 'any', input: 'hello' });
    expect(refused).toMatchObject({ status: 500, type: 'server_error' });
    expect(refused.message).not.toContain('/var');
    expect(broken.log.join()).toContain('/var/runs.db');
    await broken.close();
  });

  it('that fails has an error with message, type, code and param', async () => {
    const refused = await gateway.send('GET', '/resp_none');
    expect(refused.status).toBe(404);
    expect(Object.keys(((await refused.json()) as { error: JsonObject }).error).sort()).toEqual([
      'code',
      'message',
      'param',
      'type',
    ]);
  });
});
