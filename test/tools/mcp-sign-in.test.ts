import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { InDoubt } from '../../protocol/error.ts';
import { type CredentialStore, credentialsFile, type McpOptions, mcp } from '../../tools/mcp.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';
import { rejectionOf, runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk } from '../support/tools/http-desk.ts';
import { type AuthorizationServerOptions, visit } from '../support/tools/oauth/authorization-server.ts';
import {
  closeProtected,
  type ProtectedOptions,
  startAuthorization,
  startProtected,
} from '../support/tools/oauth/protected-desk.ts';

const REDIRECT = 'http://127.0.0.1:41717/callback';

afterEach(async () => {
  vi.useRealTimers();
  await closeDesks();
  await closeProtected();
});

function inMemory(entries = new Map<string, string>()): CredentialStore & { entries: Map<string, string> } {
  return {
    entries,
    get: async key => entries.get(key),
    set: async (key, value) => void (value === null ? entries.delete(key) : entries.set(key, value)),
  };
}

async function begin(
  given: {
    authorization?: AuthorizationServerOptions;
    server?: ProtectedOptions;
    oauth?: Extract<McpOptions, { url: string }>['oauth'];
    credentials?: CredentialStore;
  } = {},
) {
  const authorization = await startAuthorization(given.authorization);
  const server = await startProtected(authorization, given.server);
  const credentials = given.credentials ?? inMemory();
  const source = desk(server.url, { credentials, ...(given.oauth && { oauth: given.oauth }) });
  return { authorization, server, credentials, source, signIn: signInOf(source) };
}

function signInOf(source: ReturnType<typeof desk>) {
  if (source.signIn === undefined) throw new Error('the source has no sign-in');
  return source.signIn;
}

type Begun = Awaited<ReturnType<typeof begin>>;

async function signedIn(given: Parameters<typeof begin>[0] = {}): Promise<Begun> {
  const begun = await begin(given);
  await signInAt(begun.signIn);
  return begun;
}

async function signInAt(signIn: Begun['signIn']) {
  const { url } = await signIn.begin({ redirectUrl: REDIRECT });
  return await signIn.complete(await visit(url));
}

async function echo({ source }: Pick<Begun, 'source'>): Promise<unknown> {
  return await runTool(await source.connect(), 'echo', { text: 'hello' });
}

const inOne = (authorization: Begun['authorization'], path: string) =>
  authorization.seen.filter(request => request.path === path);

