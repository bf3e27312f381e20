import { describe, expect, test } from 'vitest';
import { may, mayCommand, type Right, ROLES, type Role } from '../../access/role.ts';
import type { Agent } from '../../agent/index.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { createChatHandler } from '../../fronts/ai-sdk-ui/index.ts';
import type { Item } from '../../protocol/item.ts';
import { a2aServer } from '../support/fronts/a2a.ts';
import { answeredMessage, userMessage } from '../support/fronts/ai-sdk-ui/chat-messages.ts';
import { closeAfterTests } from '../support/fronts/close-after-tests.ts';
import { DONE, makeDesk, mcpServer, REFUND } from '../support/fronts/mcp.ts';
import { until } from '../support/server/runs-app.ts';

const used = closeAfterTests();
const tokenOf = (role: Role) => `the-token-of-the-${role}`;
const tokens = Object.fromEntries(
  ROLES.map(role => [
    `the-${role}`,
    { token: tokenOf(role), name: `the ${role}`, role, labels: { tenant: 'a' } },
  ]),
);
const authorize = (request: Request) => {
  const role = ROLES.find(each => request.headers.get('authorization') === `Bearer ${tokenOf(each)}`);
  return role === undefined ? null : { name: `the ${role}`, role, labels: { tenant: 'a' } };
};

/** Sends a request to a front, for a chat `c` whose run `runId` waits for an approval. */
type Send = (role: Role, request: { runId: string }) => Promise<Response>;
type Front = (agent: Agent) => Readonly<Record<string, { send: Send; roles: readonly Role[] }>>;

/** The roles come from the one table. */
const withRight = (right: Right) => ROLES.filter(role => may({ role }, right));
const READERS = withRight('read');
const DECIDERS = withRight('decide');
const SENDERS = withRight('send');
const STARTERS = withRight('start');
const OPERATORS = withRight('command');

const init = (role: Role, method: string, body?: object, more: Record<string, string> = {}) => ({
  method,
  headers: { 'content-type': 'application/json', authorization: `Bearer ${tokenOf(role)}`, ...more },
  ...(body && { body: JSON.stringify(body) }),
});

const useChat: Front = agent => {
  const handler = createChatHandler(agent, { authorize });
  const send = (role: Role, method: string, path: string, body?: object) =>
    handler(new Request(`http://shop.example/api/chat${path}`, init(role, method, body)));
  const user = (id: string) => userMessage(id, 'go');
  const post = (role: Role, body: object) =>
    send(role, 'POST', '', { id: 'c', trigger: 'submit-message', ...body });
  return {
    'read the messages': { send: role => send(role, 'GET', '/c'), roles: READERS },
    resume: { send: role => send(role, 'GET', '/c/stream'), roles: READERS },
    decide: {
      send: (role, { runId }) =>
        post(role, { messages: [user('u'), answeredMessage(runId, false)], messageId: `${runId}.1` }),
      // A page repeats decisions that others made: those of who may not decide are left out.
      roles: ROLES.filter(role => may({ role }, 'decide') || may({ role }, 'result')),
    },
    'send a message': { send: role => post(role, { messages: [user('v')] }), roles: SENDERS },
    'begin a chat': { send: role => post(role, { id: 'new', messages: [user('u')] }), roles: STARTERS },
    'replace a message': {
      send: role => post(role, { messages: [user('u')], messageId: 'u' }),
      roles: OPERATORS,
    },
    regenerate: {
      send: role => post(role, { messages: [user('u')], trigger: 'regenerate-message' }),
      roles: OPERATORS,
    },
    'decide in a request that sends a message too': {
      send: (role, { runId }) =>
        post(role, { messages: [user('u'), answeredMessage(runId, false), user('v')] }),
      roles: SENDERS,
    },
    stop: { send: role => send(role, 'POST', '/c/stop'), roles: OPERATORS },
  };
};

/** AG-UI refuses within its stream what it knows only after it has read the thread. */
const agUi: Front = agent => {
  const handler = createAgUiHandler(agent, { authorize });
  const post = async (role: Role, body: object) => {
    const input = { threadId: 'c', runId: 'r', messages: [], ...body };
    const response = await handler(new Request('http://shop.example/agent', init(role, 'POST', input)));
    const text = await response.text();
    return text.includes('"RUN_ERROR"') && text.includes('"forbidden"')
      ? new Response(null, { status: 403 })
      : new Response(text, response);
  };
  const resume = (runId: string) => [
    { interruptId: `approval:${runId}:call_0_0`, status: 'resolved', payload: { approved: false } },
  ];
  const user = { id: 'v', role: 'user', content: 'go' };
  return {
    'read the thread': { send: role => post(role, {}), roles: READERS },
    resume: { send: (role, { runId }) => post(role, { resume: resume(runId) }), roles: DECIDERS },
    'send a message': { send: role => post(role, { messages: [user] }), roles: SENDERS },
    'resume and send a message': {
      send: (role, { runId }) => post(role, { resume: resume(runId), messages: [user] }),
      roles: OPERATORS,
    },
    'begin a thread': { send: role => post(role, { threadId: 'new', messages: [user] }), roles: STARTERS },
  };
};

