import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { isLoopback, isOwnName } from '../../../server/bind-address.ts';
import { errorOf, makeApp } from '../../support/server/runs-app.ts';

const TOKEN = 'correct-horse-battery-staple';
const assets = {
  html: '<!doctype html><title>Runs</title>',
  find: (path: string) => (path === '/assets/page.js' ? { body: '1', type: 'text/javascript' } : undefined),
};

describe('access checks', () => {
  test.each(['127.0.0.1:4100', 'localhost:4100', 'LOCALHOST', '[::1]:4100', '127.8.9.1'])(
    'a Host of %s is this server',
    async host => {
      expect((await makeApp().send('GET', '/healthz', undefined, { host })).status).toBe(200);
    },
  );

  test.each([
    'evil.example',
    '127.0.0.1.evil.example',
    'localhost.evil.example:4100',
    '192.168.0.7:4100',
    '',
    'a b',
  ])('a Host of "%s" is refused everywhere, even where no token is needed', async host => {
    for (const path of ['/healthz', '/runs', '/', '/nowhere']) {
      const error = await errorOf(await makeApp({ assets }).send('GET', path, undefined, { host }));
      expect(error).toMatchObject({ status: 403, code: 'forbidden' });
    }
  });

  test.each([
    'http://evil.example',
    'null',
    'http://127.0.0.1:4101',
    'http://localhost:4100',
    '127.0.0.1:4100',
    '',
  ])('an Origin of "%s" is refused, and no run starts', async origin => {
    const { send, store } = makeApp();
    const error = await errorOf(await send('POST', '/runs', { input: 'go' }, { origin }));
    expect(error).toMatchObject({ status: 403, code: 'forbidden' });
    expect((await store.list({ limit: 1000 })).runs).toEqual([]);
  });

  test('the server page is an allowed Origin', async () => {
    const response = await makeApp().send('GET', '/runs', undefined, { origin: 'http://127.0.0.1:4100' });
    expect(response.status).toBe(200);
  });

  test('a server on all interfaces accepts any address and no foreign name', () => {
    expect(isOwnName('192.168.0.7:4100', '0.0.0.0')).toBe(true);
    expect(isOwnName('[fe80::1]:4100', '::')).toBe(true);
    expect(isOwnName('evil.example:4100', '0.0.0.0')).toBe(false);
    expect(isOwnName('desk.local:4100', 'desk.local')).toBe(true);
    expect(isOwnName('other.local:4100', 'desk.local')).toBe(false);
  });

  test('only loopback addresses are loopback', () => {
    expect(['127.0.0.1', '127.255.0.3', 'localhost', '::1', '[::1]'].every(isLoopback)).toBe(true);
    const others = ['0.0.0.0', '::', '192.168.0.1', '127.0.0.1.evil.example', 'example.com', '', '128.0.0.1'];
    expect(others.some(isLoopback)).toBe(false);
  });
});

