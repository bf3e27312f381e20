import type { Client, Transport } from '@modelcontextprotocol/client';
import type { EngineError } from '../../protocol/error.ts';
import { cutDeep, type JsonObject } from '../../protocol/json.ts';

/**
 * What a failed request says of the server: `answered`: the error is its answer; `not-done`: it did
 * nothing; `session-lost`: it did nothing, and would in a new session; `unknown`: it may have acted.
 */
export type Fate = 'answered' | 'not-done' | 'session-lost' | 'unknown';

export type Session = {
  /** One request, or several. While any is made the session is kept open, also when nobody else gets it. */
  ask<Answer>(request: (client: Client) => Promise<Answer>): Promise<Answer>;
  /** Why the server failed, in a few words. None of these has a secret in it. */
  reasonOf(cause: unknown): string;
  /** The same with how the server is reached. */
  explain(cause: unknown): EngineError;
  /** A text of the server's with the secrets it was given masked. */
  redact(text: string): string;
  fateOf(error: unknown): Fate;
};

/** A server that is starting or serving. */
export type Start = {
  ready: Promise<Session>;
  /** Resolves when the connection has ended, whoever ended it. */
  ended: Promise<void>;
  /** Ends the connection once what is asked there is answered. */
  retire(): void;
  close(): Promise<void>;
};

/** How a server is reached: what differs between a process and a URL. */
export type Line = Omit<Session, 'ask'> & {
  transport: Transport;
  /** Said to the server before the connection is closed. */
  leave?(): Promise<void>;
};

/** What the server is told of its client. `version` is this package's. */
export const CLIENT_INFO = { name: 'agentchart', version: '0.1.0' };

/** Before the client reads a message: it reads schemas and results level by level, and would run out of stack. */
function cutMessages(transport: Transport): void {
  const { onmessage } = transport;
  transport.onmessage = (message, extra) => {
    if ('result' in message) Object.assign(message, { result: cutDeep(message.result as JsonObject) });
    onmessage?.(message, extra);
  };
}

/** Greets the server. `ready` rejects with what `explain` makes of the failure; the whole greeting may take `timeoutMs`. */
export function startSession(client: Client, line: Line, timeoutMs: number): Start {
  const { transport, leave, ...words } = line;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let asked = 0;
  let isRetired = false;
  client.onclose = end;
  cutMessages(transport);

  async function ask<Answer>(request: (client: Client) => Promise<Answer>): Promise<Answer> {
    asked += 1;
    try {
      return await request(client);
    } finally {
      asked -= 1;
      closeIfRetired();
    }
  }

  function closeIfRetired(): void {
    if (isRetired && asked === 0) client.close().catch(() => {});
  }

  async function greet(): Promise<Session> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      late.reject(new Error(`connecting timed out after ${timeoutMs} ms`));
    }, timeoutMs);
    try {
      await Promise.race([late.promise, client.connect(transport, { timeout: timeoutMs })]);
      return { ask, ...words };
    } catch (error) {
      end();
      client.close().catch(() => {});
      throw words.explain(error);
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    ready: greet(),
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
