import { Hono } from 'hono';
import { afterAll, describe, expect, test } from 'vitest';
import { may, ROLES, type Role } from '../../access/role.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { A2A_ROUTES, createA2aApi } from '../../fronts/a2a/a2a-api.ts';
import { AG_UI_ROUTES, createAgUiApi } from '../../fronts/ag-ui/handler.ts';
import { CHAT_ROUTES, createChatApi } from '../../fronts/ai-sdk-ui/chat/chat-handler.ts';
import { createMcpApi, MCP_ROUTES } from '../../fronts/mcp/mcp-api.ts';
import { ServedRuns } from '../../fronts/served/served-runs.ts';
import { createRunsApp } from '../../server/app.ts';
import { createGateway } from '../../server/gateway.ts';
import { chatApp, responsesApp, runsApp } from '../../server/index.ts';
import { toSchema } from '../../server/openapi.ts';
import { type Route, rightsFor } from '../../server/route.ts';
import { OPEN_ROUTES, PAGE_ROUTES, RUNS_ROUTES, SERVER_ROUTES, V1_ROUTES } from '../../server/route-table.ts';
import { memory } from '../../stores/memory.ts';

const TABLE: Readonly<Record<string, Route>> = {
  ...OPEN_ROUTES,
  ...PAGE_ROUTES,
  ...SERVER_ROUTES,
  ...RUNS_ROUTES,
  ...V1_ROUTES,
  ...MCP_ROUTES,
  ...A2A_ROUTES,
  ...CHAT_ROUTES,
  ...AG_UI_ROUTES,
};

const tokenOf = (role: Role) => `the-token-of-the-${role}`;
const authorize = ({ headers }: Request) => {
  const role = ROLES.find(each => headers.get('authorization') === `Bearer ${tokenOf(each)}`);
  return role === undefined ? null : { name: role, role };
};

const store = memory();
const agent = createAgent({ name: 'desk', model: scripted([]), tools: [], store });
const agents = new Map([['desk', agent]]);
const log = () => {};

/** Everything that `agentchart serve` mounts. */
function makeServer() {
  const runs = new ServedRuns({ store, agents, log });
  const { messages, responses, chat } = createGateway({ store, log });
  const app = createRunsApp({
    store,
    agents,
    log,
    tokens: Object.fromEntries(
      ROLES.map(role => [`the-${role}`, { token: tokenOf(role), role, labels: {} }]),
    ),
    assets: { html: '<!doctype html>', find: () => ({ body: '', type: 'text/javascript' }) },
    mounted: [
      messages,
      responses,
      chat,
      createMcpApi({ runs, key: () => new Uint8Array(32), version: '1.0.0', log }),
      createA2aApi({ runs, hasToken: true, log }),
      createChatApi(agent, { log }),
      createAgUiApi(agent, { log }),
    ],
  });
  return app;
}
const server = makeServer();
afterAll(() => server.close());

/** The apps of `agentchart/server`, mounted below a path. */
function makeMounted() {
  const gateway = { store, authorize, log };
  const apps = [
    runsApp({ agents: [agent], gateway, authorize, log }),
    responsesApp(gateway),
    chatApp(gateway),
  ];
  const root = new Hono();
  for (const app of apps) root.route('/api', app);
  afterAll(() => apps.map(app => app.close()));
  return root;
}
const mounted = makeMounted();

type App = { request(path: string, init: RequestInit): Response | Promise<Response> };

/** Sends a request that changes nothing: what it names does not exist, and its body is refused. */
async function send(
  app: App,
  key: string,
  { role, prefix = '', query = '', body = {} }: Sent,
): Promise<Response> {
  const [method = '', pattern = ''] = key.split(' ');
  const path = pattern.replace(/:\w+|\*$/g, 'none');
  const response = await app.request(`http://127.0.0.1:4100${prefix}${path}${query}`, {
    method,
    headers: {
      host: '127.0.0.1:4100',
      'content-type': 'application/json',
      ...(role && { authorization: `Bearer ${tokenOf(role)}` }),
    },
    ...(method === 'POST' && { body: JSON.stringify(body) }),
  });
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) await response.body?.cancel();
  return response;
}
type Sent = { role?: Role; prefix?: string; query?: string; body?: object };

