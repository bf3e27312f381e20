import type { AuthInfo, McpServerFactory } from '@modelcontextprotocol/server';
import type { Hono } from 'hono';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import { describeError } from '../../server/error-envelope.ts';
import type { MountedApi } from '../../server/mounted-api.ts';
import { readBody } from '../../server/read-body.ts';
import type { RouteTable } from '../../server/route.ts';
import type { RunsEnv } from '../../server/runs-env.ts';
import { logError } from './log-error.ts';
import { createMcpFront, type McpFrontOptions } from './mcp-front.ts';
import { McpSessions } from './mcp-sessions.ts';

/** The path on `agentchart serve`. */
export const MCP_PATH = '/mcp';

/** JSON-RPC's code of a request that the server could not read or refused. */
const INVALID_REQUEST = -32600;

/** Answers a request after its body was read. */
type Answer = (request: Request, caller: Caller, parsedBody: unknown) => Promise<Response>;

/** The route of MCP, whose methods are in the bodies of JSON-RPC. */
export const MCP_ROUTES = {
  'ALL /mcp': { summary: 'MCP over Streamable HTTP.', streams: true },
} as const satisfies RouteTable;

/**
 * MCP over Streamable HTTP at `/mcp`. Clients of revision 2026-07-28 are served without a session, earlier ones with a
 * session each. Loads the SDK with the first request.
 */
export function createMcpApi(options: McpFrontOptions): MountedApi {
  const closing = new AbortController();
  let loading: Promise<Answer> | undefined;
  return {
    prefix: MCP_PATH,
    paths: [MCP_PATH],
    area: 'runs',
    routes: MCP_ROUTES,
    add(app: Hono<RunsEnv>) {
      app.all(MCP_PATH, async c => {
        const isPost = c.req.method === 'POST';
        const body = isPost ? await readBody(c.req.raw, z.json(), c.get('requestLimits')) : undefined;
        loading ??= loadAnswer(options, closing.signal);
        return await (await loading)(c.req.raw, c.get('caller'), body);
      });
    },
    answerError(c, error) {
      const { status, envelope } = describeError(error);
      const { code, message } = envelope.error;
      if (code === 'internal') options.log(`MCP: ${error.message}`);
      if (status === 401) c.header('WWW-Authenticate', 'Bearer');
      return c.json(
        { jsonrpc: '2.0', id: null, error: { code: INVALID_REQUEST, message, data: { code } } },
        status,
      );
    },
    close() {
      closing.abort();
      options.runs.close();
    },
  };
}

async function loadAnswer(options: McpFrontOptions, closing: AbortSignal): Promise<Answer> {
  const front: McpServerFactory = await createMcpFront(options);
  const sdk = await import('@modelcontextprotocol/server');
  const onerror = (error: Error) => logError(error, options.log);
  const current = sdk.createMcpHandler(front, { legacy: 'reject', onerror });
  const sessions = new McpSessions(front, sdk.WebStandardStreamableHTTPServerTransport);
  const end = () => {
    current.close().catch(onerror);
    sessions.close();
  };
  closing.addEventListener('abort', end, { once: true });
  if (closing.aborted) end();
  return async (request, caller, parsedBody) => {
    const authInfo = authInfoOf(caller);
    const isLegacy = await sdk.isLegacyRequest(request, parsedBody);
    if (isLegacy) return await sessions.answer(request, caller, { authInfo, parsedBody });
    return await current.fetch(request, { authInfo, parsedBody });
  };
}

/** The caller in the SDK's words; `callerOf` reads it back. The token stays with the gate. */
function authInfoOf(caller: Caller): AuthInfo {
  return { token: '', clientId: caller.name, scopes: [], extra: { caller } };
}
