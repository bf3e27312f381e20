import type { ProviderErrorCode } from '../../protocol/error.ts';
import type { ErrorBody } from './error-body.ts';

/**
 * A rule matches when the body contains one of `codes`, or when its message matches and the status does not
 * contradict it.
 */
type Rule = { code: ProviderErrorCode; codes: readonly string[]; message?: RegExp };

/** Rules that are more precise than the HTTP status. The first match wins. */
const EXACT: readonly Rule[] = [
  {
    code: 'quota',
    codes: ['insufficient_quota', 'billing_hard_limit_reached', 'billing_not_active', 'insufficient_balance'],
    message:
      /insufficient (?:credits?|balance|funds|quota)|credit balance is too low|used all available credits/i,
  },
  {
    code: 'authentication',
    codes: ['invalid_api_key', 'api_key_invalid', 'authentication_error', 'unauthenticated'],
    message: /(?:incorrect|invalid) (?:x-)?api[ -]key|api key not valid/i,
  },
  {
    code: 'context-too-long',
    codes: ['context_length_exceeded', 'context_window_exceeded', 'request_too_large'],
    message:
      /prompt is too long|maximum context length|context (?:window|length).{0,40}exceed|exceeds? (?:the |this |your )?(?:model's )?(?:maximum )?(?:context|number of (?:input )?tokens)|input token count.{0,40}exceeds/i,
  },
  {
    code: 'content-filter',
    codes: ['content_filter', 'content_policy_violation', 'responsibleaipolicyviolation', 'invalid_prompt'],
    message: /content management policy|content policy|safety system|violat\w{1,10} .{0,40}usage polic/i,
  },
  { code: 'not-found', codes: ['model_not_found', 'deploymentnotfound'] },
  {
    code: 'overloaded',
    codes: [
      'overloaded_error',
      'overloaded',
      'slow_down',
      'engine_overloaded',
      'insufficient_system_resource',
    ],
  },
];

/** The code for a status when no `EXACT` rule matches. */
const BY_STATUS: ReadonlyMap<number, ProviderErrorCode> = new Map([
  [401, 'authentication'],
  [402, 'quota'],
  [403, 'permission'],
  [404, 'not-found'],
  [408, 'timeout'],
  [409, 'server'],
  [413, 'context-too-long'],
  [429, 'rate-limit'],
  [503, 'overloaded'],
  [504, 'timeout'],
  [529, 'overloaded'],
]);

/** Rules for errors without an HTTP status, such as errors in a stream. */
const BY_CODE: readonly Rule[] = [
  {
    code: 'rate-limit',
    codes: [
      'rate_limit_error',
      'rate_limit_exceeded',
      'ratelimitreached',
      'resource_exhausted',
      'too_many_requests',
    ],
  },
  { code: 'overloaded', codes: ['unavailable', 'service_unavailable'] },
  { code: 'timeout', codes: ['timeout', 'timeout_error', 'deadline_exceeded', 'request_timeout'] },
  { code: 'permission', codes: ['permission_error', 'permission_denied'] },
  { code: 'not-found', codes: ['not_found_error', 'not_found'] },
  {
    code: 'server',
    codes: ['server_error', 'api_error', 'internal', 'internal_error', 'internal_server_error'],
  },
  { code: 'invalid-request', codes: ['invalid_request_error', 'invalid_argument', 'invalid-argument'] },
];

const RETRYABLE: ReadonlySet<ProviderErrorCode> = new Set([
  'rate-limit',
  'overloaded',
  'server',
  'timeout',
  'network',
  'malformed-stream',
]);

/** Whether an error with this code may succeed when the request is repeated. */
export function isRetryable(code: ProviderErrorCode): boolean {
  return RETRYABLE.has(code);
}

/**
 * Returns the error code for a failure that a provider reported. `status` is `null` when there was no HTTP
 * status.
 */
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