describe('signing in at an MCP server', () => {
  it('registers the client, asks with PKCE for the resource, and calls with the token', async () => {
    const { authorization, server, source, signIn } = await begin();
    const { url, state } = await signIn.begin({ redirectUrl: REDIRECT });
    const asked = Object.fromEntries(new URL(url).searchParams);
    expect(asked).toMatchObject({
      response_type: 'code',
      code_challenge_method: 'S256',
      redirect_uri: REDIRECT,
      resource: server.url,
      state,
    });
    const answer = await visit(url);
    expect(await signIn.complete(answer)).toEqual({
      server: 'desk',
      url: server.url,
      issuer: authorization.issuer,
      scopes: [],
    });
    expect(await echo({ source })).toBe('hello');
    expect(inOne(authorization, '/token')[0]?.body.get('resource')).toBe(server.url);
  });

  it('is needed before the first connection, which says where and how, and leaves nothing behind', async () => {
    const credentials = inMemory();
    const { server, source } = await begin({ credentials });
    const error = await rejectionOf(source.connect());
    expect(error).toMatchObject({
      code: 'sign-in-needed',
      details: { server: 'desk', url: server.url },
      message: expect.stringContaining('agentchart mcp login desk --agent MODULE'),
    });
    expect(credentials.entries.size).toBe(0);
    await signInAt(signInOf(source));
    expect(await echo({ source })).toBe('hello');
  });

  it('can begin in one process and end in another', async () => {
    const file = join(makeTemporaryFolder('sign-in'), 'credentials.db');
    const { server, signIn } = await begin({ credentials: credentialsFile(file) });
    const answer = await visit((await signIn.begin({ redirectUrl: REDIRECT })).url);
    const other = desk(server.url, { credentials: credentialsFile(file) });
    await signInOf(other).complete(answer);
    expect(await echo({ source: other })).toBe('hello');
  });

  it('uses the document of the client where the authorization server takes one, and registers nothing', async () => {
    const id = 'https://app.example/client.json';
    const { authorization, source } = await signedIn({
      authorization: { documents: { [id]: { client_id: id, redirect_uris: [REDIRECT] } } },
      oauth: { clientMetadataUrl: id },
    });
    expect(await echo({ source })).toBe('hello');
    expect(authorization.paths()).not.toContain('/register');
  });

  it('registers the client where the authorization server takes no document', async () => {
    const { authorization } = await signedIn({
      authorization: { metadata: { client_id_metadata_document_supported: undefined } },
      oauth: { clientMetadataUrl: 'https://app.example/client.json' },
    });
    expect(authorization.paths()).toContain('/register');
  });

  it('reuses a registration for the same place of return only', async () => {
    const { authorization, signIn } = await signedIn();
    await signInAt(signIn);
    expect(inOne(authorization, '/register')).toHaveLength(1);
    const { url } = await signIn.begin({ redirectUrl: 'http://127.0.0.1:41718/callback' });
    await signIn.complete(await visit(url));
    expect(inOne(authorization, '/register')).toHaveLength(2);
  });

  it('uses a client that was registered before, with its secret', async () => {
    const authorization = await startAuthorization({
      clients: [{ id: 'known', secret: 'client-secret-1', redirectUris: [REDIRECT] }],
    });
    const server = await startProtected(authorization);
    const { issuer } = authorization;
    const oauth = { clientId: 'known', clientSecret: 'client-secret-1', issuer };
    const credentials = inMemory();
    const source = desk(server.url, { credentials, oauth });
    await signInAt(signInOf(source));
    authorization.expire();
    expect(await echo({ source })).toBe('hello');
    expect(authorization.paths()).not.toContain('/register');
    expect([...credentials.entries.values()].join()).not.toContain('client-secret-1');
  });

  it('uses the secret that the options have now, at its issuer only', async () => {
    const [authorization, other] = [await startAuthorization(), await startAuthorization()];
    const known = { id: 'known', secret: 'client-secret-1', redirectUris: [REDIRECT] };
    authorization.register(known);
    const server = await startProtected(authorization);
    const credentials = inMemory();
    const withSecret = (clientSecret: string, { issuer } = authorization) =>
      desk(server.url, { credentials, oauth: { clientId: 'known', clientSecret, issuer } });
    await signInAt(signInOf(withSecret('client-secret-1')));
    authorization.register({ ...known, secret: 'client-secret-2' });
    authorization.expire();
    const moved = withSecret('client-secret-2', other);
    expect(await rejectionOf(moved.connect())).toMatchObject({ code: 'sign-in-needed' });
    expect(server.seen.at(-1)?.headers.get('authorization')).toBe(null);
    expect(await echo({ source: withSecret('client-secret-2') })).toBe('hello');
    expect(JSON.stringify([...other.seen, authorization.seen])).not.toContain('client-secret-2');
  });

  it('says what to do where there is no authorization server', async () => {
    const server = await startProtected(await startAuthorization(), {
      instead: request =>
        new Response(null, { status: new URL(request.url).pathname === '/mcp' ? 401 : 404 }),
    });
    const source = desk(server.url, { credentials: inMemory() });
    const error = await rejectionOf(signInOf(source).begin({ redirectUrl: REDIRECT }));
    expect(String(error)).toMatch(/no metadata of an authorization server; if the MCP server takes a key/);
  });

  it('asks for the scopes of the challenge, or else for those of the options', async () => {
    const scopeOf = async (given: Parameters<typeof begin>[0]) => {
      const { signIn } = await begin(given);
      return new URL((await signIn.begin({ redirectUrl: REDIRECT })).url).searchParams.get('scope');
    };
    const listed = { scopes_supported: ['read', 'write'] };
    expect(await scopeOf({ server: { scope: 'read', resource: listed } })).toBe('read');
    expect(await scopeOf({ server: { resource: listed } })).toBe('read write');
    expect(await scopeOf({ server: { scope: 'read' }, oauth: { scopes: ['write'] } })).toBe('write');
    expect(await scopeOf({})).toBe(null);
  });

  it('keeps the credentials of two people apart', async () => {
    const { server, credentials } = await signedIn({ oauth: { user: 'alice' } });
    const bob = desk(server.url, { credentials, oauth: { user: 'bob' } });
    expect(await rejectionOf(bob.connect())).toMatchObject({ code: 'sign-in-needed' });
  });

  it('is forgotten by signing out', async () => {
    const credentials = inMemory();
    const { source, signIn } = await signedIn({ credentials });
    expect(await signIn.signOut()).toBe(true);
    expect(await signIn.signOut()).toBe(false);
    expect(credentials.entries.size).toBe(0);
    expect(await rejectionOf(source.connect())).toMatchObject({ code: 'sign-in-needed' });
  });

  it('is not offered for a process, with a token in the headers, or without credentials', async () => {
    const { server } = await begin();
    expect(mcp({ command: 'node' }).signIn).toBeUndefined();
    expect(mcp({ url: server.url, headers: { authorization: 'Bearer x' } }).signIn).toBeUndefined();
    const source = desk(server.url, { credentials: false });
    expect(source.signIn).toBeUndefined();
    expect(await rejectionOf(source.connect())).toMatchObject({ code: 'tool-source-failed' });
  });

  it.each([
    [{ clientSecret: 's', issuer: 'https://login.example' }, /`oauth.clientSecret` needs `clientId`/],
    [{ clientId: 'c' }, /`oauth.clientId` needs `issuer`/],
    [{ clientMetadataUrl: 'http://app.example/client.json' }, /https URL with a path/],
    [{ redirectUrl: 'http://app.example/callback' }, /an https URL, or an http URL of this machine/],
    [{ scopes: ['read write'] }, /scopes without spaces/],
    [{ scopes: 'read' as never }, /a list of scopes/],
    [{ user: '' }, /texts that are not empty/],
  ])('refuses the options %j', (oauth, message) => {
    expect(() => mcp({ url: 'https://desk.example/mcp', oauth })).toThrow(message);
  });
});

