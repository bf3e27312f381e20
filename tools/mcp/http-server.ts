import type {
  JSONRPCMessage,
  ReconnectionScheduler,
  StreamableHTTPClientTransport,
  Transport,
  VersionNegotiationMode,
} from '@modelcontextprotocol/client';
import { EngineError, isThrown, messageOf } from '../../protocol/error.ts';
import { boundAnswers, LARGEST_MESSAGE_BYTES } from './bound-answers.ts';
import type { CredentialStore } from './credentials.ts';
import { maskSecrets, quoteServerText } from './redact-secrets.ts';
import {
  type ListFollowing,
  modeFor,
  nameRevisions,
  type RequestOutcome,
  type Start,
  startSession,
} from './session.ts';
import type { OAuthOptions, ServerSignIn } from './sign-in.ts';

/** An MCP server that is reached over Streamable HTTP. */
export type HttpServer = {
  /** http or https, without credentials; use `headers` for those. */
  url: string;
  /** Sent with every request, but never to another origin. */
  headers?: Readonly<Record<string, string>>;
  /** Used instead of the global `fetch`. */
  fetch?: (input: string | URL, init?: RequestInit) => Promise<Response>;
  /**
   * Keeps the tokens of people who sign in at the server. `false`: no one signs in. Default: the file of
   * `credentialsFile()`; `false` if `headers` has an `Authorization`.
   */
  credentials?: CredentialStore | false;
  /** How this client identifies itself to the authorization server. */
  oauth?: OAuthOptions;
};

const TERMINATE_MS = 1_000;

/**
 * Opens a session with the server. A server that does not say which revisions it speaks is tried as an earlier one.
 * Redirects are followed within the origin only. Errors show the URL without its query. Waits up to 1 s for the server to
 * end the session on close.
 * @internal
 */
export async function openHttp(
  name: string,
  server: HttpServer,
  timeoutMs: number,
  { signIn, follow: following }: { signIn: ServerSignIn | null; follow: ListFollowing },
): Promise<Start> {
  const {
    InsufficientScopeError,
    ProtocolError,
    SdkError,
    SdkErrorCode,
    StreamableHTTPClientTransport,
    UnsupportedProtocolVersionError,
  } = await import('@modelcontextprotocol/client');
  const { headers = {}, fetch } = server;
  const url = new URL(server.url);
  const bounded = boundAnswers(
    (input, init) => (fetch ?? globalThis.fetch)(input, init),
    LARGEST_MESSAGE_BYTES,
  );
  let transport: StreamableHTTPClientTransport | undefined;

  function open(): Transport {
    transport = new StreamableHTTPClientTransport(url, {
      requestInit: { headers: { ...headers } },
      fetch: signIn?.watch(bounded) ?? bounded,
      reconnectionScheduler: reconnectLater,
      ...(signIn && { authProvider: signIn.authProvider, onInsufficientScope: 'throw' as const }),
    });
    endRequests(transport);
    return transport;
  }

  const shownUrl = showUrl(server.url);
  const secrets = {
    ...listSecrets(headers),
    query: url.search.slice(1),
    ...Object.fromEntries(url.searchParams),
  };
  const redact = (text: string) => maskSecrets(text, { ...secrets, ...signIn?.secrets() });
  const reasonOf = (cause: unknown) =>
    UnsupportedProtocolVersionError.isInstance(cause)
      ? redact(nameRevisions(cause))
      : describeHttpFailure(cause, redact);

  /** Sets no `cause`: errors of the transport contain the server's text unredacted. */
  function explain(cause: unknown): EngineError {
    if (isThrown(cause, EngineError)) return cause;
    if (signIn !== null && readFailure(cause).status === 401) return signIn.needed();
    if (signIn !== null && InsufficientScopeError.isInstance(cause))
      return signIn.needed(cause.requiredScope);
    const message = `the MCP server "${name}" at ${shownUrl} failed: ${reasonOf(cause)}.`;
    return new EngineError('tool-source-failed', message, { url: shownUrl });
  }

  async function leave(): Promise<void> {
    const terminated = transport?.terminateSession().catch(() => {});
    const { promise: timedOut, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, TERMINATE_MS);
    await Promise.race([terminated, timedOut]);
    clearTimeout(timer);
  }

  function nextMode(error: unknown): VersionNegotiationMode | undefined {
    if (UnsupportedProtocolVersionError.isInstance(error)) return modeFor(error);
    if (!SdkError.isInstance(error)) return undefined;
    const { isNotReached } = readFailure(error);
    const { EraNegotiationFailed, RequestTimeout } = SdkErrorCode;
    const isUnclear = error.code === RequestTimeout || error.code === EraNegotiationFailed;
    return isUnclear && !isNotReached ? 'legacy' : undefined;
  }

  function outcomeOf(error: unknown): RequestOutcome {
    if (UnsupportedProtocolVersionError.isInstance(error)) return 'session-lost';
    if (ProtocolError.isInstance(error) && !readFailure(error).isLost) return 'answered';
    return classifyHttpFailure(error);
  }

  const discoverMs = timeoutMs / 2;
  return startSession(
    { open, discoverMs, nextMode, reasonOf, explain, redact, outcomeOf, leave, following },
    timeoutMs,
  );
}

