import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type ServerType, serve } from '@hono/node-server';
import { Hono } from 'hono';

type Registered = { id: string; secret?: string; redirectUris: readonly string[] };
type Code = { client: string; challenge: string; redirectUri: string; resource: string; scope: string };
type Family = { client: string; resource: string; scope: string; refresh: string; isRevoked: boolean };

export type AuthorizationServerOptions = {
  /** Further members of the metadata, or others; `undefined` removes one. */
  metadata?: Readonly<Record<string, unknown>>;
  /** The `iss` of answers instead of its own issuer; `null`: none. */
  iss?: string | null;
  /** The documents of clients, by their URL, in place of https. */
  documents?: Readonly<Record<string, { client_id: string; redirect_uris: readonly string[] }>>;
  /** Clients that are registered already. */
  clients?: readonly Registered[];
  /** Answers in place of the server. */
  instead?: (request: Request, path: string) => Response | undefined | Promise<Response | undefined>;
};

const random = () => randomBytes(16).toString('hex');

/**
 * An OAuth 2.1 authorization server on a free local port. The person behind the browser consents to everything. Codes
 * are used once, PKCE is checked, refresh tokens rotate, and a refresh token that comes again ends its grant.
 */
export class AuthorizationServer {
  /** Path and body of each request, in order. */
  readonly seen: { path: string; body: URLSearchParams; headers: Headers }[] = [];
  readonly options: AuthorizationServerOptions;
  /** All tokens, codes and secrets that it has given out. */
  readonly secrets: string[] = [];
  readonly #clients = new Map<string, Registered>();
  readonly #codes = new Map<string, Code>();
  readonly #families = new Set<Family>();
  readonly #access = new Map<string, Family>();
  readonly #used = new Map<string, Family>();
  readonly #server: ServerType;

  private constructor(options: AuthorizationServerOptions) {
    this.options = options;
    for (const client of options.clients ?? []) this.register(client);
    this.#server = serve({ fetch: this.#app().fetch, hostname: '127.0.0.1', port: 0 });
  }

