import type { Client, Transport } from '@modelcontextprotocol/client';
import type { EngineError } from '../../protocol/error.ts';
import { cutDeep, type JsonObject } from '../../protocol/json.ts';

/** Whether a failed request may have acted: `unknown` may have, `answered` has its error, others did not. */
export type RequestOutcome = 'answered' | 'not-done' | 'session-lost' | 'unknown';

export type McpSession = {
  /** Makes one or several requests. The session stays open until they are done, even if it was replaced. */
  ask<Answer>(request: (client: Client) => Promise<Answer>): Promise<Answer>;
  reasonOf(cause: unknown): string;
  /** An error with the reason and the command or URL of the server, without secrets. */
  explain(cause: unknown): EngineError;
  redact(text: string): string;
  outcomeOf(error: unknown): RequestOutcome;
};

export type Start = {
  ready: Promise<McpSession>;
  ended: Promise<void>;
  retire(): void;
  close(): Promise<void>;
};

type Connector = Omit<McpSession, 'ask'> & {
  transport: Transport;
  /** Called before the connection is closed, to end the session on the server. */
  leave?(): Promise<void>;
};

/** Sent to the server when connecting. `version` is this package's. */
export const CLIENT_INFO = { name: 'agentchart', version: '0.1.0' };

/** Cuts deep results before the client reads them: its recursive schema checks would overflow the stack. */
function cutMessages(transport: Transport): void {
  const { onmessage } = transport;
  transport.onmessage = (message, extra) => {
    if ('result' in message) Object.assign(message, { result: cutDeep(message.result as JsonObject) });
    onmessage?.(message, extra);
  };
}

/** Connects the client within `timeoutMs`. On failure `ready` rejects with the error from `explain`. */
export function startSession(client: Client, connector: Connector, timeoutMs: number): Start {
  const { transport, leave, ...describing } = connector;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let pending = 0;
  let isRetired = false;
  client.onclose = end;
  cutMessages(transport);

  async function ask<Answer>(request: (client: Client) => Promise<Answer>): Promise<Answer> {
    pending += 1;
    try {
      return await request(client);
    } finally {
      pending -= 1;
      closeIfRetired();
    }
  }

  function closeIfRetired(): void {
    if (isRetired && pending === 0) client.close().catch(() => {});
  }

  async function connect(): Promise<McpSession> {
    const timedOut = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      timedOut.reject(new Error(`connecting timed out after ${timeoutMs} ms`));
    }, timeoutMs);
    try {
      await Promise.race([timedOut.promise, client.connect(transport, { timeout: timeoutMs })]);
      return { ask, ...describing };
    } catch (error) {
      end();
      client.close().catch(() => {});
      throw describing.explain(error);
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    ready: connect(),
    ended,
    retire() {
      isRetired = true;
      closeIfRetired();
    },
    async close() {
      await leave?.();
      await client.close();
    },
  };
}

/**
 * The connection to one MCP server.
 * 1. At most one process or session is starting or serving; all callers share it.
 * 2. After it has ended, the next `open` or `session` starts another; there are no automatic retries.
 * 3. A lost session is replaced once for all its callers, and closed when their calls have ended.
 * 4. After `close` only `open` starts the server; `session` and `renew` reject.
 * 5. `close` ends the process or session and rejects its pending calls, even while it is starting.
 */
export type ServerConnection = {
  /** Returns the current session; starts the server if necessary, also after `close`. */
  open(): Promise<McpSession>;
  /** Returns the current session, or a new one if the server has ended. Rejects after `close`. */
  session(): Promise<McpSession>;
  /** Replaces a session that the server has lost. Returns the newer session if it was already replaced. */
  renew(lost: McpSession): Promise<McpSession>;
  close(): Promise<void>;
};

export function createServerConnection(name: string, startServer: () => Promise<Start>): ServerConnection {
  let current: Promise<Start> | null = null;
  const retired = new Set<Start>();
  let closed = true;

  function open(): Promise<McpSession> {
    closed = false;
    current ??= start();
    return current.then(({ ready }) => ready);
  }

  function start(): Promise<Start> {
    const starting = startServer();
    const forget = () => {
      if (current === starting) current = null;
    };
    starting.then(({ ended }) => ended.then(forget), forget);
    return starting;
  }

  async function session(): Promise<McpSession> {
    if (closed) throw new Error(`the MCP server "${name}" is closed; nothing was sent. Connect it again.`);
    return open();
  }

  return {
    open,
    session,
    async renew(lost) {
      const starting = current;
      const started = await starting?.catch(() => null);
      const newest = await started?.ready.catch(() => null);
      if (starting === current && started && newest === lost) {
        current = null;
        retired.add(started);
        started.ended.then(() => retired.delete(started));
        started.retire();
      }
      return session();
    },
    async close() {
      closed = true;
      const starting = current;
      current = null;
      const started = await starting?.catch(() => null);
      await Promise.allSettled([...retired, ...(started ? [started] : [])].map(each => each.close()));
      await started?.ready.catch(() => {});
    },
  };
}
