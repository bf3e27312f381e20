import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { calling, Gateway, type Item, type Resource, typesOf } from '../../../support/responses/gateway.ts';
import { HttpMcpServer } from '../../../support/tools/http-mcp-server.ts';

const TOOL = { type: 'mcp', server_label: 'desk', require_approval: 'always' };
const ASK = { type: 'function', name: 'ask' };
const USER = { role: 'user', content: 'Say hi.' };
const say = (text: string) => ({ name: 'echo', arguments: { text } });
const SCRIPTS = {
  one: [calling('echo', { text: 'hi' }), { text: 'Said.' }, { text: 'Bye.' }],
  two: [{ toolCalls: [say('a'), say('b')] }, { text: 'Both said.' }],
  mixed: [{ toolCalls: [say('a'), { name: 'ask' }] }, { text: 'Said and asked.' }],
  again: [
    calling('echo', { text: 'a' }),
    calling('echo', { text: 'b' }),
    { text: 'Both.' },
    { text: 'Bye.' },
  ],
  talk: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }],
  late: [{ text: 'One.' }, calling('echo', { text: 'late' }), { text: 'Late.' }],
};

/** Two servers with the same tools. */
let here: HttpMcpServer;
let there: HttpMcpServer;
let gateway: Gateway;

beforeAll(async () => {
  here = await HttpMcpServer.start();
  there = await HttpMcpServer.start();
  gateway = new Gateway(SCRIPTS, {
    config: folder => ({
      mcp_servers: { desk: folder.server({ allowed_tools: ['echo', 'pid'] }) },
      allowed_server_urls: [here.url, there.url],
    }),
  });
});
afterAll(async () => {
  await gateway.close();
  await here.close();
  await there.close();
});

function answer(request: { id: string } | undefined, approve: boolean): JsonObject {
  return { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve };
}

function requestsIn({ output }: Resource): Item[] {
  return output.filter(({ type }) => type === 'mcp_approval_request');
}

async function ask(model = 'one', tools: object[] = [TOOL], more: object = {}) {
  const asked = await gateway.create({ model, input: [USER], tools, ...more });
  const [request] = requestsIn(asked);
  if (request === undefined) throw new Error('no approval request');
  return { asked, request };
}

function ran(): number {
  return gateway.folder.calls().length + here.ran.length + there.ran.length;
}

const at = ({ url }: HttpMcpServer) => ({ ...TOOL, server_label: 'own', server_url: url });

function keyOf({ id }: Resource): string {
  return id.slice('resp_'.length);
}

