import { randomBytes, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import type {
  AuthorizationServerMetadata,
  AuthProvider,
  OAuthClientProvider,
  OAuthTokens,
} from '@modelcontextprotocol/client';
import * as z from 'zod';
import { EngineError, isThrown, messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { SignedIn, SignInAnswer, SignInRequest, ToolSignIn } from '../../protocol/tool.ts';
import { boundAnswers } from './bound-answers.ts';
import { type CredentialStore, exclusively } from './credentials.ts';
import { maskSecrets, quoteServerText } from './redact-secrets.ts';

/** How an MCP server's authorization server knows this client. Without options, the client registers itself there. */
export type OAuthOptions = {
  /** The id of a client that was registered at the `issuer` before. */
  clientId?: string;
  clientSecret?: string;
  /**
   * The https URL of a document that describes this client, which is its id at authorization servers that support it.
   * Source: https://datatracker.ietf.org/doc/html/draft-ietf-oauth-client-id-metadata-document-00
   */
  clientMetadataUrl?: string;
  /** The only authorization server that may sign people in. Default: the one that the MCP server names. */
  issuer?: string;
  /** What to ask for. Default: what the server asks for, or all that it lists. */
  scopes?: readonly string[];
  /** Where the browser returns to: an https URL, or http on this machine. Default: that of each `begin`. */
  redirectUrl?: string;
  /** Whose credentials these are, among several people with one store. Default: one person. */
  user?: string;
};

type Fetch = (input: string | URL, init?: RequestInit) => Promise<Response>;

/** Signing in at one server, and what its connection needs of it. @internal */
export type ServerSignIn = {
  signIn: ToolSignIn;
  authProvider: AuthProvider;
  /** `fetch` of the connection: remembers which token was refused, and which scope was missing. */
  watch(fetch: Fetch): Fetch;
  /** `sign-in-needed`; `scope` is what the server says is missing. */
  needed(scope?: string): EngineError;
  /** The tokens that were used last, to be masked in errors. */
  secrets(): Readonly<Record<string, string>>;
};

type SignInSettings = { credentials: CredentialStore; oauth?: OAuthOptions | undefined; timeoutMs: number };

const STATE_MS = 10 * 60_000;
const MOST_PENDING = 8;
const MOST_KNOWN = 20;
const MAX_SHOWN = 300;
const LARGEST_DOCUMENT_BYTES = 256 * 1024;

const clientSchema = z.object({
  client_id: z.string(),
  client_secret: z.string().optional(),
  token_endpoint_auth_method: z.string().optional(),
  redirect_uris: z.array(z.string()).optional(),
});
/** What stays the same from the request for authorization to the last refresh. */
const askedSchema = z.object({
  issuer: z.string(),
  client: clientSchema,
  resource: z.string().optional(),
  scope: z.string().optional(),
});
const grantSchema = askedSchema.extend({ access: z.string(), refresh: z.string().optional() });
const pendingSchema = askedSchema.extend({
  state: z.string(),
  verifier: z.string(),
  redirectUrl: z.string(),
  expiresAt: z.number(),
});
const accountSchema = z.object({
  grant: grantSchema.optional(),
  /** Scopes that the server has asked for since. */
  wanted: z.string().optional(),
  pending: z.array(pendingSchema).default([]),
});
type Client = z.infer<typeof clientSchema>;
type Asked = z.infer<typeof askedSchema>;
type Grant = z.infer<typeof grantSchema>;
type Pending = z.infer<typeof pendingSchema>;
type Account = z.infer<typeof accountSchema>;
type Change<Result> = { to?: Account; result: Result };

/** Source: https://datatracker.ietf.org/doc/html/rfc6749#section-3.3 */
const SCOPES = /^[\x20\x21\x23-\x5b\x5d-\x7e]{1,2000}$/;
const CLIENT_IS_GONE = ['invalid_client', 'unauthorized_client'];
const GRANT_IS_GONE = ['invalid_grant', ...CLIENT_IS_GONE];

/**
 * Signing people in at the authorization server of an MCP server. The official client discovers, registers, makes PKCE,
 * exchanges, refreshes and compares `iss`. Here is what it leaves open:
 *
 * S1 An access token goes to its MCP server only; a code, a refresh token and a client's secret go to the issuer that
 *    the sign-in began with.
 * S2 Processes that share a store refresh one at a time. The next ones take the new token instead of refreshing again.
 * S3 A state ends one sign-in, once, within 10 minutes, in any process with the store. At most 8 are pending.
 * S4 Addresses that a server names are https, or on this machine if the server is. None has credentials or another
 *    IP address than the server. Redirects stay within an origin.
 * S5 Without metadata that promises PKCE with S256, there is no sign-in.
 * @internal
 */
export function createSignIn(
  name: string,
  server: { url: string; shownUrl: string; headers: Readonly<Record<string, string>>; fetch: Fetch },
  { credentials: store, oauth = {}, timeoutMs }: SignInSettings,
): ServerSignIn {
  const url = new URL(server.url);
  url.hash = '';
  const key = `mcp ${JSON.stringify([oauth.user ?? '', url.href])}`;
  const fetchFn = trustingOnly(url, server.fetch, timeoutMs);
  const refused = new WeakMap<Response, string | undefined>();
  let known: readonly string[] = [];

  async function read(entries: Pick<CredentialStore, 'get'> = store): Promise<Account> {
    const text = (await entries.get(key)) ?? '{}';
    const account = accountSchema.safeParse(parse(text)).data ?? { pending: [] };
    remember(account);
    const { grant, ...rest } = account;
    const isForeign = oauth.issuer !== undefined && grant?.issuer !== oauth.issuer;
    return isForeign ? rest : account;
  }

  /** Changes the stored account; `change` returns the new one, or `undefined` to leave it. */
  async function update<Result>(
    change: (account: Account) => Change<Result> | Promise<Change<Result>>,
  ): Promise<Result> {
    return await exclusively(store, async entries => {
      const { to, result } = await change(await read(entries));
      if (to !== undefined) {
        const { grant, wanted, pending } = to;
        const isEmpty = grant === undefined && wanted === undefined && pending.length === 0;
        await entries.set(key, isEmpty ? null : JSON.stringify(to));
        remember(to);
      }
      return result;
    });
  }

  /** Keeps earlier secrets too: an error about the new token may quote the refused one. */
  function remember({ grant, pending }: Account): void {
    const ofClients = [grant, ...pending].map(asked => asked?.client.client_secret);
    const verifiers = pending.map(({ verifier }) => verifier);
    const secrets = [grant?.access, grant?.refresh, ...verifiers, ...ofClients];
    known = [...new Set([...secrets.filter(secret => secret !== undefined), ...known])].slice(0, MOST_KNOWN);
  }

  const secrets = () => Object.fromEntries([...known, oauth.clientSecret ?? ''].entries());

  function needed(missing?: string): EngineError {
    const scope = missing !== undefined && SCOPES.test(missing) ? missing : undefined;
    const more = scope === undefined ? ', or a token in `headers`' : ` with the scope "${scope}"`;
    return new EngineError(
      'sign-in-needed',
      `the MCP server "${name}" at ${server.shownUrl} needs a sign-in${more}. Run \`agentchart mcp login ${name} --agent MODULE\`.`,
      { server: name, url: server.shownUrl, ...omitUndefined({ scope }) },
    );
  }

  function failed(problem: string): EngineError {
    return new EngineError('sign-in-failed', `the sign-in to the MCP server "${name}" failed: ${problem}.`, {
      server: name,
      url: server.shownUrl,
    });
  }

  function reasonOf(error: unknown, more: Readonly<Record<string, string>> = {}): string {
    const cause = error instanceof Error && error.cause !== undefined ? `: ${messageOf(error.cause)}` : '';
    const redact = (text: string) =>
      maskSecrets(text, { ...secrets(), ...more })
        .replaceAll(/\s+/g, ' ')
        .trim();
    return quoteServerText(`${messageOf(error)}${cause}`, MAX_SHOWN, redact).replace(/\.$/, '');
  }

  /** What the server asks of someone without a token. */
  async function challenge() {
    const { extractWWWAuthenticateParams } = await import('@modelcontextprotocol/client');
    const response = await server.fetch(url, {
      method: 'POST',
      headers: {
        ...server.headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    });
    await response.body?.cancel();
    return response.status === 401 ? extractWWWAuthenticateParams(response) : {};
  }

  async function discover(issuer: string): Promise<AuthorizationServerMetadata> {
    const { discoverAuthorizationServerMetadata } = await import('@modelcontextprotocol/client');
    const metadata = await discoverAuthorizationServerMetadata(issuer, { fetchFn });
    return assertUsable(metadata, issuer, url);
  }

  async function begin({ redirectUrl = oauth.redirectUrl }: SignInRequest) {
    if (redirectUrl === undefined || !isReturnUrl(redirectUrl))
      throw new EngineError(
        'input-invalid',
        `expected redirectUrl to be an https URL, or an http URL of this machine, got ${JSON.stringify(redirectUrl ?? null)}.`,
      );
    try {
      const pending = await request(redirectUrl);
      const { state, expiresAt } = pending.entry;
      await update(account => {
        const open = account.pending.filter(isOpen).slice(1 - MOST_PENDING);
        return { to: { ...account, pending: [...open, pending.entry] }, result: undefined };
      });
      return { url: pending.url, state, expiresAt };
    } catch (error) {
      throw isThrown(error, EngineError) ? error : failed(reasonOf(error));
    }
  }

  /** Registers this client if necessary, and makes the URL that the person opens. */
  async function request(redirectUrl: string): Promise<{ url: string; entry: Pending }> {
    const { auth, computeScopeUnion, discoverOAuthServerInfo } = await import('@modelcontextprotocol/client');
    const { grant, wanted } = await read();
    const asked = await challenge();
    const info = await discoverOAuthServerInfo(url, {
      fetchFn,
      ...omitUndefined({ resourceMetadataUrl: asked.resourceMetadataUrl }),
    });
    const { issuer } = assertUsable(info.authorizationServerMetadata, info.authorizationServerUrl, url);
    if (oauth.issuer !== undefined && oauth.issuer !== issuer)
      throw new Error(`\`oauth.issuer\` is ${oauth.issuer}, and the server names ${issuer}`);
    const before = grant?.issuer === issuer ? grant : undefined;
    const scope = computeScopeUnion(oauth.scopes?.join(' ') ?? asked.scope, before?.scope, wanted);

    const own = ownClient(issuer);
    let client = own ?? (before?.client.redirect_uris?.includes(redirectUrl) ? before.client : undefined);
    let verifier = '';
    let target: URL | undefined;
    const state = randomBytes(32).toString('base64url');
    const provider: OAuthClientProvider = {
      redirectUrl,
      ...omitUndefined({ clientMetadataUrl: oauth.clientMetadataUrl }),
      clientMetadata: {
        client_name: 'agentchart',
        redirect_uris: [redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      },
      discoveryState: () => info,
      state: () => state,
      clientInformation: () => client && { ...client, issuer },
      saveClientInformation: information => {
        client = clientSchema.parse(information);
      },
      tokens: () => undefined,
      saveTokens: () => {},
      codeVerifier: () => verifier,
      saveCodeVerifier: made => {
        verifier = made;
      },
      redirectToAuthorization: made => {
        target = made;
      },
    };
    await auth(provider, { serverUrl: url, fetchFn, ...omitUndefined({ scope }) });
    if (target === undefined || client === undefined)
      throw new Error('the authorization server was not asked');
    const params = target.searchParams;
    const entry = {
      issuer,
      client: own === undefined ? client : { client_id: own.client_id },
      state,
      verifier,
      redirectUrl,
      expiresAt: Date.now() + STATE_MS,
      ...omitUndefined({
        resource: params.get('resource') ?? undefined,
        scope: params.get('scope') ?? undefined,
      }),
    };
    return { url: target.href, entry };
  }

  /** The client of the options. Its secret is not stored. */
  function ownClient(issuer: string): Client | undefined {
    const { clientId, clientSecret } = oauth;
    if (clientId === undefined || oauth.issuer !== issuer) return undefined;
    return { client_id: clientId, ...omitUndefined({ client_secret: clientSecret }) };
  }

  function clientOf({ issuer, client }: Asked): Client {
    const own = ownClient(issuer);
    return own?.client_id === client.client_id ? own : client;
  }

  async function complete({ state, code, iss, error }: SignInAnswer): Promise<SignedIn> {
    const entry = await update(account => {
      const open = account.pending.filter(isOpen);
      const found = findPending(open, state);
      return { to: { ...account, pending: open.filter(pending => pending !== found) }, result: found };
    });
    if (entry === undefined)
      throw failed('its state is unknown, used or older than 10 minutes; begin another sign-in');
    try {
      const tokens = await exchange(entry, { code, iss, error });
      const { issuer, client, resource } = entry;
      const scope = tokens.scope ?? entry.scope;
      const grant = { issuer, client, ...omitUndefined({ resource, scope }), ...heldOf(tokens) };
      await update(({ pending }) => ({ to: { grant, pending }, result: undefined }));
      return { server: name, url: server.shownUrl, issuer, scopes: scope?.split(' ').filter(Boolean) ?? [] };
    } catch (thrown) {
      if (isThrown(thrown, EngineError)) throw thrown;
      const { verifier, client } = entry;
      throw failed(reasonOf(thrown, omitUndefined({ code, state, verifier, secret: client.client_secret })));
    }
  }

  async function exchange(
    entry: Pending,
    { code, iss, error }: Omit<SignInAnswer, 'state'>,
  ): Promise<OAuthTokens> {
    const { issuer, verifier, redirectUrl, resource } = entry;
    const { exchangeAuthorization, validateAuthorizationResponseIssuer } = await import(
      '@modelcontextprotocol/client'
    );
    const metadata = await discover(issuer);
    validateAuthorizationResponseIssuer({
      iss,
      expectedIssuer: issuer,
      issParameterSupported: metadata.authorization_response_iss_parameter_supported === true,
    });
    if (error !== undefined) throw new Error(`the authorization server answered ${JSON.stringify(error)}`);
    if (code === undefined || code === '') throw new Error('the answer has no code');
    return assertBearer(
      await exchangeAuthorization(issuer, {
        metadata,
        clientInformation: clientOf(entry),
        authorizationCode: code,
        codeVerifier: verifier,
        redirectUri: redirectUrl,
        fetchFn,
        ...omitUndefined({ iss, resource }),
      }),
    );
  }

  /** Makes the stored token another one than `rejected`. Throws `sign-in-needed` if only a person can. */
  async function renew(rejected: string | undefined): Promise<void> {
    if ((await read()).grant === undefined) throw needed();
    const isRenewed = await update(async account => {
      const { grant } = account;
      if (grant !== undefined && grant.access !== rejected) return { result: true };
      if (grant?.refresh === undefined) return { result: false };
      try {
        const tokens = await refresh(grant, grant.refresh);
        const { scope = grant.scope } = tokens;
        const renewed = { ...grant, ...omitUndefined({ scope }), ...heldOf(tokens) };
        return { to: { ...account, grant: renewed }, result: true };
      } catch (error) {
        const { OAuthError } = await import('@modelcontextprotocol/client');
        if (!OAuthError.isInstance(error) || !GRANT_IS_GONE.includes(error.code)) throw error;
        const { grant: _gone, ...rest } = account;
        const { refresh: _used, ...kept } = grant;
        return {
          to: CLIENT_IS_GONE.includes(error.code) ? rest : { ...account, grant: kept },
          result: false,
        };
      }
    });
    if (!isRenewed) throw needed();
  }

  async function refresh(grant: Grant, refreshToken: string): Promise<OAuthTokens> {
    const { issuer, resource } = grant;
    const { refreshAuthorization } = await import('@modelcontextprotocol/client');
    return assertBearer(
      await refreshAuthorization(issuer, {
        metadata: await discover(issuer),
        clientInformation: clientOf(grant),
        refreshToken,
        fetchFn,
        ...omitUndefined({ resource }),
      }),
    );
  }

  async function onUnauthorized({ response }: { response: Response }): Promise<void> {
    try {
      await renew(refused.get(response));
    } catch (error) {
      if (isThrown(error, EngineError)) throw error;
      const problem = `the access token for the MCP server "${name}" at ${server.shownUrl} has ended and could not be refreshed: ${reasonOf(error)}.`;
      throw new EngineError('tool-source-failed', problem, { url: server.shownUrl });
    }
  }

  async function rememberMissing(response: Response): Promise<void> {
    const { computeScopeUnion, extractWWWAuthenticateParams } = await import('@modelcontextprotocol/client');
    const { error, scope } = extractWWWAuthenticateParams(response);
    if (error !== 'insufficient_scope' || (await read()).grant === undefined) return;
    await update(account => {
      const wanted = computeScopeUnion(account.wanted, scope) ?? '';
      const isNew = wanted !== account.wanted && SCOPES.test(wanted);
      return { result: undefined, ...(isNew && { to: { ...account, wanted } }) };
    });
  }

  return {
    signIn: {
      server: name,
      ...omitUndefined({ redirectUrl: oauth.redirectUrl }),
      begin,
      isPending: async state => findPending((await read()).pending, state) !== undefined,
      complete,
      signOut: () => update(({ grant }) => ({ to: { pending: [] }, result: grant !== undefined })),
    },
    authProvider: { token: async () => (await read()).grant?.access, onUnauthorized },
    watch: fetch => async (input, init) => {
      const response = await fetch(input, init);
      const sent = new Headers(init?.headers).get('authorization')?.replace(/^Bearer /, '');
      if (response.status === 401) refused.set(response, sent);
      if (response.status === 403) await rememberMissing(response);
      return response;
    },
    needed,
    secrets,
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function heldOf({ access_token: access, refresh_token: refresh }: OAuthTokens) {
  return { access, ...omitUndefined({ refresh }) };
}

function assertBearer(tokens: OAuthTokens): OAuthTokens {
  if (tokens.token_type.toLowerCase() !== 'bearer')
    throw new Error(`expected a token of the type Bearer, got ${JSON.stringify(tokens.token_type)}`);
  if (!/^[\x21-\x7e]+$/.test(tokens.access_token))
    throw new Error('the access token has other characters than a header can carry, or none');
  return tokens;
}

function isOpen({ expiresAt }: Pending): boolean {
  return expiresAt > Date.now();
}

function findPending(pending: readonly Pending[], state: string): Pending | undefined {
  return pending.find(one => isOpen(one) && isSame(one.state, state));
}

function isSame(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/** Checks what metadata must have, and where it sends people and secrets. */
function assertUsable(
  metadata: AuthorizationServerMetadata | undefined,
  issuer: string,
  server: URL,
): AuthorizationServerMetadata {
  if (metadata === undefined)
    throw new Error(
      `${issuer} has no metadata of an authorization server; if the MCP server takes a key, give it in \`headers\``,
    );
  if (metadata.code_challenge_methods_supported?.includes('S256') !== true)
    throw new Error(`${issuer} does not say that it supports PKCE with S256, which the protocol requires`);
  assertTrusted(metadata.authorization_endpoint, server);
  assertTrusted(metadata.token_endpoint, server);
  return metadata;
}

/** Every request goes to an address that `assertTrusted` accepts, is answered within `timeoutMs`, and bounded. */
function trustingOnly(server: URL, fetch: Fetch, timeoutMs: number): Fetch {
  const bounded = boundAnswers(fetch, LARGEST_DOCUMENT_BYTES);
  return async (input, init) => {
    assertTrusted(input, server);
    return await bounded(input, { ...init, redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) });
  };
}

/**
 * A name can resolve to an address of a private network, but what answers there needs a certificate for the name. Throws
 * a `TypeError`: the official client takes other errors for a missing document and looks for it elsewhere.
 */
function assertTrusted(address: string | URL, server: URL): void {
  const { protocol, hostname, username, password, host } = new URL(address);
  const isHere = isThisMachine(hostname);
  const isSafe = isHere
    ? /^https?:$/.test(protocol) && isThisMachine(server.hostname)
    : protocol === 'https:';
  const isNamed = isHere || isIP(hostname.replace(/^\[(.*)\]$/, '$1')) === 0 || hostname === server.hostname;
  if (isSafe && isNamed && username === '' && password === '') return;
  throw new TypeError(
    `the server names the address ${protocol}//${host}, and only https URLs with a host name are trusted${isHere ? ', not this machine' : ''}`,
  );
}

function isThisMachine(hostname: string): boolean {
  return /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

function isReturnUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, hash } = new URL(text);
  if (username !== '' || hash !== '') return false;
  return protocol === 'https:' || (protocol === 'http:' && isThisMachine(hostname));
}

/** Returns what is wrong with the options. @internal */
export function checkOAuth({
  clientId,
  clientSecret,
  clientMetadataUrl,
  issuer,
  scopes,
  redirectUrl,
  user,
}: OAuthOptions) {
  const isText = (value: unknown) => value === undefined || (typeof value === 'string' && value !== '');
  if (![clientId, clientSecret, clientMetadataUrl, issuer, redirectUrl, user].every(isText))
    return 'expected the options of `oauth` to be texts that are not empty';
  if (clientSecret !== undefined && clientId === undefined) return '`oauth.clientSecret` needs `clientId`';
  if (clientId !== undefined && issuer === undefined)
    return '`oauth.clientId` needs `issuer`, the authorization server where the client is registered';
  if (clientMetadataUrl !== undefined && !/^https:\/\/[^/?#]+\/[^?#]+$/.test(clientMetadataUrl))
    return 'expected `oauth.clientMetadataUrl` to be an https URL with a path';
  if (redirectUrl !== undefined && !isReturnUrl(redirectUrl))
    return 'expected `oauth.redirectUrl` to be an https URL, or an http URL of this machine';
  const isScope = (scope: unknown) => typeof scope === 'string' && SCOPES.test(scope) && !scope.includes(' ');
  if (scopes !== undefined && !(Array.isArray(scopes) && scopes.every(isScope)))
    return 'expected `oauth.scopes` to be a list of scopes without spaces';
  return undefined;
}
