import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type ServerType, serve } from '@hono/node-server';
import {
  createMcpHandler,
  type McpHttpHandler,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import * as z from 'zod';

type Body = { id?: number; method?: string; params?: { _meta?: Record<string, unknown> } };

export type Seen = {
  method: string;
  says: string;
  headers: Headers;
  session: string | null;
  body: Promise<Body>;
};

export type HttpMcpOptions = {
  /** The status for an unknown session; the protocol requires 404. */
  unknownSession?: 404 | 400;
  stateless?: boolean;
  /** Which clients it serves: those of earlier revisions (the default), those of 2026-07-28, or both. */
  serves?: 'earlier' | 'current' | 'both';
  /** Adds to what it offers, in each session or for each request. */
  add?: (server: McpServer) => void;
  /** Answers in place of the server. */
  instead?: (request: Request, says: string) => Response | undefined | Promise<Response | undefined>;
  port?: number;
  /** The number of tools besides its own: `task_1_of_crm`, and so on. */
  more?: number;
};

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

/** The official Streamable HTTP server on a free local port, which can lose its sessions and break connections. */
export class HttpMcpServer {
  readonly seen: Seen[] = [];
  /** What was answered, or begun to be, of `listMethods`. */
  readonly answered = new Set<string>();
  /** The names of the tools that ran, in order. */
  readonly ran: string[] = [];
  /** Resolves when a call of `hold` runs; resolve `released` to end it. */
  held = Promise.withResolvers<void>();
  released = Promise.withResolvers<void>();
  /** Resolves when the server receives the cancellation of a held call. */
  readonly cancelled = Promise.withResolvers<void>();
  instead: HttpMcpOptions['instead'];
  readonly #options: HttpMcpOptions;
  readonly #sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  readonly #server: ServerType;
  readonly #current: McpHttpHandler | undefined;

  private constructor(options: HttpMcpOptions) {
    this.#options = options;
    this.instead = options.instead;
    const { serves = 'earlier' } = options;
    const legacy = serves === 'both' ? 'stateless' : 'reject';
    if (serves !== 'earlier') this.#current = createMcpHandler(() => this.#describe(), { legacy });
    this.#server = serve({
      fetch: request => this.#answer(request),
      hostname: '127.0.0.1',
      port: options.port ?? 0,
    });
  }

  static async start(options: HttpMcpOptions = {}): Promise<HttpMcpServer> {
    const server = new HttpMcpServer(options);
    await once(server.#server, 'listening');
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/mcp`;
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  /** Forgets all sessions, like a restarted server. */
  loseSessions(): void {
    this.#sessions.clear();
  }

  breakConnections(): void {
    if ('closeAllConnections' in this.#server) this.#server.closeAllConnections();
  }

  /** The MCP method of each request, or its HTTP method if it is not POST. */
  listMethods(): string[] {
    return this.seen.map(({ says }) => says);
  }

  /** Tells clients that subscribed to it that the list of tools has changed. */
  tellToolsChanged(): void {
    this.#current?.notify.toolsChanged();
  }

  tellResourcesChanged(): void {
    this.#current?.notify.resourcesChanged();
  }

  async close(): Promise<void> {
    await this.#current?.close();
    this.breakConnections();
    await new Promise<void>(resolve => this.#server.close(() => resolve()));
  }

  async #answer(request: Request): Promise<Response> {
    const body = request.method === 'POST' ? readBody(request) : Promise.resolve({} as Body);
    const says = request.method === 'POST' ? ((await body).method ?? 'answer') : request.method;
    const session = request.headers.get('mcp-session-id');
    this.seen.push({ method: request.method, says, headers: request.headers, session, body });
    const response = await this.#respond(request, says, session);
    this.answered.add(says);
    return response;
  }

  async #respond(request: Request, says: string, session: string | null): Promise<Response> {
    const instead = await this.instead?.(request, says);
    if (instead !== undefined) return instead;
    if (this.#current !== undefined) return await this.#current.fetch(request);
    const known = session === null ? undefined : this.#sessions.get(session);
    if (known !== undefined) return await known.handleRequest(request);
    if (session !== null && this.#options.stateless !== true) return this.#refuse();
    return await (await this.#open()).handleRequest(request);
  }

  #refuse(): Response {
    const status = this.#options.unknownSession ?? 404;
    const message = status === 404 ? 'Session not found' : 'Bad Request: No valid session ID provided';
    return Response.json({ jsonrpc: '2.0', error: { code: -32000, message }, id: null }, { status });
  }

  async #open(): Promise<WebStandardStreamableHTTPServerTransport> {
    const transport = new WebStandardStreamableHTTPServerTransport(
      this.#options.stateless === true
        ? {}
        : {
            sessionIdGenerator: () => crypto.randomUUID(),
            onsessioninitialized: id => void this.#sessions.set(id, transport),
            onsessionclosed: id => void this.#sessions.delete(id),
          },
    );
    await this.#describe().connect(transport);
    return transport;
  }

  #describe(): McpServer {
    const server = new McpServer({ name: 'desk', version: '1.0.0' });
    const tool = (name: string, annotations: { idempotentHint?: boolean; readOnlyHint?: boolean } = {}) => ({
      description: `Does ${name}.`,
      annotations,
      inputSchema: z.object({ text: z.string().optional() }),
    });
    server.registerTool('echo', tool('echo', { readOnlyHint: true }), ({ text: input = '' }) => {
      this.ran.push('echo');
      return text(input);
    });
    for (const [name, annotations] of [
      ['hold', {}],
      ['hold_again', { idempotentHint: true }],
    ] as const) {
      server.registerTool(name, tool(name, annotations), async (_input, { mcpReq }) => {
        this.ran.push(name);
        mcpReq.signal.addEventListener('abort', () => this.cancelled.resolve());
        const progressToken = mcpReq._meta?.progressToken;
        if (progressToken !== undefined) {
          const params = { progressToken, progress: 1, total: 2, message: 'held' };
          await mcpReq.notify({ method: 'notifications/progress', params });
        }
        this.held.resolve();
        await this.released.promise;
        return text('released');
      });
    }
    server.registerTool('fail', tool('fail'), ({ text: input = '' }) => ({
      ...text(`failed: ${input}`),
      isError: true,
    }));
    this.#options.add?.(server);
    for (let number = 1; number <= (this.#options.more ?? 0); number += 1) {
      const name = `task_${number}_of_crm`;
      server.registerTool(name, tool(name), ({ text: input = '' }) => text(`${name}: ${input}`));
    }
    return server;
  }
}

async function readBody(request: Request): Promise<Body> {
  return (await request.clone().json()) as Body;
}
