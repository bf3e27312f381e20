import {
  messageOf,
  ProviderError,
  type ProviderErrorCode,
  type ProviderErrorDetails,
} from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { arrayOf, integerIn, jsonIn, nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';
import { showJson, showText } from './redact-secrets.ts';

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
  { status, headers, body: text }: HttpFailure,
  context: ProviderContext,
  now: number,
): ProviderError {
  const raw = jsonIn(text) ?? showText(text, 2_000, context.secrets);
  const body = readErrorBody(raw);
  return reported(context, raw, {
    ...body,
    status,
    retryAfterMs: retryAfterMs(headers, now) ?? body.retryAfterMs,
    requestId: headers.get('x-request-id') ?? headers.get('request-id'),
    mayRetry: headers.get('x-should-retry') !== 'false',
  });
}

/** The error that a body or event reports with status 200; `fallback` is its code if it cannot be classified. */
export function errorFromBody(
  raw: JsonValue,
  context: ProviderContext,
  fallback: ProviderErrorCode = 'unknown',
): ProviderError {
  return reported(context, raw, { ...readErrorBody(raw), fallback });
}

/** Returns the error for a stream or body that violates the provider's API. `what` describes the violation. */
export function malformedStream(
  what: string,
  context: ProviderContext,
  raw: JsonValue = null,
): ProviderError {
  const head = endSentence(`${name(context)} sent a malformed response: ${what}`);
  const message = `${head} Try again. If it happens again, check that ${displayURL(context.baseURL)} implements this API.`;
  return make(context, 'malformed-stream', message, { raw });
}

/** Returns the error for a request that the adapter cannot express, or that failed before it was sent. */
export function unsupported(
  what: string,
  context: ProviderContext,
  code: ProviderErrorCode = 'invalid-request',
): ProviderError {
  return make(context, code, `${name(context)}: ${what}`);
}

/** Returns the error for a body with more than `limit` bytes. */
export function responseTooLarge(limit: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} sent more than ${limit} bytes. If this size is expected, raise the option maxResponseBytes.`;
  return make(context, 'response-too-large', message);
}

/** Returns the error for a body that stopped arriving before its end. */
export function stalled(idleMs: number, context: ProviderContext): ProviderError {
  const message = `${name(context)} sent nothing for ${idleMs} ms in the middle of its response. Try again, or raise the option idleTimeoutMs.`;
  return make(context, 'timeout', message);
}

/** Not retryable: a retry would take as long. */
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

export function keyMissing(context: ProviderContext): ProviderError {
  const message = `${name(context)} has no API key. Set ${context.keyVariable} or the adapter's option apiKey. If the server needs no key, any text works.`;
  return make(context, 'key-missing', message);
}

