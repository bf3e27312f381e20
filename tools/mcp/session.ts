import type {
  Client,
  Transport,
  UnsupportedProtocolVersionError,
  VersionNegotiationMode,
} from '@modelcontextprotocol/client';
import type { EngineError } from '../../protocol/error.ts';
import { cutDeep, isJsonObject, type JsonObject } from '../../protocol/json.ts';

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
  /** Has the server tell when what it lists changes, unless it does already or cannot. Does not wait. */
  follow(): void;
};

export type Start = {
  ready: Promise<McpSession>;
  ended: Promise<void>;
  retire(): void;
  close(): Promise<void>;
};

export type Connector = Omit<McpSession, 'ask' | 'follow'> & {
  /** A new transport for each attempt to connect. */
  open(): Transport;
  /** How long the server may take to say which revisions it speaks, in ms. */
  discoverMs: number;
  /** How to connect once more after this failure of an attempt; `undefined`: not at all. */
  nextMode(error: unknown): VersionNegotiationMode | undefined;
  /** Called before the connection is closed, to end the session on the server. */
  leave?(): Promise<void>;
  following: ListFollowing;
};

/** `onChanged` is called when the list of tools has changed, or may have; with `resources`, also when that of resources has. */
export type ListFollowing = { resources: boolean; onChanged(): void };

/** Sent to the server when connecting. `version` is this package's. */
const CLIENT_INFO = { name: 'agentchart', version: '0.1.0' };

const CURRENT_REVISION = '2026-07-28';
const CURRENT_ONLY: VersionNegotiationMode = { pin: CURRENT_REVISION };

/** Why a server refuses this client, in words. */
export function nameRevisions({ supported }: UnsupportedProtocolVersionError): string {
  const known = supported
    .slice(0, MOST_NAMED)
    .map(version => String(version).slice(0, CURRENT_REVISION.length));
  return `it speaks MCP ${known.join(', ')}, and this client ${CURRENT_REVISION} and earlier`;
}

const MOST_NAMED = 10;

/** For a server that refused an earlier client: how to connect if it speaks the current revision. */
export function modeFor(refusal: UnsupportedProtocolVersionError): VersionNegotiationMode | undefined {
  return refusal.supported.includes(CURRENT_REVISION) ? CURRENT_ONLY : undefined;
}

/** What a result of the current revision means that does not say so; the client would refuse it. */
const UNSAID = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };

/**
 * Changes results before the client reads them. Deep ones are cut: the client's recursive schema checks would overflow the
 * stack. What one leaves out has its default, and a negative time counts as none
 * (https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#time-to-live-ttl-field).
 */
function prepareResults(transport: Transport, client: Client): void {
  const { onmessage } = transport;
  transport.onmessage = (message, extra) => {
    if ('result' in message) {
      const result = cutDeep(message.result as JsonObject);
      const isCurrent = client.getProtocolEra() === 'modern' && isJsonObject(result);
      Object.assign(message, { result: isCurrent ? completeResult(result) : result });
    }
    onmessage?.(message, extra);
  };
}

function completeResult(result: JsonObject): JsonObject {
  if (result.resultType === 'task') return { ...UNSAID, content: [], _meta: { [TASKS_EXTENSION]: result } };
  const ttlMs = Number(result.ttlMs) < 0 ? { ttlMs: 0 } : {};
  return { ...UNSAID, ...result, ...ttlMs };
}

/** The extension for tasks. The client refuses a task in place of a result: that comes under this key of `_meta`. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/**
 * Delivers each response after the notifications that came before it: the client handles those a microtask later, and by
 * then would no longer know the progress of a request that has ended.
 */
function deliverInOrder(transport: Transport): void {
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if ('method' in message) deliver?.(message, extra);
    else queueMicrotask(() => deliver?.(message, extra));
  };
}

/**
 * Whether the server refused a call because it mirrors other arguments in headers than its tool said when it was listed
 * (https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation).
 */
function isHeaderMismatch(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === HEADER_MISMATCH;
}

const HEADER_MISMATCH = -32020;

/**
 * Connects a client within `timeoutMs`, of the current revision if the server speaks it, else of an earlier one. On failure
 * `ready` rejects with the error from `explain`.
 */
