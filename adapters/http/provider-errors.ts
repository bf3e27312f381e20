import { messageOf, ProviderError, type ProviderErrorCode } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { jsonIn } from '../turn/json-access.ts';
import { classifyFailure, isRetryable } from './classify-failure.ts';
import { type ErrorBody, readErrorBody } from './error-body.ts';
import { showJson, showText } from './redact-secrets.ts';
import { RedirectRefused } from './refuse-redirects.ts';
import { retryAfterMs } from './retry-after.ts';

/** The provider, model and address of a call, for error messages. */
export type ProviderContext = {
  provider: string;
  model: string;
  /** The environment variables for the key and the base URL; empty if there are none. */
  keyVariable: string;
  baseURLVariable: string;
  baseURL: string;
  /** Texts that are redacted from every error. */
  secrets: readonly string[];
};

/** A response with a status other than 2xx, with its body as text. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure';
  readonly status: number;
  readonly headers: Pick<Headers, 'get'>;
  readonly body: string;

  constructor(status: number, headers: Pick<Headers, 'get'>, body: string) {
    super(`HTTP ${status}`);
    this.status = status;
    this.headers = headers;
    this.body = body;
  }
}

/** Returns the error for a failed HTTP response. `now` is in ms since the epoch, for `retry-after` dates. */
export function errorFromResponse(
  failure: HttpFailure,
  context: ProviderContext,
  now: number,
): ProviderError {
  const raw = jsonIn(failure.body) ?? showText(failure.body, 2_000, context.secrets);
  const body = readErrorBody(raw);
  const requestId = failure.headers.get('x-request-id') ?? failure.headers.get('request-id');
  return reported(context, raw, {
    status: failure.status,
    body,
    retryAfterMs: retryAfterMs(failure.headers, now) ?? body.retryAfterMs,
    requestId,
    mayRetry: failure.headers.get('x-should-retry') !== 'false',
  });
}

/**
 * Returns the error that a body or stream event reports in a response with status 200. `fallback` is the code
 * for an error that cannot be classified.
 */
export function errorFromBody(
  raw: JsonValue,
  context: ProviderContext,
  fallback: ProviderErrorCode = 'unknown',
): ProviderError {
  const body = readErrorBody(raw);
  return reported(context, raw, {
    status: body.status,
    body,
    retryAfterMs: body.retryAfterMs,
    requestId: null,
    fallback,
  });
}

/**
 * Returns the error for a stream or body that violates the provider's API. `what` describes the violation.
 */
export function malformedStream(
  what: string,
  context: ProviderContext,
  raw: JsonValue = null,
): ProviderError {
  const head = endSentence(`${name(context)} sent a malformed response: ${what}`);
  const message = `${head} Try again. If it happens again, check that ${displayURL(context.baseURL)} implements this API.`;
  return make(context, 'malformed-stream', message, { raw });
}

/** Returns the error for a request that the adapter cannot express. A retry would fail the same way. */
export function unsupported(what: string, context: ProviderContext): ProviderError {
  return make(context, 'invalid-request', `${name(context)}: ${what}`, {});
}

/** Returns the error for a body with more than `limit` bytes. */
export function responseTooLarge(limit: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} sent more than ${limit} bytes. If this size is expected, raise the option maxResponseBytes.`;
  return make(context, 'response-too-large', message, {});
}

/** Returns the error for a body that stopped arriving before its end. */
export function stalled(idleMs: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} sent nothing for ${idleMs} ms in the middle of its response. Try again, or raise the option idleTimeoutMs.`;
  return make(context, 'timeout', message, {});
}

/**
 * Returns the error for a body that exceeded the total time limit. Not retryable: a retry would take as long.
 */
export function tookTooLong(totalMs: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} was still answering after ${totalMs} ms, the time limit. Request less, or raise the option totalTimeoutMs.`;
  return make(context, 'timeout', message, { mayRetry: false });
}

function redirectRefused({ status, location }: RedirectRefused, context: ProviderContext): ProviderError {
  const target = location === '' ? 'an unnamed address' : displayURL(location);
  const variable = context.baseURLVariable === '' ? '' : `${context.baseURLVariable} or `;
  const message = `${name(context)}: ${displayURL(context.baseURL)} answered with a redirect (HTTP ${status}) to ${target}. It was not followed, because the key and the conversation are sent only to the base URL. If the new address is right, set ${variable}the option baseURL to it.`;
  return make(context, 'redirect-refused', message, { status });
}

/** Returns the error for a call without an API key. */
export function keyMissing(context: ProviderContext): ProviderError {
  const message = `${name(context)} has no API key. Set ${context.keyVariable} or the adapter's option apiKey. If the server needs no key, any text works.`;
  return make(context, 'key-missing', message, {});
}

