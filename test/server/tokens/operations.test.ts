import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EngineError } from '../../../protocol/error.ts';
import type { RunList } from '../../../protocol/store.ts';
import type { AccessRecord } from '../../../server/access/request-record.ts';
import { RequestNote } from '../../../server/request-log.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { ClientSocket } from '../../support/responses/client-socket.ts';
import { endOf, Gateway } from '../../support/responses/gateway.ts';
import { errorOf, makeApp, until } from '../../support/server/runs-app.ts';

const APP = 'https://app.example';
const TOKEN = 'the-token-of-web-000';
const WEB = { authorization: `Bearer ${TOKEN}` };

const records: AccessRecord[] = [];
const gateway = new Gateway(
  {
    talk: Array(9).fill({ text: 'A secret answer.', usage: { inputTokens: 7, outputTokens: 3 } }),
    slow: Array(3).fill({ text: 'Slow.', delayMs: 300 }),
  },
  {
    config: () => ({
      tokens: {
        web: { token: TOKEN, role: 'client' },
        desk: { token: 'the-token-of-desk-00', role: 'operator' },
      },
      cors: { origins: [APP] },
      limits: { open_streams: 1 },
    }),
    onRequest: record => records.push(record),
  },
);
let serving: Serving;
beforeAll(async () => {
  serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
});
afterAll(async () => {
  await serving.close();
  await gateway.close();
});

describe('the log of requests', () => {
  test('has a record of each, with the run, the model and the usage, and no content', async () => {
    records.length = 0;
    const made = await gateway.send('POST', '?trace=hunter2', { model: 'talk', input: 'A secret.' }, WEB);
    const { id } = (await made.json()) as { id: string };
    await gateway.send('GET', `/${id}`, undefined, WEB);
    await gateway.send('GET', `/${id}`, undefined, { authorization: 'Bearer hunter2-hunter2-hunter2' });
    await gateway.app.request('http://127.0.0.1:4100/nowhere/hunter2', {
      headers: { host: '127.0.0.1', ...WEB },
    });
    expect(records).toEqual([
      {
        request: made.headers.get('x-request-id'),
        method: 'POST',
        route: '/v1/responses',
        status: 200,
        ms: expect.any(Number),
        caller: 'web',
        run: id.replace('resp_', 'run_'),
        model: gateway.folder.models.talk,
        usage: { input_tokens: 7, output_tokens: 3 },
      },
      expect.objectContaining({ method: 'GET', route: '/v1/responses/:id', status: 200, caller: 'web' }),
      expect.objectContaining({ status: 401, caller: null }),
      expect.objectContaining({ route: null, status: 403 }),
    ]);
    expect(JSON.stringify(records)).not.toMatch(/secret|hunter2|the-token/);
  });
});

describe('a WebSocket', () => {
  test('has the rights of its token, and each of its requests a record of its own', async () => {
    const url = `${serving.url}/v1/responses`;
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { ...WEB, origin: 'https://evil.example' }])
      await expect(ClientSocket.open(url, headers)).rejects.toThrow(/status 40[13]/);
    const socket = await ClientSocket.open(url, WEB);
    records.length = 0;
    const events = await socket.create({ model: 'talk', input: 'Hi' });
    const refused = await socket.create({ model: 'none such', input: 'Hi' });
    expect(refused.at(-1)).toMatchObject({ type: 'error', status: 400 });
    const { id } = endOf(events);
    const [first, second] = await until(() => (records.length === 2 ? records : undefined));
    expect(first).toMatchObject({
      method: 'GET',
      route: '/v1/responses',
      status: 200,
      caller: 'web',
      run: id.replace('resp_', 'run_'),
      usage: { input_tokens: 7, output_tokens: 3 },
    });
    expect(second).toMatchObject({ status: 400, caller: 'web' });
    expect(second).not.toHaveProperty('run');
    expect(new Set([first?.request, second?.request]).size).toBe(2);
    socket.close();
  });
});