/** `baseURL` is empty if none is configured, and not quoted if it may contain credentials; `example` is a right one. */
export function baseURLInvalid(baseURL: string, context: ProviderContext, example?: string): ProviderError {
  const problem = urlProblem(baseURL, context);
  const hint = example === undefined ? '' : `, such as ${example}`;
  const schemes = example?.startsWith('grpc:') ? 'grpc:// or grpcs://' : 'http:// or https://';
  const message = `${name(context)} needs a base URL that begins with ${schemes}${hint}, but ${problem}. Set ${context.baseURLVariable} or the adapter's option baseURL.`;
  return make(context, 'base-url-invalid', message);
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

export function aborted(context: ProviderContext): ProviderError {
  return make(context, 'aborted', `The call to ${name(context)} was aborted.`);
}

const LOST_CODES: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

const CONNECTION_LOST = /fetch failed|terminated|connection error|socket|network|closed|premature/i;

function reported(
  context: ProviderContext,
  raw: JsonValue,
  found: ErrorBody & {
    requestId?: string | null;
    /** `false` when the provider says that a retry is useless. */
    mayRetry?: boolean;
    fallback?: ProviderErrorCode;
  },
): ProviderError {
  const { status, requestId, retryAfterMs, mayRetry } = found;
  const classified = classifyFailure(status, found);
  const code = classified === 'unknown' ? (found.fallback ?? classified) : classified;
  const reason = found.message === '' ? 'no reason was given' : showText(found.message, 500, context.secrets);
  const where = [status === null ? '' : `HTTP ${status}`, requestId ? `request ${requestId}` : ''];
  const place = where.filter(part => part !== '').join(', ');
  const head = `${name(context)} ${WHAT_HAPPENED[code]}${place === '' ? '' : ` (${place})`}: ${reason}`;
  const advice = ADVICE[code]?.(context, retryAfterMs);
  const message = advice === undefined ? head : `${endSentence(head)} ${advice}`;
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

type Advice = (context: ProviderContext, waitMs: number | null) => string;

const ADVICE: { readonly [Code in ProviderErrorCode]?: Advice } = {
  authentication: ({ keyVariable }) =>
    keyVariable === ''
      ? 'Check the API key.'
      : `Set ${keyVariable} (or the option apiKey) to a valid API key.`,
  'rate-limit': (_, waitMs) => tryAgain(waitMs),
  overloaded: (_, waitMs) => tryAgain(waitMs),
  server: () => tryAgain(null),
  timeout: () => tryAgain(null),
  quota: () => 'Check the plan and billing of the account. A retry does not help.',
  permission: () => 'Check the permissions of the API key and its project.',
  'not-found': ({ model, baseURL }) =>
    `Check the model's name ("${model}") and the base URL (${displayURL(baseURL)}).`,
  'context-too-long': () => 'Shorten the transcript or the tools, or choose a model with a longer context.',
};

function tryAgain(waitMs: number | null): string {
  return waitMs === null ? 'Try again later.' : `Try again in ${waitMs / 1_000} s.`;
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
  found: Partial<Pick<ProviderErrorDetails, 'status' | 'retryAfterMs' | 'raw'>> & {
    mayRetry?: boolean | undefined;
  } = {},
): ProviderError {
  const { status = null, retryAfterMs = null, raw = null, mayRetry = true } = found;
  const { provider, model, secrets } = context;
  const retryable = isRetryable(code) && mayRetry;
  const details = { code, status, retryable, retryAfterMs, provider, model, raw: showJson(raw, secrets) };
  return new ProviderError(showText(message, LONGEST_MESSAGE, secrets), details);
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

export function causesOf(thrown: unknown): unknown[] {
  const chain: unknown[] = [];
  let cause = thrown;
  while (cause !== undefined && cause !== null && !chain.includes(cause)) {
    chain.push(cause);
    if (cause instanceof AggregateError) chain.push(...cause.errors);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return chain;
}

/** Of a failed connection: Node's `ERR_INVALID_…` are about what was to be sent, such as a character in a key. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return '';
  return /^(?:E(?!RR_INVALID_)[A-Z_]+|UND_ERR_\w+)$/.test(error.code) ? error.code : '';
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && (error.name === 'TimeoutError' || /timed? ?out/i.test(error.message));
}

/** Matches one of `codes` in the body, or its message, unless the status contradicts it. */
type Rule = { code: ProviderErrorCode; codes: readonly string[]; message?: RegExp };

/** What Gemini's Interactions API blocks: https://ai.google.dev/gemini-api/docs/api-errors */
const BLOCKED = [
  ...['safety', 'recitation', 'language', 'prohibited_content', 'spii', 'blocklist', 'content_blocked'],
  ...['image_safety', 'image_prohibited_content', 'image_recitation', 'image_other'],
];

/** Rules that are more precise than the HTTP status. The first match wins. */
const EXACT: readonly Rule[] = [
  {
    code: 'quota',
    codes:
      'insufficient_quota billing_hard_limit_reached billing_not_active billing_error insufficient_balance payment_required'.split(
        ' ',
      ),
    message:
      /insufficient (?:credits?|balance|funds|quota)|credit balance is too low|used all available credits/i,
  },
  {
    code: 'authentication',
    codes: 'invalid_api_key api_key_invalid authentication authentication_error unauthenticated'.split(' '),
    message: /(?:incorrect|invalid) (?:x-)?api[ -]key|api key not valid/i,
  },
  {
    code: 'context-too-long',
    codes: ['context_length_exceeded', 'context_window_exceeded', 'request_too_large'],
    message:
      /prompt (?:is )?too long|maximum (?:context|prompt) length|context (?:window|length).{0,40}exceed|context length is only|exceeds? (?:the |this |your )?(?:model's )?(?:maximum |available )?(?:context|number of (?:input )?tokens)|input token count.{0,40}exceeds/i,
  },
  {
    code: 'content-filter',
    codes: [
      'content_filter',
      'content_policy_violation',
      'responsibleaipolicyviolation',
      'invalid_prompt',
      ...['bio_policy', 'misalignment_policy_violation', 'image_content_policy_violation'],
      ...BLOCKED,
    ],
    message:
      /content (?:management |filtering )?policy|content exists risk|input was flagged|safety system|violat\w{1,10} .{0,40}usage (?:polic|guideline)/i,
  },
  { code: 'not-found', codes: ['model_not_found', 'deploymentnotfound'] },
  {
    code: 'server',
    codes:
      'malformed_function_call malformed_tool_call unexpected_tool_call too_many_tool_calls no_image'.split(
        ' ',
      ),
  },
  {
    code: 'overloaded',
    codes:
      'overloaded_error overloaded slow_down engine_overloaded server_is_overloaded insufficient_system_resource'.split(
        ' ',
      ),
  },
];

const BY_STATUS: ReadonlyMap<number, ProviderErrorCode> = new Map([
  [401, 'authentication'],
  [402, 'quota'],
  [403, 'permission'],
  [404, 'not-found'],
  [408, 'timeout'],
  [409, 'server'],
  [413, 'context-too-long'],
  [429, 'rate-limit'],
  [498, 'overloaded'],
  [503, 'overloaded'],
  [504, 'timeout'],
  [529, 'overloaded'],
]);

const BY_CODE: readonly Rule[] = [
  {
    code: 'rate-limit',
    codes: [
      ...['rate_limit_error', 'rate_limit_exceeded', 'ratelimitreached', 'resource_exhausted'],
      ...['too_many_requests', 'some resource has been exhausted'],
    ],
  },
  {
    code: 'overloaded',
    codes: ['unavailable', 'service_unavailable', 'the service is currently unavailable'],
  },
  {
    code: 'timeout',
    codes: 'timeout timeout_error deadline_exceeded request_timeout gateway_timeout'.split(' '),
  },
  { code: 'permission', codes: ['permission_error', 'permission_denied'] },
  { code: 'not-found', codes: ['not_found_error', 'not_found'] },
  {
    code: 'server',
    codes: [
      ...['server_error', 'api_error', 'internal', 'internal_error', 'internal_server_error'],
      ...['model_error', 'missing_thought_signature'],
    ],
  },
  {
    code: 'invalid-request',
    codes: [
      ...['invalid_request_error', 'invalid_argument', 'invalid-argument', 'invalid_request'],
      ...['failed_precondition', 'parameter_unknown', 'out_of_range'],
    ],
  },
];

const RETRYABLE: ReadonlySet<string> = new Set([
  'rate-limit',
  'overloaded',
  'server',
  'timeout',
  'network',
  'malformed-stream',
]);

export function isRetryable(code: string): boolean {
  return RETRYABLE.has(code);
}

export function classifyFailure(status: number | null, body: ErrorBody): ProviderErrorCode {
  const exact = EXACT.find(rule => matches(rule, status, body));
  if (exact) return exact.code;
  if (status === null) return BY_CODE.find(rule => matches(rule, status, body))?.code ?? 'unknown';
  const known = BY_STATUS.get(status);
  if (known !== undefined) return known;
  if (status >= 500) return 'server';
  return status >= 400 ? 'invalid-request' : 'unknown';
}

function matches(rule: Rule, status: number | null, body: ErrorBody): boolean {
  if (rule.codes.some(code => body.codes.includes(code))) return true;
  const messageCounts = status === null || (status >= 400 && status < 500 && status !== 429);
  return messageCounts && rule.message?.test(body.message) === true;
}

/** The content of an error body, in one form for all providers. */
type ErrorBody = {
  message: string;
  /** Every code, type, status name and reason in the body, in lower case. */
  codes: string[];
  /** The HTTP status that the body names, for errors sent with status 200. */
  status: number | null;
  /** How long to wait before a retry, in ms. Gemini sends it only in the body, others in the message. */
  retryAfterMs: number | null;
};

/**
 * Reads `{error: {message, type, code}}` (OpenAI, Groq, Azure, Anthropic with `type` next to it),
 * `{error: {code, status, details}}` (Gemini, also in an array), `{detail}` and `{message, type, code}`
 * (Mistral, OpenAI's `error` event), `{code, error: text}` (xAI), `{error: text}` (Ollama),
 * `{error: {metadata: {raw}}}` (OpenRouter), and plain text.
 */
export function readErrorBody(body: JsonValue): ErrorBody {
  if (Array.isArray(body)) return readErrorBody(body[0] ?? null);
  if (!isJsonObject(body)) {
    const message = typeof body === 'string' ? body.trim() : '';
    return { message, codes: [], status: null, retryAfterMs: null };
  }
  const inner = isJsonObject(body.error) ? body.error : body;
  const message = messageIn(body, inner);
  return {
    message,
    codes: codesIn(body, inner),
    status: statusIn(inner) ?? statusIn(body),
    retryAfterMs: retryDelayIn(inner) ?? waitIn(message),
  };
}

function messageIn(body: JsonObject, inner: JsonObject): string {
  const message =
    nonEmpty(inner.message) ?? nonEmpty(body.error) ?? nonEmpty(body.detail) ?? nonEmpty(body.message) ?? '';
  const upstream = nonEmpty(objectOf(inner.metadata).raw);
  if (upstream) return message === '' ? upstream : `${message}: ${upstream}`;
  if (message !== '') return message;
  return [...arrayOf(body.detail), ...arrayOf(objectOf(inner.message).detail), ...arrayOf(inner.message)]
    .map(entry => nonEmpty(objectOf(entry).msg) ?? nonEmpty(entry) ?? '')
    .filter(text => text !== '')
    .join('; ');
}

function codesIn(body: JsonObject, inner: JsonObject): string[] {
  const candidates = [
    inner.code,
    inner.type,
    inner.status,
    objectOf(inner.innererror).code,
    objectOf(inner.metadata).error_type,
    ...objectsOf(inner.details).map(detail => detail.reason),
    body.code,
    body.type,
  ];
  return [...new Set(candidates.flatMap(code => nonEmpty(code)?.toLowerCase() ?? []))];
}

function statusIn({ status_code, raw_status_code, code, status }: JsonObject): number | null {
  const named = [status_code, raw_status_code, code, status].map(
    value => integerIn(value) ?? Number(nonEmpty(value) ?? Number.NaN),
  );
  return named.find(value => value >= 400 && value < 600) ?? null;
}

function retryDelayIn(inner: JsonObject): number | null {
  const [seconds] = objectsOf(inner.details).flatMap(
    ({ retryDelay }) => /^(\d+(?:\.\d+)?)s$/.exec(nonEmpty(retryDelay) ?? '')?.[1] ?? [],
  );
  return seconds === undefined ? null : Math.round(Number(seconds) * 1_000);
}

/** The wait in ms that a message names, such as `try again in 7m54.5s`: an error in a stream has no headers. */
function waitIn(message: string): number | null {
  const [, ...counts] = WAIT.exec(message) ?? [];
  if (counts.every(count => count === undefined)) return null;
  return Math.round(counts.reduce((sum, count, at) => sum + Number(count ?? 0) * (UNITS_MS[at] ?? 0), 0));
}

const WAIT =
  /(?:try again|retry) (?:in|after) (?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6}(?:\.\d{1,9})?) ?s)?(?:(\d{1,9}) ?ms)?/i;

const UNITS_MS = [3_600_000, 60_000, 1_000, 1];

/** The wait in ms that `retry-after-ms` asks for, or `retry-after` in seconds or as a date; else `null`. */
function retryAfterMs(headers: Pick<Headers, 'get'>, now: number): number | null {
  const exact = numberIn(headers.get('retry-after-ms'));
  if (exact !== null) return exact;
  const hint = headers.get('retry-after');
  const seconds = numberIn(hint);
  if (seconds !== null) return Math.round(seconds * 1_000);
  const date = Date.parse(hint ?? '');
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}

function numberIn(text: string | null): number | null {
  if (text === null || text.trim() === '') return null;
  const value = Number(text);
  return Number.isFinite(value) && value >= 0 ? value : null;
}

/** A redirect that was not followed. `location` is the resolved target URL; empty when the server named none. */
export class RedirectRefused extends Error {
  override readonly name = 'RedirectRefused';
  readonly status: number;
  readonly location: string;

  constructor(status: number, location: string) {
    super(`a redirect (HTTP ${status}) was not followed`);
    this.status = status;
    this.location = location;
  }
}