/** Returns the URL without credentials, query and fragment, safe to show. */
export function showUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/** Each header's value, and the part after its scheme, such as the token in `Bearer TOKEN`. */
function listSecrets(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers);
  return Object.fromEntries(
    entries.flatMap(([name, value]) => [
      [name, value],
      [`${name} `, value.replace(/^\S+\s+/, '')],
    ]),
  );
}

const MAX_SHOWN = 300;
const CONNECT_ERROR = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;
const REQUEST_TIMEOUT = 408;
/** A server that names the session, or the code for an unsupported revision. */
const LOST = /session|not initialized|-32022\b/i;

/**
 * Returns whether a failed HTTP request may have taken effect. A 3xx or 4xx response means that it was not
 * carried out, except for 408, which a proxy may send. A server answers 404 when it has lost the session
 * (https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#session-management);
 * older servers answer 400 and name the session. One that speaks only another revision by now answers 400 too.
 */
function classifyHttpFailure(error: unknown): RequestOutcome {
  const { status, text, isNotReached } = readFailure(error);
  const isScopeMissing = error instanceof Error && 'requiredScope' in error;
  const isRefused = isScopeMissing || isThrown(error, EngineError);
  if (status === null) return isNotReached || isRefused ? 'not-done' : 'unknown';
  if (status < 300 || status >= 500 || status === REQUEST_TIMEOUT) return 'unknown';
  const isLost = status === 404 || (status === 400 && LOST.test(text));
  return isLost ? 'session-lost' : 'not-done';
}

/** Returns a short reason without the URL; text from the server is redacted and shortened. */
export function describeHttpFailure(error: unknown, redact: (text: string) => string): string {
  const shorten = (text: string) =>
    quoteServerText(text, MAX_SHOWN, line => redact(line).replaceAll(/\s+/g, ' ').trim());
  const { status, text, isLost, isNotReached, cause } = readFailure(error);
  if (status !== null) {
    const advice = status === 401 || status === 403 ? '; check `headers`' : '';
    const detail = shorten(status < 400 ? messageOf(error) : text);
    return `it answered ${status}${detail === '' ? '' : ` (${detail})`}${advice}`;
  }
  if (isLost) return 'the connection ended before the response arrived';
  if (cause === null) return shorten(messageOf(error));
  const failure = isNotReached ? 'it cannot be reached' : 'the connection failed';
  return `${failure}: ${shorten(cause.message || String(cause.code))}`;
}