describe('a page of another origin', () => {
  const page = { ...WEB, origin: APP };

  test('may use /v1 if the configuration lists it, and reads the headers it needs', async () => {
    const preflight = await gateway.send('OPTIONS', '', undefined, {
      origin: APP,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,x-stainless-lang',
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe(APP);
    expect(preflight.headers.get('access-control-allow-headers')).toContain('x-stainless-lang');
    expect(preflight.headers.get('access-control-allow-credentials')).toBeNull();
    const answer = await gateway.send('POST', '', { model: 'talk', input: 'Hi' }, page);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('access-control-allow-origin')).toBe(APP);
    expect(answer.headers.get('access-control-expose-headers')).toContain('x-request-id');
    const refused = await gateway.send('POST', '', {}, { origin: APP });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('access-control-allow-origin')).toBe(APP);
  });

  test.each(['https://evil.example', 'https://app.example:444', 'http://app.example', 'null'])(
    'that is not listed is refused: %s',
    async origin => {
      for (const method of ['POST', 'OPTIONS']) {
        const refused = await gateway.send(method, '', method === 'POST' ? {} : undefined, {
          ...WEB,
          origin,
        });
        expect(refused.status).toBe(403);
        expect(refused.headers.get('access-control-allow-origin')).toBeNull();
      }
    },
  );

  test('may use nothing else, and the cookie of an operator who is signed in does not count', async () => {
    const ask = (method: string, path: string, headers: Record<string, string>, body?: object) =>
      gateway.app.request(`http://127.0.0.1:4100${path}`, {
        method,
        headers: { host: '127.0.0.1:4100', 'content-type': 'application/json', ...headers },
        ...(body && { body: JSON.stringify(body) }),
      });
    const desk = { authorization: 'Bearer the-token-of-desk-00', origin: APP };
    for (const path of ['/runs', '/', '/session', '/healthz', '/v1'])
      expect((await ask('GET', path, desk)).status, path).toBe(403);
    const signedIn = await ask('POST', '/session', {}, { token: 'the-token-of-desk-00' });
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
    const body = { model: 'talk', input: 'Hi' };
    expect((await ask('POST', '/v1/responses', { cookie }, body)).status).toBe(200);
    expect((await ask('POST', '/v1/responses', { cookie, origin: APP }, body)).status).toBe(401);
  });
});

describe('GET /readyz', () => {
  test('says that the store answers, without a token', async () => {
    const answer = await makeApp({ token: 'x' }).send('GET', '/readyz');
    expect(await answer.json()).toEqual({ ok: true });
  });

  test('is 503 while it fails or hangs; the cause is in the log only', async () => {
    const host = new ManualHost();
    const failing = Object.assign(memory(), { list: () => Promise.reject(new Error('hunter2')) });
    const hanging = Object.assign(memory(), { list: () => new Promise<never>(() => {}) });
    for (const store of [failing, hanging]) {
      const { send, log } = makeApp({ store, host });
      const answer = await host.settle(send('GET', '/readyz'));
      const text = await answer.text();
      expect(answer.status).toBe(503);
      expect(text).not.toContain('hunter2');
      expect(log.join()).toContain('The store is not ready');
    }
    expect(
      (await errorOf(await host.settle(makeApp({ store: hanging, host }).send('GET', '/readyz')))).code,
    ).toBe('store-unavailable');
  });

  test('a request during an outage of the store says when to ask again', async () => {
    const away = new EngineError('store-unavailable', 'PostgreSQL cannot be used.');
    const { send } = makeApp({ store: Object.assign(memory(), { list: () => Promise.reject(away) }) });
    const answer = await send('GET', '/runs');
    expect(answer.status).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('5');
  });

  test('a request waits ten seconds for a store that does not answer, and may take longer for one that does', async () => {
    const host = new ManualHost();
    const slowly = <Value>(value: Value, ms: number) =>
      new Promise<Value>(resolve => host.setTimer(ms, () => resolve(value)));
    const send = (list: () => Promise<RunList>) => {
      const store = Object.assign(memory(), { get: () => slowly(undefined, 45_000), list });
      return host.settle(makeApp({ store, host }).send('GET', '/runs/run_1'));
    };
    const begun = host.now();
    const refused = await send(() => new Promise(() => {}));
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
    expect((await errorOf(refused)).code).toBe('store-unavailable');
    expect(host.now() - begun).toBe(12_000);
    const answered = await send(async () => ({ runs: [] }));
    expect(answered.status).toBe(404);
    expect(host.now() - begun).toBe(12_000 + 45_000);
  });
});

describe('open streams', () => {
  test('are limited for the whole server, and counted until the client leaves', async () => {
    records.length = 0;
    const stream = (signal?: AbortSignal) =>
      fetch(`${serving.url}/v1/responses`, {
        method: 'POST',
        headers: { ...WEB, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'slow', input: 'go', stream: true }),
        ...(signal && { signal }),
      });
    const leaving = new AbortController();
    const first = await stream(leaving.signal);
    expect(first.status).toBe(200);
    const refused = await stream();
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toBe('2');
    expect(await refused.json()).toMatchObject({ error: { code: 'rate_limit_exceeded' } });
    expect((await fetch(`${serving.url}/healthz`)).status).toBe(200);
    leaving.abort();
    await until(() => records.find(({ status, run }) => status === 200 && run !== undefined));
    const last = await stream();
    expect(last.status).toBe(200);
    expect(await last.text()).toContain('response.completed');
  });
});

test('a record counts what was read from and written to the cache of a provider that reports it', () => {
  const note = new RequestNote('req_1');
  const counts = { inputTokens: 20, outputTokens: 2, reasoningTokens: null };
  note.addUsage({ ...counts, cachedInputTokens: 12, cacheWriteTokens: null });
  note.addUsage({ ...counts, cachedInputTokens: 4, cacheWriteTokens: null });
  expect(note.toRecord().usage).toEqual({ input_tokens: 40, output_tokens: 4, cached_tokens: 16 });
});
