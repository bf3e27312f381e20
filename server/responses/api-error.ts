import { EngineError, ProviderError, setupError } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { ApiError, describeError } from '../error-envelope.ts';

export type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'server_error';

/** Why a request is not done, in OpenAI's terms. `param` is the path of what is wrong, such as `input[0].type`. */
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

/** The status, and OpenAI's envelope. Only what was meant for the caller is told to the caller. */
export function describeResponsesError(thrown: unknown): { status: number; body: JsonObject; told: boolean } {
  const error = setupError(thrown) ?? thrown;
  if (error instanceof ResponsesError) return answer(error.status, error);
  if (error instanceof ProviderError)
    return answer(502, { ...error, type: 'server_error', param: null, message: error.message });
  const { status, envelope } = describeError(error);
  const { message, code } = envelope.error;
  const known = error instanceof EngineError || error instanceof ApiError;
  return {
    ...answer(status, { message, code: snake(code), type: TYPES[status] ?? 'server_error', param: null }),
    told: known,
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

type Told = { message: string; type: ErrorType; code: string | null; param: string | null };

function answer(status: number, { message, type, code, param }: Told) {
  return { status, body: { error: { message, type, param, code } }, told: true };
}

function snake(code: string): string {
  return code.replaceAll('-', '_');
}
