import type { ProviderErrorCode } from '../../protocol/error.ts';
import type { ErrorBody } from './error-body.ts';

/** A rule holds when the body names one of `codes`, or its message matches and the status does not point elsewhere. */
type Rule = { code: ProviderErrorCode; codes: readonly string[]; message?: RegExp };

/** What the body says more exactly than the HTTP status. The first that holds counts. */
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

/** What a status means when the body says nothing more exact. */
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

/** What a code means where no status came, as in a stream. */
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

export function isRetryable(code: ProviderErrorCode): boolean {
  return RETRYABLE.has(code);
}

/** The code of a failure the provider reported. `status` is `null` where none came. */
export function classifyFailure(status: number | null, body: ErrorBody): ProviderErrorCode {
  const exact = EXACT.find(rule => holds(rule, status, body));
  if (exact) return exact.code;
  if (status === null) return BY_CODE.find(rule => holds(rule, status, body))?.code ?? 'unknown';
  return BY_STATUS.get(status) ?? (status >= 500 ? 'server' : status >= 400 ? 'invalid-request' : 'unknown');
}

function holds(rule: Rule, status: number | null, body: ErrorBody): boolean {
  if (rule.codes.some(code => body.codes.includes(code))) return true;
  const messageCounts = status === null || (status >= 400 && status < 500 && status !== 429);
  return messageCounts && rule.message?.test(body.message) === true;
}
