import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { tool } from '../../../agent/index.ts';
import { makeToolset } from '../../../server/gateway/agents/toolset.ts';
import {
  calling,
  endOf,
  Gateway,
  type Page,
  type Resource,
  runOf,
  typesOf,
} from '../../support/responses/gateway.ts';
import { until } from '../../support/server/runs-app.ts';
import { HttpMcpServer } from '../../support/tools/http-mcp-server.ts';

const DESK = { type: 'mcp', server_label: 'desk', require_approval: 'never' };
const ASK = { type: 'function', name: 'ask' };
const USER = { role: 'user', content: 'And now?' };
/** The label and tools of the hidden server, their arguments and their results. */
const HIDDEN = /vault|pid|structured|grain|total|die/;

let gateway: Gateway;
let elsewhere: HttpMcpServer;

beforeAll(async () => {
  elsewhere = await HttpMcpServer.start();
  gateway = new Gateway(
    {
      quiet: [calling('structured', { grain: 'fine' }), { text: 'Done.' }, { text: 'More.' }],
      lost: [calling('no_such_tool'), { text: 'No such.' }],
      talk: [{ text: 'One.' }, { text: 'Two.' }],
      refused: [{ error: { code: 'invalid-request', message: "Invalid schema for function 'pid'" } }],
      doubtful: [{ toolCalls: [{ name: 'die' }, { name: 'ask' }] }, { text: 'It is over.' }],
    },
    {
      config: folder => ({
        mcp_servers: {
          vault: folder.server({ hidden: true, allowed_tools: ['pid', 'structured', 'die'] }),
          desk: folder.server({ require_approval: 'never', allowed_tools: ['die', 'echo'] }),
        },
        allowed_server_urls: [elsewhere.url],
      }),
    },
  );
});
afterAll(async () => {
  await gateway.close();
  await elsewhere.close();
});

function itemOf({ id }: Resource, kind: string, turn = 1, place = 0): string {
  return `${kind}_${id.slice('resp_'.length)}_${turn}_${place}`;
}

function refer(id: string) {
  return { type: 'item_reference', id };
}

describe('the id of a hidden call', () => {
  it.each(['mcp', 'mcpr', 'fc', 'mcpl'])(
    'is unknown as %s_…, like the id of a call that does not exist',
    async kind => {
      const one = await gateway.create({ model: 'quiet', input: 'go' });
      const ask = async (id: string, more: object = {}) => {
        const refused = await gateway.refused({ model: 'talk', input: [refer(id), USER], ...more });
        return { ...refused, message: refused.message.replace(id, 'ID') };
      };
      const none = await ask(itemOf(one, kind, 1, 7));
      expect(none).toMatchObject({
        status: 400,
        code: 'item_not_found',
        message: "Item with id 'ID' not found.",
      });
      expect(await ask(itemOf(one, kind))).toEqual(none);
      expect(await ask(itemOf(one, kind), { previous_response_id: one.id })).toEqual(none);
    },
  );

  it('adds nothing of the call to an item that a client sends back under it', async () => {
    const one = await gateway.create({ model: 'quiet', input: 'go' });
    for (const made of [
      { type: 'mcp_call', server_label: 'x', name: 'x', arguments: '{}', output: 'y' },
      { type: 'mcp_call', server_label: 'x', name: 'x', arguments: '{}', error: 'y' },
    ]) {
      const two = await gateway.create({
        model: 'talk',
        input: [USER, { ...made, id: itemOf(one, 'mcp') }, USER],
      });
      const listed = await gateway.read<Page>(`/${two.id}/input_items`);
      expect(listed.data).toHaveLength(4);
      expect(JSON.stringify(listed)).not.toMatch(HIDDEN);
    }
  });

  it('is not the id of an approval request: it can be neither approved nor denied', async () => {
    const one = await gateway.create({ model: 'quiet', input: 'go' });
    const id = itemOf(one, 'mcpr');
    const request = { type: 'mcp_approval_request', id, server_label: 'vault', name: 'structured' };
    for (const approve of [true, false]) {
      const decision = { type: 'mcp_approval_response', approval_request_id: id, approve };
      for (const body of [
        { previous_response_id: one.id, input: [decision] },
        { input: [USER, { ...request, arguments: '{"grain":"fine"}' }, decision] },
      ]) {
        const refused = await gateway.refused({ model: 'quiet', ...body });
        expect(refused).toMatchObject({ status: 400, code: 'approval_continuation_invalid' });
        expect(refused.message.replace(id, '')).not.toMatch(HIDDEN);
      }
    }
  });
});

it('the id of a call of an unknown tool is unknown, because its result names the available tools', async () => {
  const one = await gateway.create({ model: 'lost', input: 'go' });
  const [, , , , result] = await gateway.store.read(runOf(one));
  expect(JSON.stringify(await gateway.store.read(runOf(one)))).toContain(
    'The tools are: die, pid, structured',
  );
  expect(result).toBeDefined();
  const refused = await gateway.refused({ model: 'talk', input: [refer(itemOf(one, 'mcp')), USER] });
  expect(refused.code).toBe('item_not_found');
});

