import { describe, expect, it } from 'vitest';
import type { AuthorizedCaller } from '../../access/caller.ts';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../agent/index.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { createChatHandler } from '../../fronts/ai-sdk-ui/index.ts';
import { memory } from '../../stores/memory.ts';
import { calls, makeGate, makeTool } from '../support/engine/agents.ts';
import { a2aServer } from '../support/fronts/a2a.ts';
import { answeredMessage, userMessage } from '../support/fronts/ai-sdk-ui/chat-messages.ts';
import { closeAfterTests } from '../support/fronts/close-after-tests.ts';
import { DONE, makeDesk, mcpServer, REFUND } from '../support/fronts/mcp.ts';
import { until } from '../support/server/runs-app.ts';

const SECRET = 'the diagnosis of a patient';
const CHAT = 'case-1';

/** A tenant is known by its labels alone: both use the same name of a chat, and ids that they should not know. */
const TENANTS: Readonly<Record<'a' | 'b', AuthorizedCaller>> = {
  a: { name: 'ann', role: 'operator', labels: { tenant: 'a' } },
  b: { name: 'bert', role: 'operator', labels: { tenant: 'b' } },
};
const TOKENS = {
  ann: { token: 'the-token-of-tenant-a-00', role: 'operator', labels: { tenant: 'a' } },
  bert: { token: 'the-token-of-tenant-b-00', role: 'operator', labels: { tenant: 'b' } },
} as const;
type Tenant = keyof typeof TENANTS;

const authorize = (request: Request) => TENANTS[request.headers.get('x-tenant') as Tenant] ?? null;
const used = closeAfterTests();

/** What a tenant can send to a front, about its own chat and with the ids of another's run. */
type Desk = {
  /** Begins the chat of a tenant, whose run then waits for an approval. */
  begin(tenant: Tenant, text: string): Promise<unknown>;
  /** Each returns the whole answer as text. `runId` is the other tenant's. */
  intrusions: Readonly<Record<string, (tenant: Tenant, runId: string) => Promise<string>>>;
};

const json = (tenant: Tenant, more: object = {}) => ({
  'content-type': 'application/json',
  'x-tenant': tenant,
  authorization: `Bearer ${tenant === 'a' ? TOKENS.ann.token : TOKENS.bert.token}`,
  ...more,
});

function chatDesk(agent: Agent): Desk {
  const handler = createChatHandler(agent, { authorize });
  const send = async (tenant: Tenant, method: string, path: string, body?: object) => {
    const init = { method, headers: json(tenant), ...(body && { body: JSON.stringify(body) }) };
    return await (await handler(new Request(`http://shop.example/api/chat${path}`, init))).text();
  };
  const post = (tenant: Tenant, body: object) =>
    send(tenant, 'POST', '', { id: CHAT, trigger: 'submit-message', ...body });
  return {
    begin: (tenant, text) => post(tenant, { messages: [userMessage(`u-${tenant}`, text)] }),
    intrusions: {
      'GET the messages': tenant => send(tenant, 'GET', `/${CHAT}`),
      'POST to stop': tenant => send(tenant, 'POST', `/${CHAT}/stop`),
      'POST an approval': (tenant, runId) =>
        post(tenant, {
          messages: [userMessage('u-a', 'go'), answeredMessage(runId, true)],
          messageId: `${runId}.1`,
        }),
      'POST a message': tenant => post(tenant, { messages: [userMessage('more', 'And now?')] }),
      'POST to replace a message': tenant =>
        post(tenant, { messages: [userMessage('u-a', 'Instead')], messageId: 'u-a' }),
      'POST to regenerate': tenant =>
        post(tenant, { messages: [userMessage('u-a', 'go')], trigger: 'regenerate-message' }),
    },
  };
}

function agUiDesk(agent: Agent): Desk {
  const handler = createAgUiHandler(agent, { authorize });
  const post = async (tenant: Tenant, body: object) => {
    const input = { threadId: CHAT, runId: 'r', messages: [], tools: [], context: [], state: {}, ...body };
    const init = { method: 'POST', headers: json(tenant), body: JSON.stringify(input) };
    return await (await handler(new Request('http://shop.example/agent', init))).text();
  };
  const resume = (interruptId: string) => [{ interruptId, status: 'resolved', payload: { approved: true } }];
  return {
    begin: (tenant, content) => post(tenant, { messages: [{ id: `u-${tenant}`, role: 'user', content }] }),
    intrusions: {
      'run to read the thread': tenant => post(tenant, {}),
      resume: (tenant, runId) => post(tenant, { resume: resume(`approval:${runId}:call_0_0`) }),
      'a message': tenant => post(tenant, { messages: [{ id: 'm', role: 'user', content: 'And now?' }] }),
    },
  };
}

