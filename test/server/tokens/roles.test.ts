import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Role } from '../../../access/role.ts';
import { RUN_COMMANDS } from '../../../server/runs/commands/request-bodies.ts';
import { Gateway } from '../../support/responses/gateway.ts';
import { errorOf, makeApp, REFUND, type TestApp } from '../../support/server/runs-app.ts';

const MAIN = 'the-main-operators-token';
const TOKENS = {
  operator: { token: 'an-operators-token-0001', role: 'operator' },
  approver: { token: 'an-approvers-token-0002', role: 'approver' },
  requester: { token: 'a-requesters-token-00005', role: 'requester' },
  viewer: { token: 'a-viewers-token-0000003', role: 'viewer' },
  client: { token: 'a-clients-token-0000004', role: 'client' },
} as const;
const NAMED = Object.fromEntries(Object.entries(TOKENS).map(([name, token]) => [`the ${name}`, token]));
const assets = { html: '<!doctype html><title>Runs</title>', find: () => undefined };

const bearer = (role: Role) => ({ authorization: `Bearer ${TOKENS[role].token}` });

let server: TestApp;
let waiting: { runId: string; callId: string };

/** A run that waits for an approval, begun by the operator. */
async function begin(): Promise<{ runId: string; callId: string }> {
  const started = await server.send('POST', '/runs', { input: 'go' }, bearer('operator'));
  const { runId } = (await started.json()) as { runId: string };
  for (;;) {
    const view = await (await server.send('GET', `/runs/${runId}`, undefined, bearer('viewer'))).json();
    const { status, openCalls } = view as { status: string; openCalls?: { callId: string }[] };
    if (status === 'waiting') return { runId, callId: openCalls?.[0]?.callId ?? 'call_0_0' };
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

beforeAll(async () => {
  server = makeApp({ turns: Array(40).fill(REFUND), token: MAIN, tokens: NAMED, assets });
  waiting = await begin();
});

describe('a role', () => {
  const READS = ['/runs', '/runs/RUN', '/runs/RUN/results/CALL', '/agents', '/openapi.json'];

  test.each(['operator', 'approver', 'viewer'] as const)('%s reads runs', async role => {
    for (const path of READS) {
      const place = path.replace('RUN', waiting.runId).replace('CALL', waiting.callId);
      const { status } = await server.send('GET', place, undefined, bearer(role));
      expect([200, 404], place).toContain(status);
    }
  });

  test.each(['approver', 'viewer', 'client'] as const)('%s neither starts nor deletes runs', async role => {
    const before = (await server.store.list({ limit: 1000 })).runs.length;
    const started = await errorOf(await server.send('POST', '/runs', { input: 'go' }, bearer(role)));
    expect(started).toMatchObject({ status: 403, code: 'forbidden', message: expect.stringContaining(role) });
    const deleted = await server.send('DELETE', `/runs/${waiting.runId}`, undefined, bearer(role));
    expect((await errorOf(deleted)).status).toBe(403);
    expect((await server.store.list({ limit: 1000 })).runs.length).toBe(before);
  });

  const DECISIONS = ['approve', 'reject', 'answer', 'resolve'];
  const others = Object.keys(RUN_COMMANDS).filter(name => !DECISIONS.includes(name) && name !== 'commands');

  test.each(Object.keys(RUN_COMMANDS))('viewer and client may not %s', async command => {
    for (const role of ['viewer', 'client'] as const) {
      const answer = await server.send('POST', `/runs/${waiting.runId}/${command}`, {}, bearer(role));
      expect((await errorOf(answer)).status).toBe(403);
    }
  });

  test.each(others)('approver may not %s', async command => {
    const body = command === 'send' ? { message: 'hi' } : {};
    const answer = await server.send('POST', `/runs/${waiting.runId}/${command}`, body, bearer('approver'));
    expect((await errorOf(answer)).status).toBe(403);
  });

  test('approver decides, one call or several', async () => {
    const { runId, callId } = await begin();
    const mixed = [{ type: 'reject', callId }, { type: 'cancel' }];
    const refused = await server.send('POST', `/runs/${runId}/commands`, mixed, bearer('approver'));
    expect((await errorOf(refused)).status).toBe(403);
    const decided = await server.send(
      'POST',
      `/runs/${runId}/commands`,
      mixed.slice(0, 1),
      bearer('approver'),
    );
    expect(decided.status).toBe(200);
    const journal = await server.store.read(runId);
    expect(journal.find(({ event }) => event.type === 'approval.decided')?.event).toMatchObject({
      by: 'the approver',
    });
    const other = await begin();
    const approved = await server.send(
      'POST',
      `/runs/${other.runId}/approve`,
      { callId: other.callId },
      bearer('approver'),
    );
    expect(approved.status).toBe(200);
  });

  test.each([
    ['GET', '/'],
    ['GET', '/runs'],
    ['GET', '/runs/RUN'],
    ['GET', '/runs/RUN/events'],
    ['GET', '/assets/page.js'],
    ['GET', '/agents'],
    ['GET', '/openapi.json'],
    ['POST', '/session'],
    ['DELETE', '/session'],
    ['GET', '/v1'],
    ['GET', '/v2/responses'],
    ['GET', '/%72uns'],
  ])('client gets 403 from %s %s', async (method, path) => {
    for (const accept of ['text/html', '*/*']) {
      const place = path.replace('RUN', waiting.runId);
      const body = path === '/session' && method === 'POST' ? { token: MAIN } : undefined;
      const answer = await server.send(method, place, body, { ...bearer('client'), accept });
      expect(answer.headers.get('set-cookie')).toBeNull();
      expect(await errorOf(answer)).toMatchObject({ status: 403, code: 'forbidden' });
    }
  });

  test('client learns nothing about runs: what exists and what does not answers the same', async () => {
    const [real, absent] = await Promise.all(
      [waiting.runId, 'run_none'].map(async id =>
        (await server.send('GET', `/runs/${id}`, undefined, bearer('client'))).text(),
      ),
    );
    expect(real).toBe(absent);
  });

  test('of the main token is operator', async () => {
    const authorization = `Bearer ${MAIN}`;
    const started = await server.send('POST', '/runs', { input: 'go' }, { authorization });
    expect(started.status).toBe(201);
  });
});

describe('signing in on the page', () => {
  const signIn = (token: string) => server.send('POST', '/session', { token });

  test.each(['operator', 'approver', 'viewer'] as const)('gives the rights of the %s', async role => {
    const signedIn = await signIn(TOKENS[role].token);
    expect(signedIn.status).toBe(204);
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await server.send('GET', '/runs', undefined, { cookie })).status).toBe(200);
    const shown = await server.send('GET', '/session', undefined, { cookie });
    expect(await shown.json()).toEqual({ name: `the ${role}`, role });
    const started = await server.send('POST', '/runs', { input: 'go' }, { cookie });
    expect(started.status).toBe(role === 'operator' ? 201 : 403);
  });

  test('is refused for clients', async () => {
    const refused = await signIn(TOKENS.client.token);
    expect(refused.headers.get('set-cookie')).toBeNull();
    expect(await errorOf(refused)).toMatchObject({ status: 403, code: 'forbidden' });
  });

  test('is not needed without tokens, and everybody is operator', async () => {
    const { send } = makeApp();
    expect(await (await send('GET', '/session')).json()).toEqual({ name: 'anyone', role: 'operator' });
  });
});