it('refuses credentials that are no store', () => {
  const credentials = { get: async () => null } as never;
  expect(() => mcp({ url: 'https://desk.example/mcp', credentials })).toThrow(
    /the functions `get` and `set`/,
  );
  const headers = { authorization: 'Bearer x' };
  expect(() => mcp({ url: 'https://desk.example/mcp', headers, credentials: inMemory() })).toThrow(
    /not both/,
  );
  expect(() => mcp({ url: 'https://desk.example/mcp', headers, oauth: {} })).toThrow(
    /`oauth` needs `credentials`/,
  );
});

describe('the answer of an authorization server', () => {
  async function refusal(begun: Begun, change: (answer: Awaited<ReturnType<typeof visit>>) => object) {
    const answer = await visit((await begun.signIn.begin({ redirectUrl: REDIRECT })).url);
    const given = { ...answer, ...change(answer) };
    const error = await rejectionOf(begun.signIn.complete(given));
    expect(error).toMatchObject({ code: 'sign-in-failed' });
    return { message: String(error), given };
  }

  it.each(['https://evil.example', '', 'upper'])('is refused with another issuer: %s', async iss => {
    const begun = await begin();
    const { message } = await refusal(begun, answer => ({
      iss: iss === 'upper' ? answer.iss?.replace('http', 'HTTP') : iss,
    }));
    expect(message).toMatch(/Issuer mismatch in authorization response/);
    expect(begun.authorization.paths()).not.toContain('/token');
  });

  it('is refused without an issuer if the metadata promises one', async () => {
    const begun = await begin({ authorization: { iss: null } });
    expect((await refusal(begun, () => ({}))).message).toMatch(/Issuer mismatch/);
    expect(begun.authorization.paths()).not.toContain('/token');
  });

  it('may lack an issuer that the metadata does not promise, but not have another one', async () => {
    const metadata = { authorization_response_iss_parameter_supported: undefined };
    const { source } = await signedIn({ authorization: { iss: null, metadata } });
    expect(await echo({ source })).toBe('hello');
    const begun = await begin({ authorization: { iss: 'https://evil.example', metadata } });
    expect((await refusal(begun, () => ({}))).message).toMatch(/Issuer mismatch/);
  });

  it('ends the sign-in of its state: it works once', async () => {
    const { signIn } = await begin();
    const answer = await visit((await signIn.begin({ redirectUrl: REDIRECT })).url);
    await signIn.complete(answer);
    expect(String(await rejectionOf(signIn.complete(answer)))).toMatch(/unknown, used or older/);
  });

  it('ends the sign-in of its state also if it is refused', async () => {
    const begun = await begin();
    const { given } = await refusal(begun, () => ({ iss: 'https://evil.example' }));
    const again = begun.signIn.complete({ ...given, iss: begun.authorization.issuer });
    expect(String(await rejectionOf(again))).toMatch(/unknown, used or older/);
  });

  it('is refused with another state, and after 10 minutes', async () => {
    const { signIn } = await begin();
    const { url, state } = await signIn.begin({ redirectUrl: REDIRECT });
    const answer = await visit(url);
    for (const wrong of ['', 'x', `${state}x`])
      expect(await rejectionOf(signIn.complete({ ...answer, state: wrong }))).toMatchObject({
        code: 'sign-in-failed',
      });
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 10 * 60_000 + 1 });
    expect(String(await rejectionOf(signIn.complete(answer)))).toMatch(/older than 10 minutes/);
  });

  it('belongs to one of the last 8 sign-ins that were begun', async () => {
    const { signIn } = await begin();
    const first = await signIn.begin({ redirectUrl: REDIRECT });
    const more = [];
    for (let n = 0; n < 8; n += 1) more.push(await signIn.begin({ redirectUrl: REDIRECT }));
    expect(await rejectionOf(signIn.complete(await visit(first.url)))).toMatchObject({
      code: 'sign-in-failed',
    });
    await signIn.complete(await visit(more[0]?.url ?? ''));
  });

  it('may be an error, whose description is not shown', async () => {
    const begun = await begin();
    const { message } = await refusal(begun, () => ({ code: undefined, error: 'access_denied' }));
    expect(message).toMatch(/answered "access_denied"/);
  });

  it('is an error only of the issuer that was asked', async () => {
    const begun = await begin();
    const wrong = { code: undefined, error: 'call-0900-evil', iss: 'https://evil.example' };
    const { message } = await refusal(begun, () => wrong);
    expect(message).not.toContain('call-0900-evil');
  });

  it('does not reach another authorization server that the MCP server names meanwhile', async () => {
    const evil = await startAuthorization();
    const resource: { authorization_servers?: string[] } = {};
    const { authorization, signIn } = await begin({ server: { resource } });
    const answer = await visit((await signIn.begin({ redirectUrl: REDIRECT })).url);
    resource.authorization_servers = [evil.issuer];
    await signIn.complete(answer);
    expect(authorization.paths()).toContain('/token');
    expect(evil.paths()).toEqual([]);
  });

  it.each(['', ' token-0900', 'token-0900\nx: y', 'token-漢'])(
    'is refused with a token that no header can carry: %j',
    async token => {
      const tokens = { access_token: token, token_type: 'Bearer' };
      const begun = await begin({
        authorization: { instead: (_, path) => (path === '/token' ? Response.json(tokens) : undefined) },
      });
      const { message } = await refusal(begun, () => ({}));
      expect(message).toMatch(/the access token has other characters than a header can carry, or none/);
      expect(message).not.toContain('token-');
    },
  );

  it('reveals neither code, verifier nor token in its error', async () => {
    const begun = await begin({
      authorization: {
        instead: async (request, path) =>
          path === '/token'
            ? Response.json(
                { error: 'invalid_request', error_description: await request.text() },
                { status: 400 },
              )
            : undefined,
      },
    });
    const { message, given } = await refusal(begun, () => ({}));
    expect(message).toContain('***');
    expect(message).not.toContain(given.code);
    const verifier = begun.authorization.seen.at(-1)?.body.get('code_verifier') ?? 'none';
    expect(message).not.toContain(verifier);
  });
});