describe('with a token', () => {
  const closed = ['/runs', '/agents', '/runs/run_1', '/runs/run_1/events', '/openapi.json', '/nowhere'];

  test.each(closed)('%s requires it', async path => {
    const response = await makeApp({ token: TOKEN, assets }).send('GET', path);
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    expect(await errorOf(response)).toMatchObject({ status: 401, code: 'unauthorized' });
  });

  test.each(['wrong', '', `${TOKEN}x`, TOKEN.slice(1), 'Bearer'])('"%s" is refused', async wrong => {
    const { send, store } = makeApp({ token: TOKEN });
    const response = await send('POST', '/runs', { input: 'go' }, { authorization: `Bearer ${wrong}` });
    const text = await response.text();
    expect(response.status).toBe(401);
    expect(text).not.toContain(TOKEN);
    expect((await store.list({ limit: 1000 })).runs).toEqual([]);
  });

  test('a program that sends it is authorized', async () => {
    const { send } = makeApp({ token: TOKEN });
    expect((await send('GET', '/runs', undefined, { authorization: `Bearer ${TOKEN}` })).status).toBe(200);
    expect((await send('GET', '/runs', undefined, { authorization: `bearer ${TOKEN}` })).status).toBe(200);
  });

  test('health, the page and its files do not require it', async () => {
    const { send } = makeApp({ token: TOKEN, assets });
    const html = { accept: 'text/html,*/*' };
    expect((await send('GET', '/healthz')).status).toBe(200);
    expect((await send('GET', '/', undefined, html)).status).toBe(200);
    expect(await (await send('GET', '/runs/run_1', undefined, html)).text()).toContain('<!doctype html>');
    const file = await send('GET', '/assets/page.js');
    expect(file.headers.get('content-type')).toBe('text/javascript');
    expect((await errorOf(await send('GET', '/assets/../secret'))).status).not.toBe(200);
    expect((await errorOf(await send('GET', '/assets/absent.js'))).code).toBe('not-found');
  });

  test('the policy of a document allows its own style and no other', async () => {
    const html = '<style>nav{color:red}</style>';
    const { send } = makeApp({ assets: { ...assets, html } });
    const page = await send('GET', '/', undefined, { accept: 'text/html' });
    const hash = createHash('sha256').update('nav{color:red}').digest('base64');
    expect(page.headers.get('content-security-policy')).toContain(`; style-src 'self' 'sha256-${hash}'; `);
    const file = await send('GET', '/assets/page.js');
    expect(file.headers.get('content-security-policy')).toContain("; style-src 'self'; ");
  });

  test('a site that opens the page in a window has no hold of it', async () => {
    const { send } = makeApp({ assets });
    const policyFor = async (site: Record<string, string>) =>
      (await send('GET', '/', undefined, { accept: 'text/html', ...site })).headers.get(
        'cross-origin-opener-policy',
      );
    for (const site of ['cross-site', 'same-site', 'unheard-of'])
      expect(await policyFor({ 'sec-fetch-site': site }), site).toBe('same-origin');
    expect(await policyFor({})).toBe('same-origin');
    for (const site of ['none', 'same-origin'])
      expect(await policyFor({ 'sec-fetch-site': site }), site).toBe(null);
  });

  test('signing in sets a cookie that is HttpOnly and SameSite, and that is not the token', async () => {
    const { send } = makeApp({ token: TOKEN });
    const signedIn = await send('POST', '/session', { token: TOKEN });
    expect(signedIn.status).toBe(204);
    const header = signedIn.headers.get('set-cookie') ?? '';
    expect(header).toMatch(/^agentchart-4100=[\w-]{40,}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(header).not.toContain(TOKEN);
    const cookie = header.split(';')[0] ?? '';
    expect((await send('GET', '/runs', undefined, { cookie })).status).toBe(200);
    expect((await send('DELETE', '/session', undefined, { cookie })).status).toBe(204);
    expect((await send('GET', '/runs', undefined, { cookie })).status).toBe(401);
  });

  test('a forged cookie, or one of another server, is refused', async () => {
    const { send } = makeApp({ token: TOKEN });
    const other = await makeApp({ token: TOKEN }).send('POST', '/session', { token: TOKEN });
    const theirs = other.headers.get('set-cookie')?.split(';')[0] ?? '';
    for (const cookie of [
      theirs,
      'agentchart-4100=',
      `agentchart-4100=${TOKEN}`,
      'agentchart-4100=__proto__',
    ])
      expect((await send('GET', '/runs', undefined, { cookie })).status).toBe(401);
  });

  test('a wrong bearer token is refused despite a valid cookie', async () => {
    const { send } = makeApp({ token: TOKEN });
    const signedIn = await send('POST', '/session', { token: TOKEN });
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await send('GET', '/runs', undefined, { cookie, authorization: 'Bearer wrong' })).status).toBe(
      401,
    );
  });

  test.each([{ token: 'guess' }, { token: '' }])('signing in with %j sets no cookie', async body => {
    const response = await makeApp({ token: TOKEN }).send('POST', '/session', body);
    expect(response.headers.get('set-cookie')).toBeNull();
    expect(await errorOf(response)).toMatchObject({ status: 401, code: 'unauthorized' });
  });

  test('a sign-in posted by a foreign page is refused', async () => {
    const { send } = makeApp({ token: TOKEN });
    const response = await send('POST', '/session', { token: TOKEN }, { origin: 'http://evil.example' });
    expect(response.status).toBe(403);
    expect(response.headers.get('set-cookie')).toBeNull();
  });
});

test('every response has the security headers, also errors, streams and pages', async () => {
  const open = makeApp({ assets });
  const { runId } = await open.begin();
  const responses = [
    await open.send('GET', '/'),
    await open.send('GET', '/assets/page.js'),
    await open.send('GET', '/healthz'),
    await open.send('GET', '/runs'),
    await open.send('GET', `/runs/${runId}/events`),
    await open.send('GET', '/nowhere'),
    await open.send('POST', '/runs', '{'),
    await open.send('GET', '/runs', undefined, { host: 'evil.example' }),
    await makeApp({ token: TOKEN }).send('GET', '/runs'),
  ];
  for (const response of responses) {
    const { headers } = response;
    expect(headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'");
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('cache-control')).toMatch(/no-store|no-cache/);
    await response.body?.cancel();
  }
});

test('an unexpected error goes to the log, and not to the client', async () => {
  const { send, log } = makeApp({
    assets: {
      ...assets,
      find: () => {
        throw new Error('the key is sk-123');
      },
    },
  });
  const response = await send('GET', '/assets/page.js');
  const text = await response.text();
  expect(response.status).toBe(500);
  expect(text).not.toContain('sk-123');
  expect(JSON.parse(text)).toMatchObject({ error: { code: 'internal' } });
  expect(log.join()).toContain('sk-123');
});
