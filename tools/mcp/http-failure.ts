import { messageOf } from '../../protocol/error.ts';
import { CONNECTION_LOST } from './end-requests.ts';
import { showText } from './redact-secrets.ts';
import type { Fate } from './session.ts';

const SHOWN = 300;
const NOT_REACHED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;
const MAY_HAVE_BEGUN = 408;

/**
 * What a failed HTTP request says of the server. By HTTP a 3xx or 4xx answer is one to a request that was
 * not carried out; 408 comes from in between. By the protocol a lost session is answered with 404; older
 * servers say 400 and name the session.
 */
export function fateOfHttpFailure(error: unknown, hadSession: boolean): Fate {
  const { status, text } = readAnswer(error);
  if (status === null) return isNotReached(error) || isScopeMissing(error) ? 'not-done' : 'unknown';
  if (status < 300 || status >= 500 || status === MAY_HAVE_BEGUN) return 'unknown';
  const isLost = status === 404 || (status === 400 && /session|not initialized/i.test(text));
  return hadSession && isLost ? 'session-lost' : 'not-done';
}

/** A short reason, without the URL; what the server wrote is redacted and shortened. */
export function describeHttpFailure(error: unknown, redact: (text: string) => string): string {
  const shorten = (text: string) =>
    showText(text, SHOWN, line => redact(line).replaceAll(/\s+/g, ' ').trim());
  const { status, text } = readAnswer(error);
  if (status !== null) {
    const advice = status === 401 || status === 403 ? '; check `headers`' : '';
    const said = shorten(status < 400 ? messageOf(error) : text);
    return `it answered ${status}${said === '' ? '' : ` (${said})`}${advice}`;
  }
  if (isLost(error)) return 'the connection ended before the answer came';
  const cause = error instanceof Error && error.cause !== undefined ? firstOf(error.cause) : null;
  if (cause === null) return shorten(messageOf(error));
  const what = isNotReached(error) ? 'it cannot be reached' : 'the connection failed';
  return `${what}: ${shorten(cause.message || String(readCode(cause)))}`;
}

/** Whether the answer was made up here, because none can come any more. */
export function isLost(error: unknown): boolean {
  return isRecord(error) && error.data === CONNECTION_LOST;
}

function readAnswer(error: unknown): { status: number | null; text: string } {
  const data = isRecord(error) && isRecord(error.data) ? error.data : {};
  const { status, text } = data;
  return {
    status: typeof status === 'number' ? status : null,
    text: typeof text === 'string' ? text : '',
  };
}

/** Nothing was sent: there was no connection. */
function isNotReached(error: unknown): boolean {
  if (!(error instanceof Error) || error.cause === undefined) return false;
  const cause = firstOf(error.cause);
  if (cause === null) return false;
  const syscall = 'syscall' in cause ? cause.syscall : undefined;
  return syscall === 'connect' || NOT_REACHED.test(String(readCode(cause)));
}

function isScopeMissing(error: unknown): boolean {
  return error instanceof Error && 'requiredScope' in error;
}

/** Of several addresses that were tried, the first one's failure. */
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