export function startSession(connector: Connector, timeoutMs: number): Start {
  const { open, discoverMs, nextMode, leave, following, ...describing } = connector;
  const { onChanged } = following;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  let current: { client: Client; transport: Transport } | undefined;
  let pending = 0;
  let isRetired = false;
  let isOver = false;
  let isFollowing = false;

  async function ask<Answer>(request: (client: Client) => Promise<Answer>): Promise<Answer> {
    if (current === undefined) throw new Error('not connected');
    pending += 1;
    try {
      return await request(current.client);
    } catch (error) {
      if (isHeaderMismatch(error)) onChanged();
      throw error;
    } finally {
      pending -= 1;
      closeIfRetired();
    }
  }

  function closeIfRetired(): void {
    if (isRetired && pending === 0) disconnect().catch(() => {});
  }

  /** Until an attempt has succeeded, the client does not know its transport. */
  async function disconnect(): Promise<void> {
    isOver = true;
    await current?.client.close();
    await current?.transport.close();
  }

  async function attempt(mode: VersionNegotiationMode): Promise<void> {
    const { Client } = await import('@modelcontextprotocol/client');
    if (isOver) throw new Error('it was closed while connecting');
    const client = new Client(CLIENT_INFO, {
      versionNegotiation: { mode, probe: { timeoutMs: mode === CURRENT_ONLY ? timeoutMs : discoverMs } },
      inputRequired: { autoFulfill: false },
    });
    const transport = open();
    const opened = { client, transport };
    current = opened;
    prepareResults(transport, client);
    client.setNotificationHandler('notifications/tools/list_changed', onChanged);
    if (following.resources) client.setNotificationHandler('notifications/resources/list_changed', onChanged);
    await client.connect(transport, { timeout: timeoutMs });
    deliverInOrder(transport);
    client.onclose = end;
    if (client.transport === undefined) end();
  }

  /** Earlier servers tell without being asked. What was not told while a subscription was lost may have happened. */
  function follow(): void {
    const client = current?.client;
    const { tools, resources } = client?.getServerCapabilities() ?? {};
    const filter = {
      ...(tools?.listChanged === true && { toolsListChanged: true }),
      ...(following.resources && resources?.listChanged === true && { resourcesListChanged: true }),
    };
    if (Object.keys(filter).length === 0 || isFollowing || client?.getProtocolEra() !== 'modern') return;
    isFollowing = true;
    client
      .listen(filter)
      .then(({ closed }) => closed.then(onChanged))
      .catch(() => {})
      .finally(() => {
        isFollowing = false;
      });
  }

  async function connectClient(): Promise<void> {
    for (let mode: VersionNegotiationMode = 'auto'; ; ) {
      try {
        return await attempt(mode);
      } catch (error) {
        const next: VersionNegotiationMode | undefined =
          isOver || mode === CURRENT_ONLY ? undefined : nextMode(error);
        if (next === undefined || next === mode) throw error;
        await current?.transport.close().catch(() => {});
        mode = next;
      }
    }
  }

  async function connect(): Promise<McpSession> {
    const timedOut = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      timedOut.reject(new Error(`connecting timed out after ${timeoutMs} ms`));
    }, timeoutMs);
    try {
      await Promise.race([timedOut.promise, connectClient()]);
      return { ask, follow, ...describing };
    } catch (error) {
      end();
      disconnect().catch(() => {});
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
      await disconnect();
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

/**
 * Makes a request without side effects: starts the server if necessary, and asks once more in a new session if the server
 * has lost the one there was. Rejects with the error from `explain`.
 */
export async function askServer<Answer>(
  connection: ServerConnection,
  request: (client: Client) => Promise<Answer>,
): Promise<Answer> {
  let session = await connection.open();
  for (let isFirst = true; ; isFirst = false) {
    const [outcome] = await Promise.allSettled([session.ask(request)]);
    if (outcome.status === 'fulfilled') return outcome.value;
    if (!isFirst || session.outcomeOf(outcome.reason) !== 'session-lost')
      throw session.explain(outcome.reason);
    session = await connection.renew(session);
  }
}