type Failure = {
  /** Of the answer; `null` without one. */
  status: number | null;
  text: string;
  isLost: boolean;
  isNotReached: boolean;
  cause: NodeJS.ErrnoException | null;
};

function readFailure(error: unknown): Failure {
  const data = isRecord(error) ? error.data : undefined;
  const { status, text } = isRecord(data) ? data : {};
  const probed = error instanceof Error ? error.cause : undefined;
  const given = probed instanceof Error && probed.cause instanceof Error ? probed.cause : probed;
  const first = given instanceof AggregateError && given.errors[0] instanceof Error ? given.errors[0] : given;
  const cause: NodeJS.ErrnoException | null = first instanceof Error ? first : null;
  return {
    status: typeof status === 'number' ? status : null,
    text: typeof text === 'string' ? text : '',
    isLost: data === CONNECTION_LOST,
    isNotReached: cause?.syscall === 'connect' || CONNECT_ERROR.test(String(cause?.code)),
    cause,
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** The `data` of the error response to a request whose connection was lost. */
const CONNECTION_LOST = 'agentchart: the connection ended before the response arrived';

/**
 * Patches the transport so that every request ends. Unpatched, the client waits for its timeout when a response
 * stream ends without a response, and keeps the stream of a cancelled request open.
 *
 * 1. When a request's stream ends and is not resumed, the client receives an error with `data: CONNECTION_LOST`.
 * 2. The stream of a cancelled request is closed: at once if that is how it is cancelled, as since revision 2026-07-28,
 *    or once the cancellation has been sent.
 * 3. Nothing is kept for a request after its response.
 */
function endRequests(transport: StreamableHTTPClientTransport): void {
  const send = transport.send.bind(transport);
  const streams = new Map<string | number, AbortController>();

  function lose(id: string | number): void {
    if (!streams.delete(id)) return;
    const error = { code: -32000, message: 'Connection lost', data: CONNECTION_LOST };
    transport.onmessage?.({ jsonrpc: '2.0', id, error });
  }

  function drop(id: unknown): void {
    if (typeof id !== 'string' && typeof id !== 'number') return;
    streams.get(id)?.abort();
    streams.delete(id);
  }

  transport.onmessage = message => {
    if (!('method' in message) && message.id !== undefined) streams.delete(message.id);
  };

  transport.send = async (message, options) => {
    if (!isRequest(message)) {
      const sending = send(message, options);
      return isCancellation(message) ? sending.finally(() => drop(message.params?.requestId)) : sending;
    }
    const { id } = message;
    const stream = new AbortController();
    const { requestSignal: given, onRequestStreamEnd } = options ?? {};
    streams.set(id, stream);
    given?.addEventListener('abort', () => drop(id), { once: true });
    try {
      await send(message, {
        ...options,
        requestSignal: stream.signal,
        onRequestStreamEnd: () => {
          if (onRequestStreamEnd === undefined) return lose(id);
          streams.delete(id);
          onRequestStreamEnd();
        },
      });
    } catch (error) {
      streams.delete(id);
      throw error;
    }
  };
}

/** The shortest time until a stream that has ended is opened again, in ms: a server may ask for none. */
const RECONNECT_MS = 250;

/** The longest delay of a timer, in ms; longer ones fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const reconnectLater: ReconnectionScheduler = (reconnect, delayMs) => {
  const timer = setTimeout(reconnect, Math.min(Math.max(delayMs, RECONNECT_MS), LONGEST_TIMER_MS));
  return () => clearTimeout(timer);
};

type Request = JSONRPCMessage & { id: string | number; method: string };
type Notification = JSONRPCMessage & { params?: { requestId?: unknown } };

function isRequest(message: JSONRPCMessage | JSONRPCMessage[]): message is Request {
  return 'method' in message && 'id' in message;
}

function isCancellation(message: JSONRPCMessage | JSONRPCMessage[]): message is Notification {
  return 'method' in message && message.method === 'notifications/cancelled';
}