function a2aDesk(agent: Agent): Desk {
  const server = used(a2aServer([agent], { tokens: TOKENS }));
  const send = async (tenant: Tenant, method: string, path: string, body?: object) => {
    const init = { method, headers: json(tenant), ...(body && { body: JSON.stringify(body) }) };
    return await (await server.send(`/a2a/desk/${path}`, init)).text();
  };
  const message = (tenant: Tenant, more: object) =>
    send(tenant, 'POST', 'message:send', {
      message: { messageId: 'm', role: 'ROLE_USER', ...more },
    });
  return {
    begin: (tenant, text) => message(tenant, { contextId: CHAT, parts: [{ text }] }),
    intrusions: {
      'get the task': (tenant, runId) => send(tenant, 'GET', `tasks/${runId}`),
      'list the tasks': tenant => send(tenant, 'GET', 'tasks?includeArtifacts=true'),
      'list the tasks of the context': tenant => send(tenant, 'GET', `tasks?contextId=${CHAT}`),
      'subscribe to the task': (tenant, runId) => send(tenant, 'POST', `tasks/${runId}:subscribe`, {}),
      'cancel the task': (tenant, runId) => send(tenant, 'POST', `tasks/${runId}:cancel`, {}),
      'approve in the task': (tenant, taskId) =>
        message(tenant, { taskId, contextId: CHAT, parts: [{ text: 'approve' }] }),
      'a message in the context': tenant =>
        message(tenant, { contextId: CHAT, parts: [{ text: 'And now?' }] }),
    },
  };
}

const VERSION = '2026-07-28';

type CurrentParams = { taskId?: string; name?: string; arguments?: object; inputResponses?: object };

function mcpDesk(agent: Agent): Desk {
  const server = used(mcpServer([agent], { tokens: TOKENS }));
  const post = async (tenant: Tenant, body: object, more: object) => {
    const headers = json(tenant, { accept: 'application/json, text/event-stream', ...more });
    return await server.send(server.url, { method: 'POST', headers, body: JSON.stringify(body) });
  };
  const current = async (tenant: Tenant, method: string, params: CurrentParams) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': VERSION,
      'io.modelcontextprotocol/clientInfo': { name: 'tenant', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {
        elicitation: { form: {} },
        extensions: { 'io.modelcontextprotocol/tasks': {} },
      },
    };
    const answer = await post(
      tenant,
      { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } },
      {
        'mcp-protocol-version': VERSION,
        'mcp-method': method,
        'mcp-name': params.name ?? params.taskId ?? '',
      },
    );
    return await answer.text();
  };
  const earlier = async (tenant: Tenant, method: string, taskId: string) => {
    const clientInfo = { name: 'tenant', version: '1' };
    const params = { protocolVersion: '2025-11-25', clientInfo, capabilities: {} };
    const begun = await post(tenant, { jsonrpc: '2.0', id: 1, method: 'initialize', params }, {});
    const session = {
      'mcp-session-id': begun.headers.get('mcp-session-id') ?? '',
      'mcp-protocol-version': '2025-11-25',
    };
    await begun.text();
    return await (await post(tenant, { jsonrpc: '2.0', id: 2, method, params: { taskId } }, session)).text();
  };
  return {
    begin: (tenant, input) => current(tenant, 'tools/call', { name: 'desk', arguments: { input } }),
    intrusions: {
      'tasks/get': (tenant, taskId) => current(tenant, 'tasks/get', { taskId }),
      'tasks/update': (tenant, taskId) => {
        const inputResponses = { call_0_0: { action: 'accept', content: {} } };
        return current(tenant, 'tasks/update', { taskId, inputResponses });
      },
      'tasks/cancel': (tenant, taskId) => current(tenant, 'tasks/cancel', { taskId }),
      'tasks/get of an earlier revision': (tenant, taskId) => earlier(tenant, 'tasks/get', taskId),
      'tasks/result of an earlier revision': (tenant, taskId) => earlier(tenant, 'tasks/result', taskId),
      'tasks/cancel of an earlier revision': (tenant, taskId) => earlier(tenant, 'tasks/cancel', taskId),
    },
  };
}

