import type { Client, Transport } from '@modelcontextprotocol/client';
import type { EngineError } from '../../protocol/error.ts';
import { cutDeep, type JsonObject } from '../../protocol/json.ts';

/**
 * Whether a failed request may have taken effect. `answered`: the server responded with the error; `not-done`:
 * the server did nothing; `session-lost`: it did nothing, and a new session may help; `unknown`: it may have acted.
 */
export type RequestOutcome = 'answered' | 'not-done' | 'session-lost' | 'unknown';

export type Session = {
  /** Makes one or several requests. The session stays open until they are done, even if it was replaced. */
  ask<Answer>(request: (client: Client) => Promise<Answer>): Promise<Answer>;
  /** A short reason for the failure, without secrets. */
  reasonOf(cause: unknown): string;
  /** An error with the reason and the command or URL of the server, without secrets. */
  explain(cause: unknown): EngineError;
  /** Masks the server's configured secrets in a text. */
  redact(text: string): string;
  outcomeOf(error: unknown): RequestOutcome;
};

/** A connection that is starting or open. */
export type Start = {
  ready: Promise<Session>;
  /** Resolves when the connection has ended, from either side. */
  ended: Promise<void>;
  /** Closes the connection once its pending requests have ended. */
  retire(): void;
  close(): Promise<void>;
};

/** The parts of a session that differ between stdio and HTTP. */
type Connector = Omit<Session, 'ask'> & {
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

  async function connect(): Promise<Session> {
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