const a2a: Front = agent => {
  const server = used(a2aServer([agent], { tokens }));
  const send = (role: Role, method: string, path: string, body?: object) =>
    server.send(`/a2a/desk${path}`, init(role, method, body));
  const message = (role: Role, more: object) =>
    send(role, 'POST', '/message:send', {
      configuration: { returnImmediately: true },
      message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'reject' }], ...more },
    });
  const rpc = (role: Role, method: string, params: object) =>
    send(role, 'POST', '', { jsonrpc: '2.0', id: 1, method, params });
  return {
    'read the card': { send: role => send(role, 'GET', '/.well-known/agent-card.json'), roles: READERS },
    'get the task': { send: (role, { runId }) => send(role, 'GET', `/tasks/${runId}`), roles: READERS },
    'list the tasks': { send: role => send(role, 'GET', '/tasks'), roles: READERS },
    'decide in the task': { send: (role, { runId }) => message(role, { taskId: runId }), roles: DECIDERS },
    'write in the task': {
      send: (role, { runId }) => message(role, { taskId: runId, parts: [{ text: 'please' }] }),
      roles: SENDERS,
    },
    'begin a task': { send: role => message(role, {}), roles: STARTERS },
    'cancel the task': {
      send: (role, { runId }) => send(role, 'POST', `/tasks/${runId}:cancel`, {}),
      roles: OPERATORS,
    },
    'get the task as JSON-RPC': {
      send: (role, { runId: id }) => rpc(role, 'GetTask', { id }),
      roles: READERS,
    },
    'cancel the task as JSON-RPC': {
      send: (role, { runId: id }) => rpc(role, 'CancelTask', { id }),
      roles: OPERATORS,
    },
  };
};

const mcp: Front = agent => {
  const server = used(mcpServer([agent], { tokens }));
  const call = (
    role: Role,
    method: string,
    params: { name?: string; taskId?: string; arguments?: object },
  ) => {
    const version = '2026-07-28';
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': version,
      'io.modelcontextprotocol/clientInfo': { name: 'c', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } },
    };
    const body = { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } };
    const headers = {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': version,
      'mcp-method': method,
      'mcp-name': params.name ?? params.taskId ?? '',
    };
    return server.send(server.url, init(role, 'POST', body, headers));
  };
  return {
    'list the tools': { send: role => call(role, 'tools/list', {}), roles: OPERATORS },
    'call the tool': {
      send: role => call(role, 'tools/call', { name: 'desk', arguments: { input: 'go' } }),
      roles: OPERATORS,
    },
    'get a task': { send: (role, { runId }) => call(role, 'tasks/get', { taskId: runId }), roles: OPERATORS },
    'cancel a task': {
      send: (role, { runId }) => call(role, 'tasks/cancel', { taskId: runId }),
      roles: OPERATORS,
    },
  };
};

const FRONTS = { useChat, 'AG-UI': agUi, A2A: a2a, MCP: mcp };

const cases = Object.entries(FRONTS).flatMap(([name, front]) =>
  Object.entries(front(makeDesk([]))).flatMap(([what, { roles }]) =>
    ROLES.map(role => ({
      name,
      what,
      role,
      front,
      verb: roles.some(each => each === role) ? 'may' : 'may not',
    })),
  ),
);

test.each(cases)('over $name, the $role $verb $what', async ({ front, what, role, verb }) => {
  const agent = makeDesk([REFUND, DONE]);
  const input: Item[] = [{ type: 'message', role: 'user', id: 'u', content: [{ type: 'text', text: 'go' }] }];
  const labels = { tenant: 'a', requester: 'the requester' };
  const run = await agent.start(input, { labels, thread: 'c' });
  await run.settled();
  const before = await agent.store.list();
  const response = await front(agent)[what]?.send(role, { runId: run.id });
  if (verb === 'may') expect([200, 204]).toContain(response?.status);
  else expect(response?.status).toBe(403);
  await response?.text();
  await until(async () => ((await agent.store.get(run.id))?.status === 'running' ? undefined : true));
  if (verb === 'may not') expect(await agent.store.list()).toEqual(before);
  const events = (await agent.store.read(run.id)).map(({ event }) => event.type);
  if (!may({ role }, 'decide')) expect(events).not.toContain('approval.decided');
});

describe('the commands of a role', () => {
  const TYPES = [
    'start',
    'send',
    'cancel',
    'fork',
    'edit-call',
    'approve',
    'reject',
    'answer',
    'resolve',
  ] as const;
  const of = (role: Role) => TYPES.filter(type => mayCommand({ role }, { type }));

  test('are all for an operator, decisions for an approver, and none for a viewer or a client', () => {
    expect(of('operator')).toEqual(TYPES);
    expect(of('approver')).toEqual(['approve', 'reject', 'answer', 'resolve']);
    expect([of('viewer'), of('client')]).toEqual([[], []]);
  });

  test('of a requester are to start runs, to write in them and to answer them', () => {
    expect(of('requester')).toEqual(['start', 'send', 'answer']);
    expect(mayCommand({ role: 'requester' }, { type: 'reject', to: 'question' })).toBe(true);
  });
});
