import { type HttpMcpOptions, HttpMcpServer } from '../http-mcp-server.ts';
import { AuthorizationServer, type AuthorizationServerOptions } from './authorization-server.ts';

type Closing = { close(): Promise<void> };
const running: Closing[] = [];

export type ProtectedOptions = {
  /** Members of the protected resource metadata that are others; `undefined` removes one. */
  resource?: Readonly<Record<string, unknown>>;
  /** The URL of the metadata in the challenge instead of its own. */
  resourceMetadata?: string;
  /** The scope that the challenge asks for. */
  scope?: string;
  /** The scope without which a call is answered with 403. */
  callScope?: string;
  /** Answers in place of the server, before tokens are looked at. */
  instead?: HttpMcpOptions['instead'];
};

/** An MCP server that demands the tokens of an authorization server, issued for itself. */
export async function startProtected(
  authorization: AuthorizationServer,
  options: ProtectedOptions = {},
): Promise<HttpMcpServer> {
  const server = await HttpMcpServer.start();
  server.instead = (request, says) => options.instead?.(request, says) ?? guard(request, says);
  running.push(server);
  return server;

  function guard(request: Request, says: string): Response | undefined {
    const { origin, pathname } = new URL(request.url);
    if (pathname.startsWith('/.well-known/')) {
      if (pathname !== '/.well-known/oauth-protected-resource/mcp')
        return new Response(null, { status: 404 });
      const metadata = { resource: server.url, authorization_servers: [authorization.issuer] };
      return Response.json({ ...metadata, ...options.resource });
    }
    const token = request.headers.get('authorization')?.replace(/^Bearer /, '') ?? '';
    const found = authorization.introspect(token);
    const metadata = options.resourceMetadata ?? `${origin}/.well-known/oauth-protected-resource/mcp`;
    const challenge = (words: string) => ({
      'www-authenticate': `Bearer ${words}resource_metadata="${metadata}"`,
    });
    if (found?.resource !== server.url) {
      const words = options.scope === undefined ? '' : `scope="${options.scope}", `;
      return new Response('who are you?', { status: 401, headers: challenge(words) });
    }
    if (says !== 'tools/call' || options.callScope === undefined) return undefined;
    if (found.scope.split(' ').includes(options.callScope)) return undefined;
    const words = `error="insufficient_scope", scope="${options.callScope}", `;
    return new Response('not enough', { status: 403, headers: challenge(words) });
  }
}

export async function startAuthorization(
  options: AuthorizationServerOptions = {},
): Promise<AuthorizationServer> {
  const server = await AuthorizationServer.start(options);
  running.push(server);
  return server;
}

export async function closeProtected(): Promise<void> {
  await Promise.all(running.splice(0).map(server => server.close()));
}