describe('a token that has ended', () => {
  it('is refreshed within the session, and the call is made once', async () => {
    const { authorization, server, source } = await signedIn();
    const tools = await source.connect();
    authorization.expire();
    expect(await runTool(tools, 'echo', { text: 'again' })).toBe('again');
    expect(server.ran).toEqual(['echo']);
    expect(authorization.grants('refresh_token')).toBe(1);
  });

  it('is refreshed once for calls at the same time', async () => {
    const { authorization, source } = await signedIn();
    const tools = await source.connect();
    authorization.expire();
    const texts = ['a', 'b', 'c', 'd'];
    expect(await Promise.all(texts.map(text => runTool(tools, 'echo', { text })))).toEqual(texts);
    expect(authorization.grants('refresh_token')).toBe(1);
  });

  it('is refreshed once by two processes at the same time', async () => {
    const file = join(makeTemporaryFolder('sign-in'), 'credentials.db');
    const both = Promise.withResolvers<void>();
    let refusals = 0;
    const { authorization, server } = await signedIn({
      credentials: credentialsFile(file),
      authorization: {
        instead: async (_request, path) => {
          if (path === '/token' && refusals > 0) await both.promise;
          return undefined;
        },
      },
    });
    authorization.expire();
    const guarded = server.instead;
    server.instead = async (request, says) => {
      const answer = await guarded?.(request, says);
      if (answer?.status === 401) refusals += 1;
      if (refusals === 2) both.resolve();
      return answer;
    };
    const script = fileURLToPath(new URL('../support/tools/oauth/call-echo.ts', import.meta.url));
    const run = () => promisify(execFile)(process.execPath, [script, server.url, file]);
    const results = await Promise.all([run(), run()]);
    expect(results.map(({ stdout }) => stdout.trim())).toEqual(['hello', 'hello']);
    expect(authorization.grants('refresh_token')).toBe(1);
  });

  it('is refreshed once by two sources with a store that cannot lock', async () => {
    const { authorization, server, credentials, source } = await signedIn();
    const other = desk(server.url, { credentials });
    await Promise.all([source.connect(), other.connect()]);
    authorization.expire();
    expect(await Promise.all([echo({ source }), echo({ source: other })])).toEqual(['hello', 'hello']);
    expect(authorization.grants('refresh_token')).toBe(1);
  });

  it('needs a sign-in once its grant is revoked, and the call was surely not made', async () => {
    const { authorization, server, source, signIn } = await signedIn();
    const tools = await source.connect();
    authorization.revoke();
    const error = await rejectionOf(runTool(tools, 'hold'));
    expect(error).toMatchObject({ code: 'sign-in-needed' });
    expect(error).not.toBeInstanceOf(InDoubt);
    expect(server.ran).toEqual([]);
    await rejectionOf(runTool(tools, 'hold'));
    expect(authorization.grants('refresh_token')).toBe(1);
    await signInAt(signIn);
    expect(await runTool(tools, 'echo', { text: 'back' })).toBe('back');
  });

  it('registers anew at the next sign-in if the client is gone', async () => {
    const { authorization, source, signIn } = await signedIn();
    authorization.expire();
    authorization.forgetClients();
    expect(await rejectionOf(source.connect())).toMatchObject({ code: 'sign-in-needed' });
    await signInAt(signIn);
    expect(inOne(authorization, '/register')).toHaveLength(2);
    expect(await echo({ source })).toBe('hello');
  });

  it('stays if the authorization server fails for a while', async () => {
    let isDown = false;
    const { authorization, source } = await signedIn({
      authorization: { instead: () => (isDown ? new Response('down', { status: 503 }) : undefined) },
    });
    authorization.expire();
    isDown = true;
    const error = await rejectionOf(source.connect());
    expect(error).toMatchObject({ code: 'tool-source-failed' });
    expect(String(error)).toContain('could not be refreshed');
    isDown = false;
    expect(await echo({ source })).toBe('hello');
  });

  it('is not refreshed again if the server refuses the new one too', async () => {
    const { authorization, server, source } = await signedIn();
    server.instead = (_request, says) => (says === 'GET' ? undefined : new Response('no', { status: 401 }));
    expect(await rejectionOf(source.connect())).toMatchObject({ code: 'sign-in-needed' });
    expect(authorization.grants('refresh_token')).toBe(1);
  });

  it('is refreshed at the issuer that gave it, whatever the server names by now', async () => {
    const evil = await startAuthorization();
    const resource: { authorization_servers?: string[] } = {};
    const { authorization, source } = await signedIn({ server: { resource } });
    resource.authorization_servers = [evil.issuer];
    authorization.expire();
    expect(await echo({ source })).toBe('hello');
    expect(evil.paths()).toEqual([]);
  });
});

