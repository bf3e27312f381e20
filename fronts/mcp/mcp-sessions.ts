import { randomUUID } from 'node:crypto';
import type {
  HandleRequestOptions,
  McpServerFactory,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { Caller } from '../../access/caller.ts';

/** The maximum number of sessions; the least recently used one ends first. */
const MOST_SESSIONS = 1_000;

/** JSON-RPC's code of a session that does not exist. */
const SESSION_NOT_FOUND = -32001;

type Transport = WebStandardStreamableHTTPServerTransport;

/** The sessions of clients of revision 2025-11-25 and earlier. A session belongs to the caller that began it. */
export class McpSessions {
  readonly #front: McpServerFactory;
  readonly #Transport: typeof WebStandardStreamableHTTPServerTransport;
  /** By id, the least recently used first. */
  readonly #sessions = new Map<string, { transport: Transport; owner: string }>();

  constructor(front: McpServerFactory, SdkTransport: typeof WebStandardStreamableHTTPServerTransport) {
    this.#front = front;
    this.#Transport = SdkTransport;
  }

  /** Answers a request in its session; one without a session begins one. */
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

  /** Ends all sessions. */
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