describe('an approval', () => {
  it.each<[string, JsonObject]>([
    ['other arguments', { arguments: '{"text":"ho"}' }],
    ['equal arguments in another spelling', { arguments: '{"text": "hi"}' }],
    ['another name', { name: 'pid' }],
    ['another server_label', { server_label: 'other' }],
    ['no server_label', { server_label: '' }],
  ])('is refused with its id if its request comes back with %s, and runs nothing', async (_, change) => {
    const { asked, request } = await ask();
    const before = ran();
    const changed = { ...request, ...change };
    for (const approve of [true, false]) {
      for (const input of [
        [USER, changed, answer(request, approve)],
        [USER, request, changed, answer(request, approve)],
        [USER, changed, { type: 'item_reference', id: request.id }, answer(request, approve)],
      ]) {
        const refused = await gateway.refused({ model: 'one', tools: [TOOL], input });
        expect(refused).toMatchObject({ status: 400, code: 'approval_request_changed', param: 'input' });
        expect(refused.message).toContain(request.id);
      }
      const continued = await gateway.refused({
        model: 'one',
        tools: [TOOL],
        previous_response_id: asked.id,
        input: [changed, answer(request, approve)],
      });
      expect(continued.code).toBe('approval_request_changed');
    }
    expect(ran()).toBe(before);
    const input = [USER, request, answer(request, true)];
    const done = await gateway.create({ model: 'one', tools: [TOOL], input });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
  });

  it('of a call to one URL does not run it on another URL under the same label', async () => {
    const { asked, request } = await ask('one', [at(here)]);
    const before = there.ran.length;
    const approve = { model: 'one', previous_response_id: asked.id, input: [answer(request, true)] };
    expect(await gateway.refused({ ...approve, tools: [at(there)] })).toMatchObject({
      status: 400,
      code: 'approval_continuation_invalid_tool',
      param: 'tools',
    });
    expect(there.ran).toHaveLength(before);
    const ranHere = here.ran.length;
    await gateway.create({ ...approve, tools: [at(here)] });
    expect(here.ran).toHaveLength(ranHere + 1);
  });

  it('of a call to one URL does not run it on the URL of a later request, not even from the server page', async () => {
    const { asked, request } = await ask('two', [at(here)]);
    const before = ran();
    const half = await gateway.create({
      model: 'two',
      tools: [at(there)],
      previous_response_id: asked.id,
      input: [answer(request, false)],
    });
    expect(typesOf(half.output)).toEqual(['mcp_approval_request']);
    expect(await gateway.tell(asked, 'approve', { callId: 'call_0_1' })).toBe(200);
    await expect.poll(async () => (await gateway.run(asked)).status).toBe('finished');
    expect(ran()).toBe(before);
    expect(JSON.stringify((await gateway.run(asked)).transcript)).toContain('different tool or MCP server');
  });

  it('of a call to one URL does not run it on another URL in a fork', async () => {
    const { asked } = await ask('mixed', [at(here), ASK]);
    const call = asked.output.find(({ type }) => type === 'function_call');
    const say = (output: string) => ({
      model: 'mixed',
      previous_response_id: asked.id,
      input: [{ type: 'function_call_output', call_id: call?.call_id, output }],
    });
    await gateway.create({ ...say('yes'), tools: [at(here), ASK] });
    const fork = await gateway.create({ ...say('no'), tools: [at(there), ASK] });
    expect(keyOf(fork)).not.toContain(keyOf(asked));
    const [request] = requestsIn(fork);
    const before = there.ran.length;
    const approve = { model: 'mixed', previous_response_id: fork.id, input: [answer(request, true)] };
    expect(await gateway.refused({ ...approve, tools: [at(there), ASK] })).toMatchObject({
      code: 'approval_continuation_invalid_tool',
    });
    const done = await gateway.create({ ...approve, tools: [at(here), ASK] });
    expect(done.output[0]).toMatchObject({ type: 'mcp_call', server_label: 'own', status: 'completed' });
    expect(there.ran).toHaveLength(before);
  });

  it('of a call to a configured server does not run it on another server that took its name', async () => {
    const gone = await HttpMcpServer.start();
    const { url } = gone;
    const servers = (desk: string) => ({
      mcp_servers: { desk: { url: desk }, vault: { url: there.url, hidden: true } },
    });
    const first = new Gateway(SCRIPTS, { config: () => servers(url) });
    const [asked, other] = await Promise.all(
      [1, 2].map(() => first.create({ model: 'one', input: [USER], tools: [TOOL] })),
    );
    if (asked === undefined || other === undefined) throw new Error('no approval request');
    await gone.close();
    const before = ran();
    const moved = new Gateway(SCRIPTS, { store: first.store, config: () => servers(here.url) });
    const refused = await moved.refused({
      model: 'one',
      tools: [TOOL],
      previous_response_id: asked.id,
      input: [answer(requestsIn(asked)[0], true)],
    });
    expect(refused.code).toBe('approval_continuation_invalid_tool');
    const bare = new Gateway(SCRIPTS, { store: first.store, config: () => servers(url) });
    for (const [server, response] of [
      [moved, asked],
      [bare, other],
    ] as const) {
      expect(await server.tell(response, 'approve', { callId: 'call_0_0' })).toBe(200);
      await expect.poll(async () => (await server.run(response)).status).toBe('finished');
    }
    expect(ran()).toBe(before);
    for (const one of [first, moved, bare]) await one.close();
  });

  it('of a call that needed no approval is an orphan', async () => {
    const free = { ...TOOL, require_approval: 'never' };
    const config = () => ({ mcp_servers: { desk: { url: here.url, require_approval: 'never' } } });
    const open = new Gateway(SCRIPTS, { config });
    const done = await open.create({ model: 'one', input: [USER], tools: [free] });
    expect(typesOf(done.output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
    const id = `mcpr_${keyOf(done)}_1_0`;
    for (const approve of [true, false]) {
      const refused = await open.refused({
        model: 'one',
        tools: [free],
        previous_response_id: done.id,
        input: [answer({ id }, approve)],
      });
      expect(refused.code).toBe('approval_continuation_invalid');
    }
    await open.close();
  });

  it('with an id that only resembles that of the request is an orphan', async () => {
    const { asked, request } = await ask();
    const key = keyOf(asked);
    for (const id of [
      `mcpr_${key}_01_0`,
      `mcpr_${key}_1_00`,
      `mcpr_${key}_1_1`,
      `mcpr_${key}_2_0`,
      ` ${request.id}`,
    ]) {
      const refused = await gateway.refused({
        model: 'one',
        tools: [TOOL],
        previous_response_id: asked.id,
        input: [answer({ id }, true)],
      });
      expect(refused.code).toBe('approval_continuation_invalid');
    }
  });

  it('outside its conversation, which asks again, leaves the conversation usable', async () => {
    const { id: conversation } = await gateway.client().conversations.create();
    const inIt = { model: 'again', tools: [TOOL], conversation };
    const asked = await gateway.create({ ...inIt, input: [USER] });
    const [request] = requestsIn(asked);
    const outside = { model: 'again', tools: [TOOL], previous_response_id: asked.id };
    const again = await gateway.create({ ...outside, input: [answer(request, true)] });
    expect(requestsIn(again)).toHaveLength(1);
    for (const input of ['Never mind.', 'And now?', 'Bye.'])
      expect((await gateway.create({ ...inIt, input })).status).toBe('completed');
  });

  it('after a response of another conversation is an orphan, even with its request', async () => {
    const { request } = await ask();
    const other = await gateway.create({ model: 'talk', input: 'a' });
    const behind = { model: 'one', tools: [TOOL], previous_response_id: other.id };
    for (const input of [[answer(request, true)], [request, answer(request, true)]]) {
      const refused = await gateway.refused({ ...behind, input });
      expect(refused.code).toBe('approval_continuation_invalid');
    }
  });

  it('after the response before the request works if the client sends the request back, stored or not', async () => {
    const first = await gateway.create({ model: 'one', input: [USER], tools: [ASK] });
    for (const store of [true, false]) {
      const common = { model: 'one', tools: [TOOL], store };
      const start = await gateway.create({ ...common, store: true, model: 'talk', input: 'a' });
      const asked = await gateway.create({
        ...common,
        model: 'late',
        previous_response_id: start.id,
        input: [USER],
      });
      const [request] = requestsIn(asked);
      const before = ran();
      const decision = { ...common, model: 'late', input: [USER, request, answer(request, true)] };
      const elsewhere = await gateway.refused({ ...decision, previous_response_id: first.id });
      expect(elsewhere.code).toBe('approval_continuation_invalid');
      const done = await gateway.create({ ...decision, previous_response_id: start.id });
      expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
      expect(ran()).toBe(before + 1);
    }
  });

  it('in racing requests, after the response and with the request sent back, runs the call once', async () => {
    const { asked, request } = await ask();
    const before = ran();
    const common = { model: 'one', tools: [TOOL] };
    const bodies = [
      { ...common, previous_response_id: asked.id, input: [answer(request, true)] },
      { ...common, input: [USER, request, answer(request, true)] },
      { ...common, input: [USER, request, answer(request, true), answer(request, false)] },
    ];
    const done = await Promise.all(bodies.map(body => gateway.create(body)));
    expect(new Set(done.map(({ id }) => id)).size).toBe(1);
    expect(ran()).toBe(before + 1);
  });

  it('that races with the deletion of its response either runs the call first or is an orphan', async () => {
    const { asked, request } = await ask();
    const before = ran();
    const approve = gateway.refused({
      model: 'one',
      tools: [TOOL],
      previous_response_id: asked.id,
      input: [answer(request, true)],
    });
    const [, refused] = await Promise.all([gateway.send('DELETE', `/${asked.id}`), approve]);
    if (refused.status === 200) expect(ran()).toBe(before + 1);
    else expect([refused.code, ran()]).toEqual(['previous_response_not_found', before]);
  });
});
