import { describe, expect, test } from 'vitest';
import { type Authorize, callerOf } from '../../access/caller.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { createChatHandler } from '../../fronts/ai-sdk-ui/index.ts';
import { chatApp, responsesApp, runsApp, type ServerApp } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';
import { DONE } from '../support/server/runs-app.ts';

const SECRET = 'a-token-nobody-may-see-4711';

/** What `authorize` returned, and how the log names the fault. */
const WRONG: readonly (readonly [string, unknown, string])[] = [
  ['an unknown role', { name: 'x', role: 'readonly', labels: {} }, 'the role is "readonly"'],
  ['a role of other case', { name: 'x', role: 'Viewer' }, 'the role is "Viewer"'],
  ['a role from the prototype', { name: 'x', role: 'constructor' }, 'the role is "constructor"'],
  [
    'one group as a text',
    { name: 'x', role: 'approver', groups: 'managers' },
    'the groups are a string, not a list of names',
  ],
  ['groups that are null', { name: 'x', groups: null }, 'the groups are null, not a list of names'],
  ['groups that are no list of names', { name: 'x', groups: [7] }, 'the groups are not a list of names'],
  ['a list of roles', { name: 'x', role: ['operator'] }, 'the role is an array'],
  ['a secret as role', { name: 'x', role: SECRET }, 'the role is a string of 27 characters'],
  ['an empty object', {}, 'the name is undefined'],
  ['an empty name', { name: '', role: 'operator' }, 'the name is an empty string'],
  ['a number as name', { name: 7, role: 'operator' }, 'the name is a number'],
  ['an unknown member', { name: 'x', role: 'operator', token: SECRET }, 'the unknown members "token"'],
  [
    'labels of a wrong type',
    { name: 'x', role: 'viewer', labels: { n: 7 } },
    'the value of "n" is not a string',
  ],
  ['labels that are null', { name: 'x', role: 'viewer', labels: null }, 'expected an object of strings'],
  ['nothing', undefined, 'it returned undefined'],
  ['true', true, 'it returned a boolean'],
  ['a text', SECRET, 'it returned a string'],
  ['a list', [{ name: 'x', role: 'operator' }], 'it returned an array'],
];

const store = memory();
const agent = createAgent({ name: 'desk', store, model: scripted([DONE, DONE]) });

type Handle = (request: Request) => Promise<Response>;
type Options = { authorize: Authorize; log(line: string): void };

async function throughApp(app: ServerApp, request: Request): Promise<Response> {
  try {
    return await app.fetch(request);
  } finally {
    app.close();
  }
}

const json = { 'content-type': 'application/json' };
const gateway = (options: Options) => ({ store, model: 'scripted:none', ...options });

/** Every part of the package that takes `authorize`, and a request that begins a run if it is let in. */
const DOORS: Readonly<Record<string, { open(options: Options): Handle; path: string; body: object }>> = {
  createChatHandler: {
    open: options => createChatHandler(agent, options),
    path: '/api/chat',
    body: {
      id: 'c',
      trigger: 'submit-message',
      messages: [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'go' }] }],
    },
  },
  createAgUiHandler: {
    open: options => createAgUiHandler(agent, options),
    path: '/agent',
    body: { threadId: 't', runId: 'r', messages: [{ id: 'u', role: 'user', content: 'go' }] },
  },
  runsApp: {
    open: options => request => throughApp(runsApp({ agents: [agent], ...options }), request),
    path: '/runs',
    body: { input: 'go' },
  },
  responsesApp: {
    open: options => request => throughApp(responsesApp(gateway(options)), request),
    path: '/v1/responses',
    body: { model: 'desk', input: 'go' },
  },
  'responsesApp for Messages': {
    open: options => request => throughApp(responsesApp(gateway(options)), request),
    path: '/v1/messages',
    body: { model: 'desk', max_tokens: 9, messages: [{ role: 'user', content: 'go' }] },
  },
  chatApp: {
    open: options => request => throughApp(chatApp(gateway(options)), request),
    path: '/v1/chat/completions',
    body: { model: 'desk', messages: [{ role: 'user', content: 'go' }] },
  },
};

describe.each(Object.entries(DOORS))('%s', (_, { open, path, body }) => {
  const post = () =>
    new Request(`http://127.0.0.1:4100${path}`, {
      method: 'POST',
      headers: { ...json, host: '127.0.0.1:4100' },
      body: JSON.stringify(body),
    });

  test.each(WRONG)(
    'lets no one in when authorize returns %s, and logs what is wrong',
    async (_what, value, fault) => {
      const log: string[] = [];
      const authorize = (() => value) as unknown as Authorize;
      const response = await open({ authorize, log: line => log.push(line) })(post());
      const text = await response.text();
      expect(response.status).toBe(500);
      expect(text).not.toMatch(/authorize|role|label/);
      expect(log).toEqual([expect.stringContaining(fault)]);
      expect(log[0]).toMatch(/^Request req_\w+ \(POST\) failed: /);
      expect(log[0]).toContain(`Request ${response.headers.get('x-request-id')} `);
      expect(log[0]).toContain(
        'Return { name, role?, groups?, labels? } with a role of operator, approver, requester, viewer, client',
      );
      expect(log[0]).not.toContain(SECRET);
      expect((await store.list()).runs).toEqual([]);
    },
  );

  test('answers 401 when authorize returns null, and fails when it throws', async () => {
    const log: string[] = [];
    const options = { log: (line: string) => log.push(line) };
    expect((await open({ ...options, authorize: () => null })(post())).status).toBe(401);
    expect(log).toEqual([]);
    const authorize = async () => await Promise.reject(new Error('the session store is away'));
    const failed = await open({ ...options, authorize })(post());
    expect([failed.status, await failed.text()]).toEqual([500, expect.not.stringContaining('session store')]);
    expect(log).toEqual([expect.stringContaining('the session store is away')]);
  });
});

test('a caller without labels and groups has none', async () => {
  const request = new Request('http://127.0.0.1/');
  expect(await callerOf(request, () => ({ name: 'x', role: 'viewer' }))).toEqual({
    name: 'x',
    role: 'viewer',
    groups: [],
    labels: {},
    known: 'app',
  });
});

test('a caller without a role is a requester, who sees only what it started, whatever its labels say', async () => {
  const request = new Request('http://127.0.0.1/');
  expect(await callerOf(request, () => ({ name: 'ann', labels: { requester: 'bob', team: 'a' } }))).toEqual({
    name: 'ann',
    role: 'requester',
    groups: [],
    labels: { requester: 'ann', team: 'a' },
    known: 'app',
  });
});