/** The routes by their methods: one of all methods is read and written. */
const methodsOf = (table: Readonly<Record<string, Route>>) =>
  Object.entries(table).flatMap(([key, route]) => {
    const [method = '', path = ''] = key.split(' ');
    const methods = method === 'ALL' ? ['GET', 'POST'] : [method];
    return methods.map(each => ({ key: `${each} ${path}`, method: each, path, route }));
  });

/** The roles that get something else than a refusal. */
async function rolesAt(app: App, key: string, prefix = ''): Promise<readonly Role[]> {
  const allowed: Role[] = [];
  for (const role of ROLES) {
    const { status } = await send(app, key, { role, prefix });
    expect(status, `${key} as ${role}`).not.toBe(401);
    expect(status, `${key} as ${role}`).not.toBe(500);
    if (status !== 403) allowed.push(role);
  }
  return allowed;
}

function rolesOf({ method, path, route }: { method: string; path: string; route: Route }): readonly Role[] {
  const rights = rightsFor(route, method, path.startsWith('/v1/') ? 'v1' : 'runs');
  return ROLES.filter(role => rights.some(right => may({ role }, right)));
}

describe('the table of routes', () => {
  test('has every route of the server, and the server has every route of the table', () => {
    const routes = server.hono.routes.filter(({ method, handler }) => method !== 'ALL' || handler.length < 2);
    const found = new Set(routes.map(({ method, path }) => `${method} ${path}`));
    expect([...found].sort()).toEqual(Object.keys(TABLE).sort());
  });

  test.each(methodsOf(TABLE))('says which roles may $key', async one => {
    expect(await rolesAt(server, one.key)).toEqual(rolesOf(one));
    const { status } = await send(server, one.key, {});
    if (one.route.open === true) expect(status).not.toBe(401);
    else expect(status).toBe(401);
  });

  test.each(methodsOf({ ...RUNS_ROUTES, ...V1_ROUTES }))(
    'says so too for $key in an app below a path',
    async one => {
      expect(await rolesAt(mounted, one.key, '/api')).toEqual(rolesOf(one));
      expect((await send(mounted, one.key, { prefix: '/api' })).status).toBe(401);
    },
  );

  test('at a path without a route, reads need the right to read, and all else the right to change', async () => {
    expect(await rolesAt(server, 'GET /none')).toEqual(['operator', 'approver', 'requester', 'viewer']);
    expect(await rolesAt(server, 'POST /runs/none/none')).toEqual(['operator']);
    expect(await rolesAt(server, 'GET /v1/none')).toEqual(ROLES);
    expect(await rolesAt(server, 'POST /v1/none')).toEqual(['operator', 'client']);
  });
});

describe('a request with what its route does not declare', () => {
  const isStrict = (schema: object) =>
    'additionalProperties' in schema && schema.additionalProperties === false;

  test.each(
    Object.entries(TABLE).flatMap(([key, { query }]) => (query && isStrict(toSchema(query)) ? [key] : [])),
  )('in the query is refused at %s', async key => {
    const answer = await send(server, key, { role: 'operator', query: '?undeclared=1' });
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain('undeclared');
  });

  test.each(Object.entries(TABLE).flatMap(([key, { body }]) => (body === undefined ? [] : [{ key, body }])))(
    'in the body is refused at $key',
    async ({ key, body }) => {
      const answer = await send(server, key, { role: 'operator', body: { undeclared: 1 } });
      expect(answer.status).toBe(400);
      if (isStrict(toSchema(body))) expect(await answer.text()).toContain('undeclared');
    },
  );

  test('is carried out where the query is open', () => {
    const open = Object.entries(TABLE).filter(([, { query }]) => query && !isStrict(toSchema(query)));
    expect(open.map(([key]) => key)).toEqual(['GET /runs/:id/results/:call']);
  });
});