describe('a scope that is missing', () => {
  it('needs a sign-in, which asks for it besides the earlier ones', async () => {
    const { authorization, server, source, signIn } = await signedIn({
      server: { scope: 'read', callScope: 'write' },
    });
    const tools = await source.connect();
    const error = await rejectionOf(runTool(tools, 'hold'));
    expect(error).toMatchObject({
      code: 'sign-in-needed',
      details: { server: 'desk', url: server.url, scope: 'write' },
    });
    expect(server.ran).toEqual([]);
    expect(authorization.grants('refresh_token')).toBe(0);
    expect((await signInAt(signIn)).scopes).toEqual(['read', 'write']);
    expect(await runTool(tools, 'echo', { text: 'now' })).toBe('now');
  });

  it('is shown and asked for only if it is a scope', async () => {
    const { source, signIn } = await signedIn({ server: { callScope: 'write\\x' } });
    const error = await rejectionOf(runTool(await source.connect(), 'echo'));
    expect(error).toMatchObject({ code: 'sign-in-needed' });
    expect(String(error)).not.toContain('write');
    const { url } = await signIn.begin({ redirectUrl: REDIRECT });
    expect(new URL(url).searchParams.get('scope')).toBe(null);
  });
});

describe('a hostile MCP server', () => {
  async function refusedBy(given: Parameters<typeof begin>[0]): Promise<string> {
    const { signIn } = await begin(given);
    const error = await rejectionOf(signIn.begin({ redirectUrl: REDIRECT }));
    expect(error).toMatchObject({ code: 'sign-in-failed' });
    return String(error);
  }

  it.each([
    'http://169.254.169.254/latest/meta-data',
    'https://10.0.0.7/metadata',
    'http://desk.example/metadata',
    'file:///etc/passwd',
    'https://user:word@desk.example/metadata',
  ])('cannot have its metadata fetched from %s', async resourceMetadata => {
    expect(await refusedBy({ server: { resourceMetadata } })).toMatch(
      /only https URLs with a host name are trusted/,
    );
  });

  it.each(['http://169.254.169.254', 'https://[fd00::1]', 'file:///etc', 'http://login.example'])(
    'cannot name the authorization server %s',
    async server => {
      expect(await refusedBy({ server: { resource: { authorization_servers: [server] } } })).toMatch(
        /only https URLs with a host name are trusted|sign-in to the MCP server "desk" failed/,
      );
    },
  );

  it.each(['javascript:alert(1)', 'file:///etc/passwd', 'http://evil.example/authorize'])(
    'cannot send the browser to %s',
    async endpoint => {
      await refusedBy({ authorization: { metadata: { authorization_endpoint: endpoint } } });
    },
  );

  it('cannot have tokens sent in plain text', async () => {
    const metadata = { token_endpoint: 'http://evil.example/token' };
    expect(await refusedBy({ authorization: { metadata } })).toMatch(/only https URLs/);
  });

  it('cannot name addresses of this machine from outside', async () => {
    const here = await startAuthorization();
    const outside = (input: string | URL) => {
      const { pathname, hostname } = new URL(input);
      if (hostname !== 'desk.example') throw new Error(`fetched ${input}`);
      if (!pathname.startsWith('/.well-known/')) return new Response(null, { status: 401 });
      return Response.json({ resource: 'https://desk.example/mcp', authorization_servers: [here.issuer] });
    };
    const source = desk('https://desk.example/mcp', {
      credentials: inMemory(),
      fetch: async input => outside(input),
    });
    const error = await rejectionOf(signInOf(source).begin({ redirectUrl: REDIRECT }));
    expect(String(error)).toMatch(/not this machine/);
    expect(here.paths()).toEqual([]);
  });

  it('cannot pass for the resource of another server', async () => {
    const resource = { resource: 'https://bank.example/mcp' };
    expect(await refusedBy({ server: { resource } })).toMatch(/does not match expected/);
  });

  it('cannot have the authorization server of another issuer', async () => {
    expect(await refusedBy({ authorization: { metadata: { issuer: 'https://honest.example' } } })).toMatch(
      /Issuer mismatch in authorization server metadata/,
    );
  });

  it('cannot replace the issuer of the options, which has the secret', async () => {
    const evil = await startAuthorization();
    const oauth = { clientId: 'known', clientSecret: 'client-secret-1', issuer: 'https://login.example' };
    const server = await startProtected(evil);
    const source = desk(server.url, { credentials: inMemory(), oauth });
    const error = await rejectionOf(signInOf(source).begin({ redirectUrl: REDIRECT }));
    expect(String(error)).toMatch(/`oauth.issuer` is https:\/\/login.example/);
    expect(JSON.stringify(evil.seen)).not.toContain('client-secret-1');
  });

  it.each([undefined, ['plain']])(
    'gets no sign-in without PKCE: %j',
    async code_challenge_methods_supported => {
      const metadata = { code_challenge_methods_supported };
      expect(await refusedBy({ authorization: { metadata } })).toMatch(/PKCE with S256/);
    },
  );

  it('cannot fill the memory with its documents', async () => {
    const padding = 'x'.repeat(300 * 1024);
    expect(await refusedBy({ authorization: { metadata: { padding } } })).toMatch(/which is the limit/);
  });

  it('cannot redirect a request with a token to another origin', async () => {
    const other = await startAuthorization();
    const { server, source } = await signedIn();
    const tools = await source.connect();
    server.instead = () => new Response(null, { status: 307, headers: { location: `${other.issuer}/mcp` } });
    await rejectionOf(runTool(tools, 'echo'));
    expect(other.paths()).toEqual([]);
  });

  it('cannot have a code or a refresh token redirected to another origin', async () => {
    const other = await startAuthorization();
    let isTurned = false;
    const { authorization, source, signIn } = await signedIn({
      authorization: {
        instead: (_request, path) =>
          isTurned && path === '/token'
            ? new Response(null, { status: 307, headers: { location: `${other.issuer}/token` } })
            : undefined,
      },
    });
    isTurned = true;
    authorization.expire();
    await rejectionOf(source.connect());
    await rejectionOf(signInAt(signIn));
    expect(other.paths()).toEqual([]);
  });

  it('gets only tokens that were issued for it', async () => {
    const { server, credentials, authorization } = await signedIn();
    const evil = await startProtected(authorization);
    const source = desk(evil.url, { credentials });
    expect(await rejectionOf(source.connect())).toMatchObject({ code: 'sign-in-needed' });
    const sent = evil.seen.map(({ headers }) => headers.get('authorization'));
    expect(sent.filter(header => header !== null)).toEqual([]);
    expect(server.url).not.toBe(evil.url);
  });

  it('cannot have a token shown that it repeats in an error, also not an earlier one', async () => {
    const { authorization, server, source } = await signedIn();
    const tools = await source.connect();
    authorization.expire();
    await runTool(tools, 'echo');
    server.instead = () => new Response(`bad tokens ${authorization.secrets.slice(-4)}`, { status: 400 });
    const message = String(await rejectionOf(runTool(tools, 'echo')));
    expect(message).toContain('bad tokens ***');
    for (const secret of authorization.secrets) expect(message).not.toContain(secret);
  });
});

