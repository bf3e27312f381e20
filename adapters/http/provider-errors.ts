import { messageOf, ProviderError, type ProviderErrorCode } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { jsonIn } from '../turn/json-access.ts';
import { classifyFailure, isRetryable } from './classify-failure.ts';
import { type ErrorBody, readErrorBody } from './error-body.ts';
import { showJson, showText } from './redact-secrets.ts';
import { RedirectRefused } from './refuse-redirects.ts';
import { retryAfterMs } from './retry-after.ts';

/** Where a call went, for messages that say what to do. */
export type ProviderContext = {
  provider: string;
  model: string;
  /** The environment variables that hold the key and the base URL; empty where there are none. */
  keyVariable: string;
  baseURLVariable: string;
  baseURL: string;
  /** What must never be in an error. */
  secrets: readonly string[];
};

/** A response with a status that is not 2xx, with its body as text. */
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

/** The error an HTTP response reports. `now`: ms since the epoch, for `retry-after` dates. */
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
 * The error a body or a stream event reports although the response was a 200; `otherwise` is the code
 * of one that says nothing more exact.
 */
export function errorFromBody(
  raw: JsonValue,
  context: ProviderContext,
  otherwise: ProviderErrorCode = 'unknown',
): ProviderError {
  const body = readErrorBody(raw);
  return reported(context, raw, {
    status: body.status,
    body,
    retryAfterMs: body.retryAfterMs,
    requestId: null,
    otherwise,
  });
}

/** A stream or body that is not what the provider's API promises; `what` says how. */
export function malformedStream(
  what: string,
  context: ProviderContext,
  raw: JsonValue = null,
): ProviderError {
  const head = endSentence(`${name(context)} sent a malformed response: ${what}`);
  const message = `${head} Try again; if it stays so, check that ${placeOf(context.baseURL)} speaks this API.`;
  return make(context, 'malformed-stream', message, { raw });
}

/** What was asked for is not done here, and asking again gives the same. */
export function unsupported(what: string, context: ProviderContext): ProviderError {
  return make(context, 'invalid-request', `${name(context)}: ${what}`, {});
}

/** A body of more bytes than the adapter reads. */
export function responseTooLarge(limit: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} sent more than ${limit} bytes. Raise the option maxResponseBytes if that is right.`;
  return make(context, 'response-too-large', message, {});
}

/** A body that stopped coming without an end. */
export function stalled(idleMs: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} sent nothing for ${idleMs} ms in the middle of its answer. Try again, or raise the option idleTimeoutMs.`;
  return make(context, 'timeout', message, {});
}

/** A body that kept coming and had not ended when its time was over. Asking again would take as long. */
export function tookTooLong(totalMs: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} was still answering after ${totalMs} ms, which is the limit. Ask for less, or raise the option totalTimeoutMs.`;
  return make(context, 'timeout', message, { mayRetry: false });
}

function redirectRefused({ status, location }: RedirectRefused, context: ProviderContext): ProviderError {
  const target = location === '' ? 'an address it did not name' : placeOf(location);
  const variable = context.baseURLVariable === '' ? '' : `${context.baseURLVariable}, or `;
  const message = `${name(context)}: ${placeOf(context.baseURL)} answered with a redirect (HTTP ${status}) to ${target}. It was not followed: the key and the conversation go nowhere but to the base URL. If the new address is right, set ${variable}the option baseURL, to it.`;
  return make(context, 'redirect-refused', message, { status });
}

export function keyMissing(context: ProviderContext): ProviderError {
  const message = `${name(context)} needs a key, and there is none. Set ${context.keyVariable}, or give the adapter the option apiKey; any text will do for a server that asks for none.`;
  return make(context, 'key-missing', message, {});
}

/**
 * `baseURL` is empty where none was given and the provider has no address of its own; `example` is what it
 * looks like. One that may hold a user name and password is not quoted.
 */
export function baseURLInvalid(baseURL: string, context: ProviderContext, example?: string): ProviderError {
  const found = foundInstead(baseURL, context);
  const such = example === undefined ? '' : `, such as ${example}`;
  const message = `${name(context)} needs a base URL that begins with http:// or https://${such}, and ${found}. Set ${context.baseURLVariable}, or give the adapter the option baseURL.`;
  return make(context, 'base-url-invalid', message, {});
}

function foundInstead(baseURL: string, { secrets }: ProviderContext): string {
  if (baseURL === '') return 'there is none';
  return baseURL.includes('@')
    ? 'this one has a user name or password in it: give those as a header, such as { authorization: "Basic …" }, in the option headers'
    : `"${showText(baseURL, 200, secrets)}" is none`;
}

