import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { built } from '../support/built.ts';
import { calling, Desk, LIBRARY, MAIN, Started } from '../support/cli/desk.ts';
import type { AuthorizationServer } from '../support/tools/oauth/authorization-server.ts';
import { closeProtected, startAuthorization, startProtected } from '../support/tools/oauth/protected-desk.ts';

const MCP = pathToFileURL(built('tools/mcp.ts')).href;

afterEach(closeProtected);

/** A pseudo-terminal needs `script` of util-linux; on other systems the browser is opened by another command. */
const HAS_TERMINAL =
  process.platform === 'linux' && spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

async function open(settings = '', tools = 'crm') {
  const authorization = await startAuthorization();
  const server = await startProtected(authorization);
  const desk = new Desk([calling(['echo', { text: 'hello' }]), { text: 'Done.' }]);
  desk.write(
    'agent.mjs',
    `import { createAgent } from '${LIBRARY}';
     import { mcp } from '${MCP}';
     const crm = mcp({ name: 'crm', url: '${server.url}', ${settings} });
     const below = createAgent({ name: 'below', tools: [crm] });
     export default createAgent({ name: 'desk', tools: [${tools}] });`,
  );
  const environment = { AGENTCHART_HOME: desk.path('home'), ...desk.model };
  const start = (...words: string[]) => desk.start([...words, '--agent', 'agent.mjs'], environment);
  return { authorization, server, desk, start };
}

async function urlOf(login: Started): Promise<URL> {
  const [, url = ''] = /(http:\/\/127\S*authorize\?[^\s"]*)/.exec(await login.printed('state=')) ?? [];
  return new URL(url);
}

/** What the browser does: asks the authorization server, and returns to where it sends it. */
async function follow(url: URL, change: (target: URL) => void = () => {}): Promise<Response> {
  const response = await fetch(url, { redirect: 'manual' });
  const target = new URL(response.headers.get('location') ?? '');
  change(target);
  return await fetch(target);
}

function hasSecret(text: string, authorization: AuthorizationServer): boolean {
  return authorization.secrets.length > 0 && authorization.secrets.some(secret => text.includes(secret));
}

test('mcp login signs in with a browser; runs then use the tools, and no token is in what they leave', async () => {
  const { authorization, server, desk, start } = await open();
  const before = await start('run', 'go').ended;
  expect([before.code, before.stdout]).toEqual([3, expect.stringContaining('agentchart mcp login crm')]);

  const login = start('mcp', 'login', 'crm', '--no-browser');
  const page = await follow(await urlOf(login));
  expect([page.status, await page.text()]).toEqual([
    200,
    expect.stringContaining('You are signed in at crm.'),
  ]);
  const ended = await login.ended;
  expect(ended).toMatchObject({ code: 0, stderr: '' });
  expect(ended.stdout).toContain(`Signed in at "crm" through ${authorization.issuer}.`);
  expect(ended.stdout).toMatch(/Run run_\w+ continued: finished\./);
  expect(server.ran).toEqual(['echo']);

  authorization.expire();
  const run = await start('run', 'go', '--json').ended;
  expect(run.code).toBe(0);
  expect(server.ran).toEqual(['echo', 'echo']);
  const runId = String(JSON.parse(run.stdout.split('\n')[0] ?? '').runId);
  const exported = await desk.run(['export', runId]);
  const shown = await desk.run(['show', runId, '--events', '--json']);
  const store = readFileSync(desk.store, 'latin1');
  const left = [before, ended, run, exported, shown].flatMap(({ stdout, stderr }) => [stdout, stderr]);
  expect([...left, store].filter(text => hasSecret(text, authorization))).toEqual([]);
  expect(hasSecret(readFileSync(desk.path('home/credentials.db'), 'latin1'), authorization)).toBe(true);

  const logout = await start('mcp', 'logout', 'crm').ended;
  expect(logout.stdout).toContain('Signed out of "crm" on this machine.');
  expect((await start('run', 'go').ended).stdout).toContain('agentchart mcp login crm');
});

test('mcp login --json prints the URL and who signed in where, and nothing else', async () => {
  const { authorization, server, start } = await open();
  const login = start('mcp', 'login', 'crm', '--json');
  await follow(await urlOf(login));
  const { stdout } = await login.ended;
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line));
  expect(lines).toEqual([
    {
      type: 'sign-in',
      server: 'crm',
      url: expect.stringContaining('/authorize?'),
      expiresAt: expect.any(Number),
    },
    { type: 'signed-in', server: 'crm', url: server.url, issuer: authorization.issuer, scopes: [] },
  ]);
});

