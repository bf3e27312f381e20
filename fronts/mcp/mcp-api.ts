import { randomUUID } from 'node:crypto';
import type {
  AuthInfo,
  HandleRequestOptions,
  McpServerFactory,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { Hono } from 'hono';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import { warn } from '../../engine/host/host.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { Agents } from '../../server/agent-names.ts';
import { describeError } from '../../server/error-envelope.ts';
import { HANDLER_NAMES, type Handler, type HandlerOptions, handlerOf } from '../../server/handler.ts';
import type { MountedApi } from '../../server/mounted-api.ts';
import { readBody } from '../../server/read-body.ts';
import type { RouteTable } from '../../server/route.ts';
import type { RunsEnv } from '../../server/runs-env.ts';
import { serveRunsOf } from '../served/served-runs.ts';
import { createMcpFront, logError, type McpFrontOptions } from './mcp-front.ts';
import { stateKeyOf } from './state-key.ts';

const MCP_PATH = '/mcp';

/** Source: https://www.jsonrpc.org/specification#error_object */
const UNREADABLE = -32700;
const INVALID_REQUEST = -32600;

type Answer = (request: Request, caller: Caller, parsedBody: unknown) => Promise<Response>;

/** The route of MCP, whose methods are in the bodies of JSON-RPC. @internal */
export const MCP_ROUTES = {
  'ALL /mcp': { summary: 'MCP over Streamable HTTP.', streams: true },
} as const satisfies RouteTable;

/**
 * MCP over Streamable HTTP at `/mcp`. Clients of revision 2026-07-28 are served without a session, earlier ones with a
 * session each. Loads the SDK with the first request.
 *
 * @internal
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
      const number = code === 'input-invalid' ? UNREADABLE : INVALID_REQUEST;
      return c.json({ jsonrpc: '2.0', id: null, error: { code: number, message, data: { code } } }, status);
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

const MOST_SESSIONS = 1_000;

const SESSION_NOT_FOUND = -32001;

type Transport = WebStandardStreamableHTTPServerTransport;

/** The sessions of clients of revision 2025-11-25 and earlier. A session belongs to the caller that began it. */
class McpSessions {
  readonly #front: McpServerFactory;
  readonly #Transport: typeof WebStandardStreamableHTTPServerTransport;
  /** By id, the least recently used first. */
  readonly #sessions = new Map<string, { transport: Transport; owner: string }>();

  constructor(front: McpServerFactory, SdkTransport: typeof WebStandardStreamableHTTPServerTransport) {
    this.#front = front;
    this.#Transport = SdkTransport;
  }

  async answer(request: Request, caller: Caller, options: HandleRequestOptions): Promise<Response> {
    const id = request.headers.get('mcp-session-id');
    const owner = JSON.stringify([caller.name, caller.labels]);
    if (id === null) return await (await this.#begin(owner)).handleRequest(request, options);
    const session = this.#sessions.get(id);
    if (session?.owner !== owner) return notFound();
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    return await session.transport.handleRequest(request, options);
  }

  close(): void {
    for (const { transport } of this.#sessions.values()) transport.close().catch(() => {});
    this.#sessions.clear();
  }

  /** A transport that becomes a session with its first request, if that initializes one. */
  async #begin(owner: string): Promise<Transport> {
    const transport = new this.#Transport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: id => {
        this.#sessions.set(id, { transport, owner });
        for (const [oldest, { transport: unused }] of this.#sessions) {
          if (this.#sessions.size <= MOST_SESSIONS) break;
          this.#sessions.delete(oldest);
          unused.close().catch(() => {});
        }
      },
      onsessionclosed: id => {
        this.#sessions.delete(id);
      },
    });
    await (await this.#front({ era: 'legacy' })).connect(transport);
    return transport;
  }
}

function notFound(): Response {
  const error = { code: SESSION_NOT_FOUND, message: 'There is no such session. Initialize a new one.' };
  return Response.json({ jsonrpc: '2.0', id: null, error }, { status: 404 });
}

/** Options of `createMcpHandler`. */
export type McpHandlerOptions = HandlerOptions & {
  /**
   * At least 32 characters, the same in every process: seals what clients send back with an answer. Default:
   * `AGENTCHART_MCP_KEY`, else a new one for this process.
   */
  secret?: string;
  /** The version of the server, for clients. Default `0.0.0`. */
  version?: string;
};

const NAMES: NamesOf<McpHandlerOptions> = { ...HANDLER_NAMES, secret: true, version: true };

/**
 * Creates a handler of MCP over Streamable HTTP, at any path: each agent is a tool that takes `{ input }`. Drives runs in
 * this process, and resumes those whose process is gone. Throws `input-invalid` for a short secret.
 *
 * @example
 * const handler = createMcpHandler(agent, { authorize });
 * app.all('/mcp', c => handler(c.req.raw));
 */
export function createMcpHandler(agents: Agents, options: McpHandlerOptions = {}): Handler {
  refuseUnknownOptions('createMcpHandler', options, NAMES);
  const { secret, version = '0.0.0', log = warn } = options;
  const key = stateKeyOf(undefined, log, secret);
  const api = createMcpApi({ runs: serveRunsOf(agents, log), key: () => key, version, log });
  return handlerOf([api], options, { log, pathOf: () => MCP_PATH });
}