describe('the file of credentials', () => {
  it('can be read by its user only, and has no trace of what was deleted', async () => {
    const folder = join(makeTemporaryFolder('sign-in'), 'home');
    const file = join(folder, 'credentials.db');
    const { authorization, source, signIn } = await signedIn({ credentials: credentialsFile(file) });
    expect(await echo({ source })).toBe('hello');
    expect((statSync(file).mode & 0o777).toString(8)).toBe('600');
    expect((statSync(folder).mode & 0o777).toString(8)).toBe('700');
    await signIn.signOut();
    const left = await readFile(file, 'latin1');
    for (const secret of authorization.secrets) expect(left).not.toContain(secret);
  });

  it('keeps what was set before `work` failed', async () => {
    const store = credentialsFile(join(makeTemporaryFolder('sign-in'), 'credentials.db'));
    const work = store.exclusively?.(async ({ set }) => {
      await set('key', 'value');
      throw new Error('stopped');
    });
    await expect(work).rejects.toThrow('stopped');
    expect(await store.get('key')).toBe('value');
  });

  it('can be read while a process changes it, and changed once that process is killed', async () => {
    const file = join(makeTemporaryFolder('sign-in'), 'credentials.db');
    const store = credentialsFile(file);
    await store.set('key', 'whole');
    const script = fileURLToPath(new URL('../support/tools/oauth/hold-credentials.ts', import.meta.url));
    const child = spawn(process.execPath, [script, file], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    expect(await store.get('key')).toBe('whole');
    let isSet = false;
    const setting = store.set('other', 'value').then(() => {
      isSet = true;
    });
    expect(await store.get('other')).toBe(null);
    expect(isSet).toBe(false);
    child.kill('SIGKILL');
    await setting;
    expect(await store.get('key')).toBe('whole');
    expect(await store.get('other')).toBe('value');
  });

  it('says what to do if it is damaged', async () => {
    const file = join(makeTemporaryFolder('sign-in'), 'credentials.db');
    const { writeFile } = await import('node:fs/promises');
    await writeFile(file, 'not a database, but long enough to be taken for one'.repeat(100));
    const error = await rejectionOf(credentialsFile(file).get('key'));
    expect(error).toMatchObject({ code: 'store-unavailable', message: expect.stringContaining(file) });
  });

  it('is not created by reading', async () => {
    const file = join(makeTemporaryFolder('sign-in'), 'credentials.db');
    expect(await credentialsFile(file).get('key')).toBe(null);
    expect(statSync(file, { throwIfNoEntry: false })).toBeUndefined();
  });
});
