import { EngineError } from '../../protocol/error.ts';
import { boundAnswers, LARGEST_MESSAGE_BYTES } from './bound-answers.ts';
import { endRequests } from './end-requests.ts';
import { describeHttpFailure, fateOfHttpFailure, isLost } from './http-failure.ts';
import { redactText } from './redact-secrets.ts';
import { CLIENT_INFO, type Fate, type Start, startSession } from './session.ts';

/** An MCP server that is spoken to over Streamable HTTP. */
export type HttpServer = {
  /** http or https, without credentials: those belong in `headers`. */
  url: string;
  /** Sent with every request, and never to another origin. */
  headers?: Readonly<Record<string, string>>;
  /** Instead of the global `fetch`. */
  fetch?: (input: string | URL, init?: RequestInit) => Promise<Response>;
};

const LEAVING_MS = 1_000;

/** Begins a session. A redirect is followed within the origin only. Errors name the URL without its query. */
export async function openHttp(name: string, server: HttpServer, timeoutMs: number): Promise<Start> {
  const { Client, ProtocolError, StreamableHTTPClientTransport } = await import(
    '@modelcontextprotocol/client'
  );
  const { headers = {}, fetch } = server;
  const url = new URL(server.url);
  const transport = new StreamableHTTPClientTransport(url, {
    requestInit: { headers: { ...headers } },
    fetch: boundAnswers((input, init) => (fetch ?? globalThis.fetch)(input, init), LARGEST_MESSAGE_BYTES),
  });
  endRequests(transport);
  const shown = showUrl(server.url);
  const secrets = {
    ...listSecrets(headers),
    query: url.search.slice(1),
    ...Object.fromEntries(url.searchParams),
  };
  const redact = (text: string) => redactText(text, secrets);

  const reasonOf = (cause: unknown) => describeHttpFailure(cause, redact);

  /** Without a `cause`: what the transport throws holds the server's words as they came. */
  function explain(cause: unknown): EngineError {
    const message = `the MCP server "${name}" at ${shown} failed: ${reasonOf(cause)}.`;
    return new EngineError('tool-source-failed', message, { url: shown });
  }

  async function leave(): Promise<void> {
    const left = transport.terminateSession().catch(() => {});
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, LEAVING_MS);
    await Promise.race([left, late]);
    clearTimeout(timer);
  }

  function fateOf(error: unknown): Fate {
    if (ProtocolError.isInstance(error) && !isLost(error)) return 'answered';
    return fateOfHttpFailure(error, transport.sessionId !== undefined);
  }

  const line = { transport, reasonOf, explain, redact, fateOf, leave };
  return startSession(new Client(CLIENT_INFO), line, timeoutMs);
}

/** The URL as it may be shown: without credentials, query and fragment. */
export function showUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/** A header's value, and what follows its scheme, such as the token of `Bearer TOKEN`. */
function listSecrets(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers);
  return Object.fromEntries(
    entries.flatMap(([name, value]) => [
      [name, value],
      [`${name} `, value.replace(/^\S+\s+/, '')],
    ]),
  );
}