/** Turns whatever a call threw into the error of its code. An error that is one already passes unchanged. */
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
    const message = `${name(context)} did not answer in time (${reason}). Try again, or allow more time.`;
    return make(context, 'timeout', message, { raw });
  }
  if (LOST_CODES.has(systemCode) || messages.some(message => message === 'terminated')) {
    const message = `${name(context)}: the connection to ${placeOf(context.baseURL)} was lost before the answer was whole (${reason}). Try again; if it stays so, check the network and the server.`;
    return make(context, 'network', message, { raw });
  }
  if (systemCode !== '' || messages.some(message => CONNECTION_LOST.test(message))) {
    const message = `${name(context)} could not be reached at ${placeOf(context.baseURL)} (${reason}). ${checkServer(context)}`;
    return make(context, 'network', message, { raw });
  }
  const message = `${name(context)}: the request could not be made: ${reason}`;
  return make(context, 'unknown', message, { raw });
}

export function aborted(context: ProviderContext): ProviderError {
  return make(context, 'aborted', `The call to ${name(context)} was aborted.`, {});
}

/** The other side was reached, and then was gone. */
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
    /** The provider does not say that trying again is of no use. */
    mayRetry?: boolean;
    otherwise?: ProviderErrorCode;
  },
): ProviderError {
  const { status, body } = found;
  const classified = classifyFailure(status, body);
  const code = classified === 'unknown' ? (found.otherwise ?? classified) : classified;
  const said = body.message === '' ? 'no reason was given' : showText(body.message, 500, context.secrets);
  const where = [status === null ? '' : `HTTP ${status}`, found.requestId ? `request ${found.requestId}` : '']
    .filter(part => part !== '')
    .join(', ');
  const head = `${name(context)} ${WHAT_HAPPENED[code]}${where === '' ? '' : ` (${where})`}: ${said}`;
  const advice = whatToDo(code, context, found.retryAfterMs);
  const message = advice === '' ? head : `${endSentence(head)} ${advice}`;
  const { retryAfterMs, mayRetry } = found;
  return make(context, code, message, { status, retryAfterMs, raw, mayRetry });
}

const WHAT_HAPPENED: Record<ProviderErrorCode, string> = {
  authentication: 'refused the key',
  permission: 'does not allow this',
  'not-found': 'does not know what was asked for',
  'invalid-request': 'refused the request',
  'context-too-long': 'found the request too long',
  'content-filter': 'blocked the content',
  'rate-limit': 'limits the rate of requests',
  quota: 'has no quota left for this account',
  overloaded: 'is overloaded',
  server: 'failed',
  timeout: 'ran out of time',
  network: 'could not be reached',
  'redirect-refused': 'sent the call to another address',
  'malformed-stream': 'sent a malformed response',
  aborted: 'was interrupted',
  'response-too-large': 'sent too much',
  'script-exhausted': 'has no more turns',
  'model-unknown': 'is not known',
  'key-missing': 'has no key',
  'base-url-invalid': 'has no base URL',
  unknown: 'reported an error',
};

function whatToDo(code: ProviderErrorCode, context: ProviderContext, waitMs: number | null): string {
  switch (code) {
    case 'authentication':
      return context.keyVariable === ''
        ? 'Check the key.'
        : `Set ${context.keyVariable} (or the option apiKey) to a valid key.`;
    case 'rate-limit':
    case 'overloaded':
      return waitMs === null ? 'Try again later.' : `Try again in ${waitMs / 1_000} s.`;
    case 'server':
    case 'timeout':
      return 'Try again later.';
    case 'quota':
      return 'Check the plan and billing of the account; trying again does not help.';
    case 'permission':
      return 'Check what the key and its project may use.';
    case 'not-found':
      return `Check the model's name ("${context.model}") and the base URL (${placeOf(context.baseURL)}).`;
    case 'context-too-long':
      return 'Shorten the transcript or the tools, or take a model with a longer context.';
    default:
      return '';
  }
}

function checkServer({ baseURLVariable }: ProviderContext): string {
  return baseURLVariable === ''
    ? 'Check the network and the base URL.'
    : `Check that the server runs, and ${baseURLVariable} (or the option baseURL).`;
}

/** What an error says; the parts that name what came are far shorter. */
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

/** Without the user, password and query a URL may carry. A missing or doubled `/v1` has to be seen. */
function placeOf(url: string): string {
  if (!URL.canParse(url)) return url;
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`.replace(/\/$/, '');
}

/** The error and what caused it, the outermost first. */
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
