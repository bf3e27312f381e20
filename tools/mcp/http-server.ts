import { EngineError } from '../../protocol/error.ts';
import { boundAnswers, LARGEST_MESSAGE_BYTES } from './bound-answers.ts';
import { endRequests } from './end-requests.ts';
import { classifyHttpFailure, describeHttpFailure, isLost } from './http-failure.ts';
import { redactText } from './redact-secrets.ts';
import type { HttpServer } from './server-options.ts';
import { CLIENT_INFO, type RequestOutcome, type Start, startSession } from './session.ts';

const TERMINATE_MS = 1_000;

/**
 * Opens a session with the server. Redirects are followed within the origin only. Errors show the URL without
 * its query. Waits up to 1 s for the server to end the session on close.
 */
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
  const shownUrl = showUrl(server.url);
  const secrets = {
    ...listSecrets(headers),
    query: url.search.slice(1),
    ...Object.fromEntries(url.searchParams),
  };
  const redact = (text: string) => redactText(text, secrets);

  const reasonOf = (cause: unknown) => describeHttpFailure(cause, redact);

  /** Sets no `cause`: errors of the transport contain the server's text unredacted. */
  function explain(cause: unknown): EngineError {
    const message = `the MCP server "${name}" at ${shownUrl} failed: ${reasonOf(cause)}.`;
    return new EngineError('tool-source-failed', message, { url: shownUrl });
  }

  async function leave(): Promise<void> {
    const terminated = transport.terminateSession().catch(() => {});
    const { promise: timedOut, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, TERMINATE_MS);
    await Promise.race([terminated, timedOut]);
    clearTimeout(timer);
  }

  function outcomeOf(error: unknown): RequestOutcome {
    if (ProtocolError.isInstance(error) && !isLost(error)) return 'answered';
    return classifyHttpFailure(error, transport.sessionId !== undefined);
  }

  const connector = { transport, reasonOf, explain, redact, outcomeOf, leave };
  return startSession(new Client(CLIENT_INFO), connector, timeoutMs);
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
