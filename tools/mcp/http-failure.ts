import { messageOf } from '../../protocol/error.ts';
import { CONNECTION_LOST } from './end-requests.ts';
import { showText } from './redact-secrets.ts';
import type { RequestOutcome } from './session.ts';

const MAX_SHOWN = 300;
const CONNECT_ERROR = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;
const REQUEST_TIMEOUT = 408;

/**
 * Returns whether a failed HTTP request may have taken effect. A 3xx or 4xx response means that it was not
 * carried out, except for 408, which a proxy may send. A server answers 404 when it has lost the session
 * (https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#session-management);
 * older servers answer 400 and name the session.
 */
export function classifyHttpFailure(error: unknown, hadSession: boolean): RequestOutcome {
  const { status, text } = readResponse(error);
  if (status === null) return isNotReached(error) || isScopeMissing(error) ? 'not-done' : 'unknown';
  if (status < 300 || status >= 500 || status === REQUEST_TIMEOUT) return 'unknown';
  const isLost = status === 404 || (status === 400 && /session|not initialized/i.test(text));
  return hadSession && isLost ? 'session-lost' : 'not-done';
}

/** Returns a short reason without the URL; text from the server is redacted and shortened. */
export function describeHttpFailure(error: unknown, redact: (text: string) => string): string {
  const shorten = (text: string) =>
    showText(text, MAX_SHOWN, line => redact(line).replaceAll(/\s+/g, ' ').trim());
  const { status, text } = readResponse(error);
  if (status !== null) {
    const advice = status === 401 || status === 403 ? '; check `headers`' : '';
    const detail = shorten(status < 400 ? messageOf(error) : text);
    return `it answered ${status}${detail === '' ? '' : ` (${detail})`}${advice}`;
  }
  if (isLost(error)) return 'the connection ended before the response arrived';
  const cause = error instanceof Error && error.cause !== undefined ? firstOf(error.cause) : null;
  if (cause === null) return shorten(messageOf(error));
  const failure = isNotReached(error) ? 'it cannot be reached' : 'the connection failed';
  return `${failure}: ${shorten(cause.message || String(readCode(cause)))}`;
}

/** Whether this is the error that `endRequests` creates for a lost connection. */
export function isLost(error: unknown): boolean {
  return isRecord(error) && error.data === CONNECTION_LOST;
}

function readResponse(error: unknown): { status: number | null; text: string } {
  const data = isRecord(error) && isRecord(error.data) ? error.data : {};
  const { status, text } = data;
  return {
    status: typeof status === 'number' ? status : null,
    text: typeof text === 'string' ? text : '',
  };
}

/** Whether the connection could not be established, so that nothing was sent. */
function isNotReached(error: unknown): boolean {
  if (!(error instanceof Error) || error.cause === undefined) return false;
  const cause = firstOf(error.cause);
  if (cause === null) return false;
  const syscall = 'syscall' in cause ? cause.syscall : undefined;
  return syscall === 'connect' || CONNECT_ERROR.test(String(readCode(cause)));
}

function isScopeMissing(error: unknown): boolean {
  return error instanceof Error && 'requiredScope' in error;
}

/** The cause as an `Error`; the first failure if several addresses were tried. */
function firstOf(cause: unknown): Error | null {
  if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return cause.errors[0];
  return cause instanceof Error ? cause : null;
}

function readCode(error: Error): unknown {
  return 'code' in error ? error.code : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