/**
 * Returns the error for a missing or unusable base URL. `baseURL` is empty when none is configured; `example`
 * shows the expected form. A URL that may contain a user name and password is not quoted.
 */
export function baseURLInvalid(baseURL: string, context: ProviderContext, example?: string): ProviderError {
  const problem = urlProblem(baseURL, context);
  const hint = example === undefined ? '' : `, such as ${example}`;
  const schemes = example?.startsWith('grpc:') ? 'grpc:// or grpcs://' : 'http:// or https://';
  const message = `${name(context)} needs a base URL that begins with ${schemes}${hint}, but ${problem}. Set ${context.baseURLVariable} or the adapter's option baseURL.`;
  return make(context, 'base-url-invalid', message, {});
}

function urlProblem(baseURL: string, { secrets }: ProviderContext): string {
  if (baseURL === '') return 'none is set';
  return baseURL.includes('@')
    ? 'the configured one contains a user name or password. Send credentials in the option headers instead, for example { authorization: "Basic …" }'
    : `"${showText(baseURL, 200, secrets)}" is not a valid one`;
}

/** Converts anything that a call threw to a `ProviderError`. A `ProviderError` is returned unchanged. */
export function errorFromThrown(
  thrown: unknown,
  context: ProviderContext,
  signal: AbortSignal,
  now: number,
): ProviderError {
  if (thrown instanceof ProviderError) return thrown;
  if (signal.aborted) return aborted(context);
  const chain = causesOf(thrown);
  const own = chain.find(cause => cause instanceof ProviderError);
  if (own) return own;
  const redirect = chain.find(cause => cause instanceof RedirectRefused);
  if (redirect) return redirectRefused(redirect, context);
  const failure = chain.find(cause => cause instanceof HttpFailure);
  if (failure) return errorFromResponse(failure, context, now);
  const systemCode = chain.map(codeOf).find(code => code !== '') ?? '';
  const messages = chain.map(messageOf).filter(message => message !== '');
  const raw: JsonValue = { code: systemCode, messages };
  const reason = systemCode || showText(messages.at(-1) ?? 'no reason given', 200, context.secrets);
  if (/TIMEOUT|TIMEDOUT/.test(systemCode) || chain.some(isTimeout)) {
    const message = `${name(context)} did not answer in time (${reason}). Try again, or raise the option timeoutMs.`;
    return make(context, 'timeout', message, { raw });
  }
  if (LOST_CODES.has(systemCode) || messages.some(message => message === 'terminated')) {
    const message = `${name(context)}: the connection to ${displayURL(context.baseURL)} was lost before the response was complete (${reason}). Try again. If it happens again, check the network and the server.`;
    return make(context, 'network', message, { raw });
  }
  if (systemCode !== '' || messages.some(message => CONNECTION_LOST.test(message))) {
    const message = `${name(context)} could not be reached at ${displayURL(context.baseURL)} (${reason}). ${checkServer(context)}`;
    return make(context, 'network', message, { raw });
  }
  const message = `${name(context)}: the request could not be made: ${reason}`;
  return make(context, 'unknown', message, { raw });
}

/** Returns the error for a call that its caller aborted. */
export function aborted(context: ProviderContext): ProviderError {
  return make(context, 'aborted', `The call to ${name(context)} was aborted.`, {});
}

/** System error codes for a connection that was established and then lost. */
const LOST_CODES: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

const CONNECTION_LOST = /fetch failed|terminated|connection error|socket|network|closed|premature/i;