describe('a tool choice', () => {
  const choose = (choice: object, tools: object[] = [ASK]) =>
    gateway.refused({ model: 'quiet', input: 'go', tools, tool_choice: choice });

  it.each(['custom', 'tool', 'Function', 'hosted'])(
    'does not allow a hidden tool by name with type %s',
    async type => {
      const allow = (name: string) =>
        choose({ type: 'allowed_tools', mode: 'required', tools: [{ type, name }] });
      const refused = await allow('pid');
      const code = type === 'custom' ? 'tool_choice_function_not_found' : 'invalid_value';
      expect(refused).toMatchObject({ status: 400, param: 'tool_choice', code });
      const unknown = await allow('other');
      expect({ ...unknown, message: unknown.message.replace('other', 'pid') }).toEqual(refused);
    },
  );

  it('does not force a hidden tool as function, custom or mcp tool', async () => {
    for (const type of ['function', 'custom', 'mcp']) {
      const force = (name: string) =>
        choose({ type, name, server_label: name === 'pid' ? 'vault' : 'nosuch' });
      const refused = await force('pid');
      const unknown = await force('other');
      expect(refused.status).toBe(400);
      expect({ ...refused, message: '' }).toEqual({ ...unknown, message: '' });
    }
  });

  it("does not reach a hidden server under the label of the request's own server", async () => {
    const own = { type: 'mcp', server_label: 'vault', server_url: elsewhere.url, require_approval: 'never' };
    for (const tool_choice of [
      { type: 'mcp', server_label: 'vault', name: 'structured' },
      { type: 'allowed_tools', mode: 'required', tools: [{ type: 'mcp', server_label: 'vault' }] },
    ]) {
      const response = await gateway.create({ model: 'quiet', input: 'go', tools: [own], tool_choice });
      const [asked] = await gateway.store.read(runOf(response));
      expect(asked?.event).toMatchObject({ type: 'run.started' });
      const journal = await gateway.store.read(runOf(response));
      const called = journal.flatMap(({ event }) => (event.type === 'turn.completed' ? event.calls : []));
      expect(called).toMatchObject([{ name: 'structured', error: expect.stringContaining('no tool') }]);
    }
  });
});

it('the error text of a provider is not shown if the request had hidden tools: it may quote them', async () => {
  const streamed = await gateway.refused({ model: 'refused', input: 'go', stream: true });
  const message = expect.stringContaining('invalid-request');
  expect(streamed).toMatchObject({ status: 400, code: 'invalid_prompt', message });
  const [run] = (await gateway.store.list({ limit: 1 })).runs;
  const response = await gateway.get(`${run?.runId}`.replace('run_', 'resp_'));
  expect(response).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt', message } });
  const whole = await gateway.refused({ model: 'refused', input: 'go' });
  expect(whole).toMatchObject({ status: 400, code: 'invalid_prompt' });
  expect(JSON.stringify([streamed, response, whole])).not.toMatch(HIDDEN);
  expect(JSON.stringify(await gateway.store.read(runOf(response)))).toContain("function 'pid'");
});

it('a hidden call that runs again later is not shown as a call of a visible server with the same tool', async () => {
  const events = await gateway.stream({ model: 'doubtful', input: 'go', tools: [ASK] });
  const failed = endOf(events);
  const before = gateway.folder.calls().length;
  const resolve = (resolution: object) =>
    gateway.tell(failed, 'resolve', { callId: 'call_0_0', ...resolution });
  expect(await resolve({ retry: true })).toBe(200);
  await expect.poll(() => gateway.folder.calls().length).toBe(before + 1);
  await expect.poll(() => resolve({ failed: 'it did not happen' })).toBe(200);
  const asked = failed.output.find(({ type }) => type === 'function_call');
  const done = await gateway.create({
    model: 'doubtful',
    tools: [ASK, DESK],
    previous_response_id: failed.id,
    input: [{ type: 'function_call_output', call_id: asked?.call_id ?? 'call_0_1', output: 'yes' }],
  });
  expect(typesOf(done.output)).toEqual(['message']);
});

it('a hidden tool never has the name that a renamed visible tool has', () => {
  const own = (label: string, name: string) => ({
    ...tool({ name, description: '', input: z.object({}), run: () => '' }),
    origin: { label, tool: { name, inputSchema: {} } },
  });
  const server = (label: string, name: string, hidden = false) => ({
    label,
    hidden,
    target: label,
    config: undefined,
    asked: undefined,
    tools: [own(label, name)],
  });
  const { tools, exposed } = makeToolset([], {
    servers: [server('vault', 'mcp_a_echo', true), server('a', 'echo'), server('b', 'echo')],
  });
  const names = tools.map(({ name }) => name);
  expect(new Set(names).size).toBe(3);
  expect(exposed.mcp_a_echo).toMatchObject({ label: 'a', name: 'echo' });
});

describe('the tools of a server', () => {
  it.each([true, false])(
    'are those that it has now, for requests after it has told of a change (hidden: %s)',
    async hidden => {
      let late = false;
      const server = await HttpMcpServer.start({
        serves: 'current',
        add: made => {
          if (late) made.registerTool('late', {}, () => ({ content: [] }));
        },
      });
      const changing = new Gateway(
        { talk: [{ text: 'Yes.' }] },
        { config: () => ({ mcp_servers: { vault: { url: server.url, hidden } } }) },
      );
      const vault = { type: 'mcp', server_label: 'vault', require_approval: 'never' };
      const toolsOf = async () => {
        const response = await changing.create({
          model: 'talk',
          input: 'go',
          ...(!hidden && { tools: [vault] }),
        });
        const [{ event } = { event: undefined }] = await changing.store.read(runOf(response));
        return event?.type === 'run.started' ? event.tools?.map(({ name }) => name) : undefined;
      };
      expect(await toolsOf()).toEqual(['echo', 'fail', 'hold', 'hold_again']);
      await until(() => server.answered.has('subscriptions/listen') || undefined);
      late = true;
      server.tellToolsChanged();
      await until(async () => (await toolsOf())?.includes('late') || undefined);
      await changing.close();
      await server.close();
    },
  );
});
