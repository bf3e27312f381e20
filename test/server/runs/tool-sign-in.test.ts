import { afterEach, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { memory } from '../../../stores/memory.ts';
import { type CredentialStore, mcp } from '../../../tools/mcp.ts';
import { errorOf, makeApp, type TestApp } from '../../support/server/runs-app.ts';
import { visit } from '../../support/tools/oauth/authorization-server.ts';
import {
  closeProtected,
  startAuthorization,
  startProtected,
} from '../../support/tools/oauth/protected-desk.ts';

afterEach(closeProtected);

function inMemory(): CredentialStore {
  const entries = new Map<string, string>();
  return {
    get: async key => entries.get(key),
    set: async (key, value) => void (value === null ? entries.delete(key) : entries.set(key, value)),
  };
}

const TURNS = [{ toolCalls: [{ name: 'echo', arguments: { text: 'hi' } }] }, { text: 'Done.' }];
const TOKENS = {
  olga: { role: 'operator', token: 'token-of-olga-0123456789' },
  rita: { role: 'requester', token: 'token-of-rita-0123456789' },
  tina: { role: 'operator', token: 'token-of-tina-0123456789', labels: { tenant: 'a' } },
} as const;
const as = (name: keyof typeof TOKENS) => ({ authorization: `Bearer ${TOKENS[name].token}` });

async function open(store = memory(), credentials = inMemory()) {
  const authorization = await startAuthorization();
  const server = await startProtected(authorization);
  const start = () => {
    const crm = mcp({ name: 'crm', url: server.url, credentials, tools: { echo: { sideEffect: 'none' } } });
    return makeApp({ store, turns: TURNS, agent: { tools: [crm] } });
  };
  return { authorization, server, start, store };
}

async function beginSignIn({ send }: TestApp, runId: string, server = 'crm') {
  const response = await send('POST', `/runs/${runId}/sign-in/begin`, { server });
  return (await response.json()) as { url: string; expiresAt: number };
}

/** What the browser does, up to the address that it returns to. */
async function pathOfReturn(url: string): Promise<string> {
  return `/sign-in/callback?${new URLSearchParams({ ...(await visit(url)) })}`;
}

test('a person signs in through the server, and the run that waits for it continues', async () => {
  const { authorization, start, store } = await open();
  const app = start();
  const { runId, settled, open: waits } = await app.begin();
  expect(settled).toMatchObject({ status: 'waiting', open: [{ kind: 'sign-in', server: 'crm' }] });
  expect(waits).toMatchObject([{ kind: 'sign-in', id: `sign-in:${runId}:crm` }]);
  const asked = (await store.read(runId)).find(({ event }) => event.type === 'sign-in.requested');
  const item = { kind: 'sign-in', runId, since: asked?.event.at, call: waits[0] };
  expect(await (await app.send('GET', '/inbox')).json()).toMatchObject({ items: [item], waiting: 1 });
  expect(await (await app.send('GET', `/inbox/${runId}/crm`)).json()).toMatchObject({
    item,
    before: [{ text: 'go' }],
    equal: [],
  });
  const { url, expiresAt } = await beginSignIn(app, runId);
  expect(expiresAt).toBeGreaterThan(Date.now());
  const back = await app.send('GET', await pathOfReturn(url));
  expect([back.status, await back.text()]).toEqual([
    200,
    'You are signed in at crm. You can close this window.\n',
  ]);
  expect(await app.rest(runId)).toMatchObject({ settled: { status: 'finished', text: 'Done.' } });
  const paths = ['', '/events', '/entries', '/export', '/state'];
  const shown = await Promise.all(
    paths.map(async path => {
      const response = await app.send('GET', `/runs/${runId}${path}`);
      expect([path, response.status]).toEqual([path, 200]);
      return await response.text();
    }),
  );
  const left = [JSON.stringify(await store.read(runId)), ...shown, ...app.log];
  expect(authorization.secrets.length).toBeGreaterThan(0);
  expect(authorization.secrets.filter(secret => left.some(text => text.includes(secret)))).toEqual([]);
});

test('the browser may return after a restart of the server; a state counts once', async () => {
  const { start } = await open();
  const first = start();
  const { runId } = await first.begin();
  const path = await pathOfReturn((await beginSignIn(first, runId)).url);
  first.app.close();
  const second = start();
  expect((await second.send('GET', path)).status).toBe(200);
  expect((await second.rest(runId)).settled).toMatchObject({ status: 'finished' });
  expect((await second.send('GET', path)).status).toBe(400);
});

test('a return without a sign-in, another server, and an unknown run are refused', async () => {
  const { start } = await open();
  const app = start();
  const { runId } = await app.begin();
  expect((await app.send('GET', '/sign-in/callback?state=made-up&code=x')).status).toBe(400);
  expect((await app.send('GET', '/sign-in/callback')).status).toBe(400);
  const refused = await errorOf(await app.send('POST', `/runs/${runId}/sign-in/begin`, { server: 'other' }));
  expect(refused).toMatchObject({ status: 400, code: 'input-invalid' });
  expect((await app.send('POST', '/runs/run_no/sign-in/begin', { server: 'crm' })).status).toBe(404);
  expect((await app.view(runId)).settled).toMatchObject({ status: 'waiting' });
});

test('to begin a sign-in, and to say that there was one, is for operators', async () => {
  const { server } = await open();
  const crm = mcp({ name: 'crm', url: server.url, credentials: inMemory() });
  const app = makeApp({ turns: TURNS, agent: { tools: [crm] }, tokens: TOKENS });
  const started = await app.send('POST', '/runs', { input: 'go', agent: 'desk' }, as('rita'));
  const { runId } = (await started.json()) as { runId: string };
  for (const path of ['sign-in/begin', 'sign-in'])
    expect((await app.send('POST', `/runs/${runId}/${path}`, { server: 'crm' }, as('rita'))).status).toBe(
      403,
    );
  expect((await app.send('POST', `/runs/${runId}/sign-in/begin`, { server: 'crm' }, as('olga'))).status).toBe(
    200,
  );
});

test('behind a proxy that ends TLS, the browser returns to the address that it knows', async () => {
  const { start } = await open();
  const app = start();
  const { runId } = await app.begin();
  const begun = await app.send(
    'POST',
    `/runs/${runId}/sign-in/begin`,
    { server: 'crm' },
    { origin: 'https://127.0.0.1:4100' },
  );
  const { url } = (await begun.json()) as { url: string };
  expect(new URL(url).searchParams.get('redirect_uri')).toBe('https://127.0.0.1:4100/sign-in/callback');
});

test('a sub-agent signs in at its own server, although its caller has another one of that name', async () => {
  const authorization = await startAuthorization();
  const [above, below] = [await startProtected(authorization), await startProtected(authorization)];
  const at = ({ url }: { url: string }) => mcp({ name: 'crm', url, credentials: inMemory() });
  const helper = createAgent({ name: 'helper', model: scripted(TURNS), tools: [at(below)] });
  const app = makeApp({
    turns: TURNS,
    agent: { tools: [at(above), helper.asTool({ name: 'help', description: 'Helps.' })] },
  });
  const runId = 'run_of_helper';
  await createAgent({ ...helper.options, store: app.store }).start('go', { runId });
  await app.rest(runId);
  const { url } = await beginSignIn(app, runId);
  expect(new URL(url).searchParams.get('resource')).toBe(below.url);
});

test('a made-up state changes no credentials, and a failure after a restart says what failed', async () => {
  const authorization = await startAuthorization();
  const servers = [await startProtected(authorization), await startProtected(authorization)];
  let changes = 0;
  const entries = inMemory();
  const credentials: CredentialStore = {
    get: entries.get,
    exclusively: async work => {
      changes += 1;
      return await work(entries);
    },
    set: entries.set,
  };
  const start = () => {
    const tools = servers.map(({ url }, at) => mcp({ name: `crm${at}`, url, credentials }));
    return makeApp({ turns: TURNS, agent: { tools } });
  };
  const first = start();
  const { runId } = await first.begin();
  const { url } = await beginSignIn(first, runId, 'crm0');
  const before = changes;
  expect((await first.send('GET', '/sign-in/callback?state=made-up&code=x')).status).toBe(400);
  expect(changes).toBe(before);
  const { state, iss = '' } = await visit(url);
  const query = new URLSearchParams({ state, iss, error: 'access_denied' });
  const refused = await errorOf(await start().send('GET', `/sign-in/callback?${query}`));
  expect(refused.message).toContain('access_denied');
});

test('runs of every agent with that server continue once someone has signed in', async () => {
  const authorization = await startAuthorization();
  const { url } = await startProtected(authorization);
  const [store, credentials] = [memory(), inMemory()];
  const make = (name: string) =>
    createAgent({
      name,
      store,
      model: scripted(TURNS),
      tools: [mcp({ name: 'crm', url, credentials, tools: { echo: { sideEffect: 'none' } } })],
    });
  const app = makeApp({ store, agents: new Map(['desk', 'shop'].map(name => [name, make(name)])) });
  const [one, two] = await Promise.all(['desk', 'shop'].map(agent => app.begin({ input: 'go', agent })));
  const path = await pathOfReturn((await beginSignIn(app, one?.runId ?? '')).url);
  expect((await app.send('GET', path)).status).toBe(200);
  for (const run of [one, two])
    expect((await app.rest(run?.runId ?? '')).settled).toMatchObject({ status: 'finished' });
});

test('an operator of the runs with some labels begins no sign-in: its tokens are for all runs', async () => {
  const { server } = await open();
  const crm = mcp({ name: 'crm', url: server.url, credentials: inMemory() });
  const app = makeApp({ turns: TURNS, agent: { tools: [crm] }, tokens: TOKENS });
  const started = await app.send('POST', '/runs', { input: 'go', agent: 'desk' }, as('tina'));
  const { runId } = (await started.json()) as { runId: string };
  const refused = await app.send('POST', `/runs/${runId}/sign-in/begin`, { server: 'crm' }, as('tina'));
  expect(await errorOf(refused)).toMatchObject({ status: 403, code: 'forbidden' });
});