test('mcp login waits on for its own answer when another comes first', async () => {
  const { start } = await open();
  const login = start('mcp', 'login', 'crm', '--no-browser');
  const url = await urlOf(login);
  const foreign = await follow(url, target => target.searchParams.set('state', 'another'));
  expect([foreign.status, await foreign.text()]).toEqual([400, 'This is not the sign-in that was begun.\n']);
  const elsewhere = await follow(url, target => {
    target.pathname = '//';
  });
  expect(elsewhere.status).toBe(404);
  expect((await follow(url)).status).toBe(200);
  expect((await login.ended).code).toBe(0);
});

test('mcp login fails with the reason when the answer is of another issuer, or a refusal', async () => {
  const { start } = await open();
  const mixed = start('mcp', 'login', 'crm', '--no-browser');
  const page = await follow(await urlOf(mixed), ({ searchParams }) =>
    searchParams.set('iss', 'https://evil.example'),
  );
  expect([page.status, await page.text()]).toEqual([400, 'The sign-in failed. The terminal says why.\n']);
  expect(await mixed.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('Issuer mismatch') });

  const refused = start('mcp', 'login', 'crm', '--no-browser');
  await follow(await urlOf(refused), ({ searchParams }) => {
    searchParams.delete('code');
    searchParams.set('error', 'access_denied');
  });
  expect(await refused.ended).toMatchObject({ code: 1, stderr: expect.stringContaining('"access_denied"') });
});

test('mcp login finds the servers of sub-agents, and names those there are', async () => {
  const tools = "below.asTool({ name: 'ask', description: 'Asks.' })";
  const { start } = await open('', tools);
  const unknown = await start('mcp', 'login', 'wiki').ended;
  expect(unknown).toMatchObject({
    code: 2,
    stderr: 'The agent "desk" has no MCP server "wiki" where people sign in. It has "crm".\n',
  });
});

test('mcp login explains a server without sign-ins, and a place of return that is not here', async () => {
  const without = await open('credentials: false,');
  expect((await without.start('mcp', 'login', 'crm').ended).stderr).toContain(
    'has no MCP server where people sign in',
  );
  const elsewhere = await open("oauth: { redirectUrl: 'https://app.example/callback' },");
  expect((await elsewhere.start('mcp', 'login', 'crm').ended).stderr).toContain(
    'returns to https://app.example/callback: begin it there',
  );
});

test('mcp login returns to the port of the options, and says if it is taken', async () => {
  const blocker = createServer().listen(0, '127.0.0.1');
  await new Promise(resolve => blocker.once('listening', resolve));
  const address = blocker.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const { start } = await open(`oauth: { redirectUrl: 'http://127.0.0.1:${port}/back' },`);
  const taken = await start('mcp', 'login', 'crm').ended;
  expect(taken).toMatchObject({ code: 2, stderr: expect.stringContaining('EADDRINUSE') });
  await new Promise(resolve => blocker.close(resolve));
  const login = start('mcp', 'login', 'crm', '--no-browser');
  const url = await urlOf(login);
  expect(url.searchParams.get('redirect_uri')).toBe(`http://127.0.0.1:${port}/back`);
  await follow(url);
  expect((await login.ended).code).toBe(0);
});

test.skipIf(!HAS_TERMINAL).each(['a browser', 'none'])(
  'mcp login on a terminal prints the URL, and opens it if it can: %s',
  async browser => {
    const { desk, authorization } = await open();
    desk.write('xdg-open', `#!/bin/sh\nexec '${process.execPath}' -e 'fetch(process.argv[1])' "$1"\n`);
    chmodSync(desk.path('xdg-open'), 0o755);
    const path = browser === 'none' ? desk.path('home') : desk.folder;
    const words = [process.execPath, MAIN, 'mcp', 'login', 'crm', '--agent', 'agent.mjs'];
    const line = `PATH='${path}' ${words.map(word => `'${word}'`).join(' ')}`;
    const login = new Started('script', ['-qec', line, '/dev/null'], desk.folder, {
      PATH: process.env.PATH,
      AGENTCHART_HOME: desk.path('home'),
    });
    const url = await urlOf(login);
    if (browser === 'none') await follow(url);
    const ended = await login.ended;
    expect([ended.code, ended.stdout]).toEqual([
      0,
      expect.stringContaining(`through ${authorization.issuer}`),
    ]);
  },
);