describe('/v1', () => {
  let gateway: Gateway;
  beforeAll(() => {
    gateway = new Gateway({ talk: [{ text: 'Hello.' }] }, { token: MAIN, tokens: NAMED });
  });
  afterAll(() => gateway.close());
  const body = { model: 'talk', input: 'Hi' };

  test.each(['operator', 'client'] as const)('answers the %s', async role => {
    expect((await gateway.send('POST', '', body, bearer(role))).status).toBe(200);
    const key = { 'x-api-key': TOKENS[role].token };
    expect((await gateway.send('POST', '', body, key)).status).toBe(200);
  });

  test.each(['approver', 'viewer'] as const)('lets the %s read and nothing else', async role => {
    const made = (await (await gateway.send('POST', '', body, bearer('client'))).json()) as { id: string };
    expect((await gateway.send('GET', `/${made.id}`, undefined, bearer(role))).status).toBe(200);
    for (const [method, path] of [
      ['POST', ''],
      ['DELETE', `/${made.id}`],
    ] as const) {
      const refused = await gateway.send(method, path, method === 'POST' ? body : undefined, bearer(role));
      expect(refused.status).toBe(403);
      expect(await refused.json()).toMatchObject({ error: { type: 'permission_error', code: 'forbidden' } });
    }
    const upgrade = { ...bearer(role), upgrade: 'websocket', connection: 'Upgrade' };
    expect((await gateway.send('GET', '', undefined, upgrade)).status).toBe(403);
  });

  test('names no run in a header, and every answer has an id of its own', async () => {
    const asked = [
      await gateway.send('POST', '', body, bearer('client')),
      await gateway.send('POST', '', { ...body, stream: true }, bearer('client')),
      await gateway.send('POST', '', {}, bearer('client')),
      await gateway.send('GET', '/resp_none', undefined, bearer('client')),
    ];
    const runs = (await gateway.store.list({ limit: 1000 })).runs.map(({ runId }) =>
      runId.replace('run_', ''),
    );
    const ids = asked.map(answer => answer.headers.get('x-request-id') ?? '');
    for (const id of ids) expect(id).toMatch(/^req_[0-9a-f]{32}$/);
    expect(new Set(ids).size).toBe(asked.length);
    const headers = JSON.stringify(asked.map(answer => [...answer.headers]));
    for (const run of runs) expect(headers).not.toContain(run);
    await asked[1]?.body?.cancel();
  });

  test.each(['', 'wrong', MAIN.slice(1), `${TOKENS.client.token}x`])(
    'refuses the token "%s"',
    async token => {
      const refused = await gateway.send('POST', '', body, { authorization: `Bearer ${token}` });
      expect(refused.status).toBe(401);
      const text = await refused.text();
      for (const { token } of Object.values(TOKENS)) expect(text).not.toContain(token);
    },
  );
});
