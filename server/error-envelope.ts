import { EngineError, type EngineErrorCode, setupError } from '../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';

export type ApiErrorCode =
  | EngineErrorCode
  | 'unauthorized'
  | 'forbidden'
  | 'not-found'
  | 'method-not-allowed'
  | 'agent-unknown'
  | 'agent-unavailable'
  | 'too-large'
  | 'too-many-attempts'
  | 'rate-limit-exceeded'
  | 'request-aborted'
  | 'unsupported-media-type'
  | 'shutting-down'
  | 'internal';

/**
 * The body of every error response. `by` is the person who made the earlier decision, for `already-decided`, and the
 * groups that may decide, for `not-allowed`.
 */
export type ErrorEnvelope = {
  error: { code: ApiErrorCode; message: string; details?: JsonValue; by?: string | string[] };
};

type ErrorStatus = 400 | 401 | 403 | 404 | 405 | 409 | 413 | 415 | 429 | 500 | 503;

const STATUS: Readonly<Record<ApiErrorCode, ErrorStatus>> = {
  unauthorized: 401,
  forbidden: 403,
  'not-found': 404,
  'method-not-allowed': 405,
  'agent-unknown': 404,
  'agent-unavailable': 503,
  'too-large': 413,
  'too-many-attempts': 429,
  'rate-limit-exceeded': 429,
  'request-aborted': 400,
  'unsupported-media-type': 415,
  'shutting-down': 503,
  internal: 500,
  'agent-invalid': 400,
  'input-invalid': 400,
  'run-unknown': 404,
  'call-unknown': 404,
  'result-missing': 404,
  'run-exists': 409,
  'run-foreign': 409,
  'run-ended': 409,
  'call-not-open': 409,
  'already-decided': 409,
  'not-allowed': 403,
  'wrong-digest': 409,
  expired: 409,
  'attempt-alive': 409,
  'already-happened': 409,
  'inbox-full': 409,
  'request-reused': 409,
  refused: 409,
  'snapshot-outdated': 409,
  'lease-held': 409,
  'lease-lost': 503,
  'chart-mismatch': 503,
  'state-unknown': 500,
  'journal-damaged': 500,
  'store-unavailable': 503,
  'store-locked': 503,
  'store-full': 503,
  'store-damaged': 503,
  'store-replaced': 503,
  'store-reply-lost': 503,
  'model-missing': 503,
  'model-unknown': 503,
  'key-missing': 503,
  'base-url-invalid': 503,
  'agent-module-invalid': 500,
  'script-invalid': 500,
  'tool-source-failed': 503,
  'sign-in-needed': 503,
  'sign-in-failed': 400,
};

const LONGEST_MESSAGE = 2_000;

export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ApiErrorCode;
  readonly details: JsonValue | undefined;
  readonly by: string | string[] | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    code: ApiErrorCode,
    message: string,
    {
      details,
      by,
      retryAfterMs,
    }: { details?: JsonValue; by?: string | string[] | undefined; retryAfterMs?: number } = {},
  ) {
    super(message);
    this.code = code;
    this.details = details;
    this.by = by;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Only `ApiError` and `EngineError` reach the caller; the message of anything else goes only to the log. */
export function describeError(thrown: unknown): { status: ErrorStatus; envelope: ErrorEnvelope } {
  const error = setupError(thrown) ?? thrown;
  if (error instanceof ApiError) {
    return answer(error.code, error.message, omitUndefined({ details: error.details, by: error.by }));
  }
  if (error instanceof EngineError) {
    return answer(error.code, error.message, error.details === null ? {} : { details: error.details });
  }
  return answer(
    'internal',
    'The server failed on this request. See its log for the cause. Other requests are not affected.',
  );
}

function answer(
  code: ApiErrorCode,
  message: string,
  more: { details?: JsonValue; by?: string | string[] } = {},
) {
  const short = message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message;
  return { status: STATUS[code], envelope: { error: { code, message: short, ...more } } };
}
