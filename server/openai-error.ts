import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type * as z from 'zod';
import { EngineError, ProviderError, setupError } from '../protocol/error.ts';
import { asSentence } from '../protocol/options/refuse-unknown.ts';
import { ApiError, describeError } from './error-envelope.ts';
import type { RunsEnv } from './runs-env.ts';

export type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'server_error';

/** A refused request, in OpenAI's terms. `param` is the path of the invalid field, such as `input[0].type`. */
export class ResponsesError extends Error {
  override readonly name = 'ResponsesError';
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  readonly param: string | null;

  constructor(
    message: string,
    details: { status?: number; type?: ErrorType; code?: string | null; param?: string | null } = {},
  ) {
    super(message);
    this.status = details.status ?? 400;
    this.type = details.type ?? 'invalid_request_error';
    this.code = details.code ?? null;
    this.param = details.param ?? null;
  }
}

export function invalid(param: string | null, code: string, message: string): ResponsesError {
  return new ResponsesError(message, { param, code });
}

export function notFound(message: string, code: string, param: string | null = null): ResponsesError {
  return new ResponsesError(message, { status: 404, code, param });
}

export function missing(param: string | null): ResponsesError {
  return invalid(param, 'missing_required_parameter', `Missing required parameter: '${param}'.`);
}

/** With `reported: false` the caller sees no details, so the error must be logged. */
export function describeResponsesError(thrown: unknown): {
  status: number;
  body: { error: ErrorFields };
  reported: boolean;
} {
  const error = setupError(thrown) ?? thrown;
  if (error instanceof ResponsesError) return answer(error.status, error);
  if (error instanceof ProviderError)
    return answer(502, { ...error, type: 'server_error', param: null, message: error.message });
  const { status, envelope } = describeError(error);
  const { message, code } = envelope.error;
  const reported = error instanceof EngineError || error instanceof ApiError;
  return {
    ...answer(status, { message, code: snake(code), type: TYPES[status] ?? 'server_error', param: null }),
    reported,
  };
}

const TYPES: Readonly<Record<number, ErrorType>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'invalid_request_error',
  409: 'invalid_request_error',
  413: 'invalid_request_error',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
};

type ErrorFields = { message: string; type: ErrorType; code: string | null; param: string | null };

function answer(status: number, { message, type, code, param }: ErrorFields) {
  return { status, body: { error: { message, type, param, code } }, reported: true };
}

function snake(code: string): string {
  return code.replaceAll('-', '_');
}

/** The error for a schema's issue. Its `param` is the path of the issue, below the path `within`. */
export function describeIssue(issue: z.core.$ZodIssue | undefined, within = ''): ResponsesError {
  const param = placeOf(issue?.path ?? [], within);
  const where = param === '' ? 'The body' : `'${param}'`;
  return invalid(
    param || null,
    'invalid_value',
    asSentence(`${where} is not valid: ${issue?.message ?? 'unknown'}`),
  );
}

function placeOf(path: readonly PropertyKey[], within: string): string {
  let place = within;
  for (const key of path) {
    if (typeof key === 'number') place += `[${key}]`;
    else place += place === '' ? String(key) : `.${String(key)}`;
  }
  return place;
}

export function answerOpenAIError(c: Context<RunsEnv>, thrown: Error, log: (line: string) => void): Response {
  return answerError(c, thrown, log, describeResponsesError(thrown));
}

/** The statuses of a request that did nothing: 529 is Anthropic's 503. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 503, 529]);

/** Logs an error that is not `reported`. */
export function answerError(
  c: Context<RunsEnv>,
  thrown: Error,
  log: (line: string) => void,
  { status, body, reported }: { status: number; body: object; reported: boolean },
): Response {
  if (!reported)
    log(`Request ${c.get('requestId')} (${c.req.method}) failed: ${thrown.stack ?? thrown.message}`);
  // Clients retry 409 and 5xx by default, which would repeat the request's effects. After some errors they may: nothing
  // was done.
  if (status >= 409 && !RETRYABLE.has(status)) c.header('x-should-retry', 'false');
  if (status === 413) c.header('Connection', 'close');
  return c.json(body, status as ContentfulStatusCode);
}