  static async start(options: AuthorizationServerOptions = {}): Promise<AuthorizationServer> {
    const server = new AuthorizationServer(options);
    await once(server.#server, 'listening');
    return server;
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The paths of all requests, in order. */
  paths(): string[] {
    return this.seen.map(({ path }) => path);
  }

  grants(kind: 'authorization_code' | 'refresh_token'): number {
    return this.seen.filter(({ body }) => body.get('grant_type') === kind).length;
  }

  /** Ends all access tokens; refresh tokens stay. */
  expire(): void {
    this.#access.clear();
  }

  /** Ends all grants with their refresh tokens. */
  revoke(): void {
    this.expire();
    for (const family of this.#families) family.isRevoked = true;
  }

  register(client: Registered): void {
    this.#clients.set(client.id, client);
  }

  forgetClients(): void {
    this.#clients.clear();
  }

  /** What a token is for, or `undefined` if it is not valid. */
  introspect(token: string): { resource: string; scope: string } | undefined {
    const family = this.#access.get(token);
    return family?.isRevoked === false ? family : undefined;
  }

  async close(): Promise<void> {
    if ('closeAllConnections' in this.#server) this.#server.closeAllConnections();
    await new Promise<void>(resolve => this.#server.close(() => resolve()));
  }

  #app(): Hono {
    const app = new Hono();
    app.use(async (c, next) => {
      const body = new URLSearchParams(await c.req.raw.clone().text());
      this.seen.push({ path: c.req.path, body, headers: c.req.raw.headers });
      const instead = await this.options.instead?.(c.req.raw, c.req.path);
      if (instead !== undefined) return instead;
      return await next();
    });
    app.get('/.well-known/oauth-authorization-server', c => c.json(this.#metadata()));
    app.post('/register', async c => {
      const { redirect_uris } = await c.req.json<{ redirect_uris: string[] }>();
      const id = `client-${random()}`;
      this.#clients.set(id, { id, redirectUris: redirect_uris });
      return c.json({ client_id: id, redirect_uris, token_endpoint_auth_method: 'none' }, 201);
    });
    app.get('/authorize', c => {
      const asked = new URL(c.req.url).searchParams;
      const client = this.#find(asked.get('client_id') ?? '');
      const redirectUri = asked.get('redirect_uri') ?? '';
      if (client?.redirectUris.includes(redirectUri) !== true) return c.text('unknown client', 400);
      const answer = new URL(redirectUri);
      if (asked.get('code_challenge_method') !== 'S256') answer.searchParams.set('error', 'invalid_request');
      else {
        const code = this.#keep(random());
        this.#codes.set(code, {
          client: client.id,
          challenge: asked.get('code_challenge') ?? '',
          redirectUri,
          resource: asked.get('resource') ?? '',
          scope: asked.get('scope') ?? '',
        });
        answer.searchParams.set('code', code);
      }
      answer.searchParams.set('state', asked.get('state') ?? '');
      const { iss = this.issuer } = this.options;
      if (iss !== null) answer.searchParams.set('iss', iss);
      return c.redirect(answer.href);
    });
    app.post('/token', async c => {
      const body = new URLSearchParams(await c.req.text());
      const [id, secret] = this.#authenticated(c.req.header('authorization'), body);
      const client = this.#find(id);
      if (client === undefined || client.secret !== secret) return c.json({ error: 'invalid_client' }, 401);
      const family =
        body.get('grant_type') === 'refresh_token' ? this.#rotate(body, id) : this.#redeem(body, id);
      if (family === undefined) return c.json({ error: 'invalid_grant' }, 400);
      const access = this.#keep(`access-${random()}`);
      this.#access.set(access, family);
      return c.json({
        access_token: access,
        token_type: 'Bearer',
        expires_in: 3600,
        refresh_token: family.refresh,
        scope: family.scope,
      });
    });
    return app;
  }

  #metadata() {
    return {
      issuer: this.issuer,
      authorization_endpoint: `${this.issuer}/authorize`,
      token_endpoint: `${this.issuer}/token`,
      registration_endpoint: `${this.issuer}/register`,
      response_types_supported: ['code'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
      ...this.options.metadata,
    };
  }

  #find(id: string): Registered | undefined {
    const document = this.options.documents?.[id];
    if (document?.client_id === id) return { id, redirectUris: document.redirect_uris };
    return this.#clients.get(id);
  }

  #authenticated(header: string | undefined, body: URLSearchParams): [string, string | undefined] {
    if (header === undefined) return [body.get('client_id') ?? '', body.get('client_secret') ?? undefined];
    const [id = '', secret] = Buffer.from(header.replace(/^Basic /, ''), 'base64')
      .toString()
      .split(':');
    return [id, secret];
  }

  #redeem(body: URLSearchParams, client: string): Family | undefined {
    const code = this.#codes.get(body.get('code') ?? '');
    this.#codes.delete(body.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(body.get('code_verifier') ?? '')
      .digest('base64url');
    if (code === undefined || code.client !== client || code.challenge !== challenge) return undefined;
    if (code.redirectUri !== body.get('redirect_uri') || code.resource !== body.get('resource'))
      return undefined;
    const { resource, scope } = code;
    const family = { client, resource, scope, refresh: this.#keep(`refresh-${random()}`), isRevoked: false };
    this.#families.add(family);
    return family;
  }

  #rotate(body: URLSearchParams, client: string): Family | undefined {
    const given = body.get('refresh_token') ?? '';
    const reused = this.#used.get(given);
    if (reused !== undefined) reused.isRevoked = true;
    const family = [...this.#families].find(({ refresh }) => refresh === given);
    if (family === undefined || family.isRevoked || family.client !== client) return undefined;
    if (family.resource !== body.get('resource')) return undefined;
    this.#used.set(given, family);
    family.refresh = this.#keep(`refresh-${random()}`);
    return family;
  }

  #keep(secret: string): string {
    this.secrets.push(secret);
    return secret;
  }
}

/** What a browser does with the URL of a sign-in: returns the parameters with which it comes back. */
export async function visit(
  url: string,
): Promise<{ state: string; code?: string; iss?: string; error?: string }> {
  const response = await fetch(url, { redirect: 'manual' });
  const target = response.headers.get('location');
  if (target === null)
    throw new Error(`expected a redirect, got ${response.status}: ${await response.text()}`);
  return { state: '', ...Object.fromEntries(new URL(target).searchParams) };
}
