import { afterEach, describe, expect, test } from 'vitest';
import type { Authorize } from '../../access/caller.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { createA2aHandler } from '../../fronts/a2a/index.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { createChatHandler } from '../../fronts/ai-sdk-ui/index.ts';
import { createMcpHandler } from '../../fronts/mcp/index.ts';
import type { Agents } from '../../server/agent-names.ts';
import type { Handler } from '../../server/handler.ts';
import { createResponsesHandler, createStoryHandler } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';

/** A way to ask the agent `NAME` of a front to say something. */
type Way = {
  name: string;
  make(agents: Agents, options: { authorize?: Authorize; log(line: string): void }): Handler;
  path: string;
  body: object;
  /** The path for a single agent, if it is another. */
  single?: string;
};

const message = { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'Hi.' }] };
const WAYS: readonly Way[] = [
  {
    name: 'createChatHandler',
    make: createChatHandler,
    path: '/chats/NAME',
    single: '/chats',
    body: { id: 'c', messages: [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'Hi.' }] }] },
  },
  {
    name: 'createAgUiHandler',
    make: createAgUiHandler,
    path: '/threads/NAME',
    single: '/threads',
    body: {
      threadId: 't',
      runId: 'r',
      messages: [{ id: 'u', role: 'user', content: 'Hi.' }],
      tools: [],
      context: [],
      state: {},
    },
  },
  {
    name: 'createA2aHandler',
    make: createA2aHandler,
    path: '/a2a/NAME',
    body: { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } },
  },
  {
    name: 'createMcpHandler',
    make: createMcpHandler,
    path: '/tools',
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
    },
  },
  {
    name: 'createResponsesHandler',
    make: createResponsesHandler,
    path: '/v1/responses',
    body: { model: 'NAME', input: 'Hi.' },
  },
  {
    name: 'createStoryHandler',
    make: createStoryHandler,
    path: '/story',
    body: { agent: 'NAME', input: 'Hi.' },
  },
];

const closing: Handler[] = [];
afterEach(() => {
  for (const handler of closing.splice(0)) handler.close();
});

const log = () => {};
const store = memory();
const [one, two] = ['one', 'two'].map(name =>
  createAgent({ name, model: scripted(Array(3).fill({ text: `I am ${name}.` })), store }),
);
const agents = [one, two].filter(agent => agent !== undefined);

describe.each(WAYS)('$name', ({ name, make, path, single = path, body }) => {
  const open = (given: Agents, authorize?: Authorize) => {
    const handler = make(given, { log, ...(authorize && { authorize }) });
    closing.push(handler);
    return async (to: string, as: string, method = 'POST') => {
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      };
      const text = JSON.stringify(body).replace('NAME', as);
      const url = `http://shop.example/below${to.replace('NAME', as)}`;
      return await handler(new Request(url, { method, headers, ...(method === 'POST' && { body: text }) }));
    };
  };
  const expected = (agent: string) => (name === 'createMcpHandler' ? 'agentchart' : `I am ${agent}.`);

  test('answers below any path, for an agent and for several by name', async () => {
    const only = await open(agents.slice(0, 1)[0] ?? [])(single, 'one');
    expect([only.status, await only.text()]).toEqual([200, expect.stringContaining(expected('one'))]);
    const ask = open(agents);
    for (const agent of ['two', 'one']) {
      const answer = await ask(path, agent);
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(expected(agent))]);
    }
  });

  test('refuses requests without a caller, and callers of the wrong role', async () => {
    expect((await open(agents, () => null)(path, 'one')).status).toBe(401);
    const role = name === 'createResponsesHandler' ? 'viewer' : 'client';
    expect((await open(agents, () => ({ name: 'x', role }))(path, 'one')).status).toBe(403);
  });

  test('needs an agent', () => {
    expect(() => make([], { log })).toThrow(TypeError);
  });
});