/** What stays open for the owner as long as the run waits, so that only a refusal ends it. */
const STAYS_OPEN = ['subscribe to the task', 'tasks/result of an earlier revision'];

const DESKS = { useChat: chatDesk, 'AG-UI': agUiDesk, A2A: a2aDesk, 'MCP tasks': mcpDesk };

/** The runs of a tenant, once they rest. */
async function runsOf({ store }: Agent, tenant: Tenant) {
  return await until(async () => {
    const { runs } = await store.list({ labels: { tenant } });
    return runs.some(({ status }) => status === 'running') ? undefined : runs;
  });
}

describe.each(Object.entries(DESKS))('over %s', (_, open) => {
  const names = Object.keys(open(makeDesk([])).intrusions);

  it.each(names)('a tenant neither reads nor changes a chat of another with: %s', async name => {
    const agent = makeDesk([REFUND, DONE]);
    const desk = open(agent);
    await desk.begin('a', SECRET);
    const before = await runsOf(agent, 'a');
    const [run] = before;
    expect([before.length, run?.status]).toEqual([1, 'waiting']);
    const runId = run?.runId ?? '';

    const answer = await desk.intrusions[name]?.('b', runId);

    expect(answer).not.toContain(SECRET);
    const journal = await agent.store.read(runId);
    expect(await runsOf(agent, 'a')).toEqual(before);
    expect(journal).toHaveLength(run?.seq ?? 0);
    for (const { labels, continues, forkOf } of await runsOf(agent, 'b'))
      expect([labels.tenant, continues, forkOf]).toEqual(['b', undefined, undefined]);
  });

  it.each(names.filter(name => !STAYS_OPEN.includes(name)))(
    'the owner of the chat reads or changes it with: %s',
    async name => {
      const agent = makeDesk([REFUND, DONE]);
      const desk = open(agent);
      await desk.begin('a', SECRET);
      const before = await runsOf(agent, 'a');
      const answer = await desk.intrusions[name]?.('a', before[0]?.runId ?? '');
      const hasRead = [SECRET, before[0]?.runId, 'call_0_0'].some(text => answer?.includes(text ?? SECRET));
      const hasChanged = JSON.stringify(await runsOf(agent, 'a')) !== JSON.stringify(before);
      expect(hasRead || hasChanged, answer).toBe(true);
    },
  );

  it('two tenants whose chats have the same id each have their own', async () => {
    const agent = makeDesk([REFUND, DONE]);
    const desk = open(agent);
    await desk.begin('a', SECRET);
    expect(await desk.begin('b', 'something else')).not.toContain(SECRET);
    const [ofA, ofB] = [await runsOf(agent, 'a'), await runsOf(agent, 'b')];
    expect([ofA.length, ofB.length]).toEqual([1, 1]);
    expect(ofA[0]?.thread).toBe(ofB[0]?.thread);
  });
});

it('a tenant neither resumes nor stops the running chat of another with useChat', async () => {
  const gate = makeGate();
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted([calls('wait'), { text: SECRET }]),
    tools: [makeTool('wait', { run: () => gate.promise.then(() => SECRET) })],
  });
  const handler = createChatHandler(agent, { authorize });
  const send = async (tenant: Tenant, method: string, path: string, body?: object) =>
    await handler(
      new Request(`http://shop.example/api/chat${path}`, {
        method,
        headers: json(tenant),
        ...(body && { body: JSON.stringify(body) }),
      }),
    );
  const messages = [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'go' }] }];
  const answer = await send('a', 'POST', '', { id: CHAT, trigger: 'submit-message', messages });
  expect((await send('b', 'GET', `/${CHAT}/stream`)).status).toBe(204);
  expect(await (await send('b', 'POST', `/${CHAT}/stop`)).json()).toEqual({ stopped: false });
  const resumed = await send('a', 'GET', `/${CHAT}/stream`);
  expect(resumed.status).toBe(200);
  gate.open();
  expect(await answer.text()).toContain(SECRET);
  expect(await resumed.text()).toContain(SECRET);
});