function reported(
  context: ProviderContext,
  raw: JsonValue,
  found: {
    status: number | null;
    body: ErrorBody;
    retryAfterMs: number | null;
    requestId: string | null;
    /** `false` when the provider says that a retry is useless. */
    mayRetry?: boolean;
    fallback?: ProviderErrorCode;
  },
): ProviderError {
  const { status, body } = found;
  const classified = classifyFailure(status, body);
  const code = classified === 'unknown' ? (found.fallback ?? classified) : classified;
  const reason = body.message === '' ? 'no reason was given' : showText(body.message, 500, context.secrets);
  const where = [status === null ? '' : `HTTP ${status}`, found.requestId ? `request ${found.requestId}` : '']
    .filter(part => part !== '')
    .join(', ');
  const head = `${name(context)} ${WHAT_HAPPENED[code]}${where === '' ? '' : ` (${where})`}: ${reason}`;
  const advice = adviceFor(code, context, found.retryAfterMs);
  const message = advice === '' ? head : `${endSentence(head)} ${advice}`;
  const { retryAfterMs, mayRetry } = found;
  return make(context, code, message, { status, retryAfterMs, raw, mayRetry });
}

const WHAT_HAPPENED: Record<ProviderErrorCode, string> = {
  authentication: 'rejected the API key',
  permission: 'does not allow this',
  'not-found': 'did not find the requested resource',
  'invalid-request': 'rejected the request',
  'context-too-long': 'rejected the request as too long',
  'content-filter': 'blocked the content',
  'rate-limit': 'is limiting the request rate',
  quota: 'has no quota left for this account',
  overloaded: 'is overloaded',
  server: 'failed',
  timeout: 'timed out',
  network: 'could not be reached',
  'redirect-refused': 'redirected the call to another address',
  'malformed-stream': 'sent a malformed response',
  aborted: 'was interrupted',
  'response-too-large': 'sent too much',
  'script-exhausted': 'has no more turns',
  'model-unknown': 'is not known',
  'key-missing': 'has no API key',
  'base-url-invalid': 'has no base URL',
  unknown: 'reported an error',
};

function adviceFor(code: ProviderErrorCode, context: ProviderContext, waitMs: number | null): string {
  switch (code) {
    case 'authentication':
      return context.keyVariable === ''
        ? 'Check the API key.'
        : `Set ${context.keyVariable} (or the option apiKey) to a valid API key.`;
    case 'rate-limit':
    case 'overloaded':
      return waitMs === null ? 'Try again later.' : `Try again in ${waitMs / 1_000} s.`;
    case 'server':
    case 'timeout':
      return 'Try again later.';
    case 'quota':
      return 'Check the plan and billing of the account. A retry does not help.';
    case 'permission':
      return 'Check the permissions of the API key and its project.';
    case 'not-found':
      return `Check the model's name ("${context.model}") and the base URL (${displayURL(context.baseURL)}).`;
    case 'context-too-long':
      return 'Shorten the transcript or the tools, or choose a model with a longer context.';
    default:
      return '';
  }
}

function checkServer({ baseURLVariable }: ProviderContext): string {
  return baseURLVariable === ''
    ? 'Check the network and the base URL.'
    : `Check that the server is running, and check ${baseURLVariable} (or the option baseURL).`;
}

/** The longest error message, in characters. Quoted parts are cut much shorter. */
const LONGEST_MESSAGE = 4_000;

function make(
  context: ProviderContext,
  code: ProviderErrorCode,
  message: string,
  found: {
    status?: number | null;
    retryAfterMs?: number | null;
    raw?: JsonValue;
    mayRetry?: boolean | undefined;
  },
): ProviderError {
  return new ProviderError(showText(message, LONGEST_MESSAGE, context.secrets), {
    code,
    status: found.status ?? null,
    retryable: isRetryable(code) && found.mayRetry !== false,
    retryAfterMs: found.retryAfterMs ?? null,
    provider: context.provider,
    model: context.model,
    raw: showJson(found.raw ?? null, context.secrets),
  });
}

function endSentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

function name(context: ProviderContext): string {
  return `${context.provider} (${context.model})`;
}

/** Returns the URL without user, password and query. The path stays, to show a missing or doubled `/v1`. */
function displayURL(url: string): string {
  if (!URL.canParse(url)) return url;
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`.replace(/\/$/, '');
}

/** Returns the error and its causes, the outermost first. */
function causesOf(thrown: unknown): unknown[] {
  const chain: unknown[] = [];
  let cause = thrown;
  while (cause !== undefined && cause !== null && !chain.includes(cause)) {
    chain.push(cause);
    if (cause instanceof AggregateError) chain.push(...cause.errors);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return chain;
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return '';
  return /^(?:E[A-Z_]+|UND_ERR_\w+)$/.test(error.code) ? error.code : '';
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && (error.name === 'TimeoutError' || /timed? ?out/i.test(error.message));
}
