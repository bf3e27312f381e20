import type { ErrorType as SdkErrorType } from '@anthropic-ai/sdk/resources/shared';
import type * as z from 'zod';
import type { JsonObject } from '../../protocol/json.ts';
import { asSentence } from '../../protocol/options/refuse-unknown.ts';
import type { AnswerEnd } from '../gateway/answer/answer-event.ts';
import { NO_THREADS } from '../gateway/request/field-table.ts';
import { describeResponsesError, invalid, type ResponsesError } from '../openai-error.ts';

/** One more is documented than the SDK's type has: https://platform.claude.com/docs/en/api/errors */
type ErrorType = SdkErrorType | 'request_too_large';

export type MessageFailure = { type: ErrorType; message: string; details?: { error_code: string } };

const TYPES: Readonly<Record<number, ErrorType>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'invalid_request_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

export function describeMessageError(
  thrown: unknown,
  requestId: string,
): { status: number; body: JsonObject; reported: boolean } {
  const { status: found, body, reported } = describeResponsesError(thrown);
  const { code } = body.error;
  const status = statusFor(found, code);
  const type = TYPES[status] ?? 'api_error';
  const message = inMessageTerms(body.error);
  const error = { type, message, ...detailsOf(code) };
  return { status, body: { type: 'error', error, request_id: requestId }, reported };
}

export function describeInterruption(thrown: unknown): MessageFailure {
  const { message, code } = describeResponsesError(thrown).body.error;
  const type = isStoreFault(code) ? 'api_error' : 'overloaded_error';
  return { type, message, ...detailsOf(code) };
}

/** Anthropic's `type` does not tell these errors from others. */
function detailsOf(code: unknown): { details?: { error_code: string } } {
  return code === NO_THREADS || isStoreFault(code) ? { details: { error_code: code } } : {};
}

/** A fault of this server's store, which is not Anthropic's overload. */
function isStoreFault(code: unknown): code is string {
  return typeof code === 'string' && code.startsWith('store_');
}

/** With the path of its tool first, as Anthropic writes it: `tools.0.name: …`. */
function inMessageTerms({
  message,
  code,
  param,
}: {
  message: string;
  code: unknown;
  param: string | null;
}): string {
  if (code === TOO_LONG) return tooLong(message);
  if (!param?.startsWith('tools.') || message.startsWith(param)) return message;
  return `${param}: ${message.replace(`'${param}'`, 'This field')}`;
}

/** Anthropic answers 404 for unknown models, 529 when overloaded, and 500 for failures. A store's fault stays 503. */
function statusFor(status: number, code: unknown): number {
  if (code === 'model_not_found') return 404;
  if (isStoreFault(code)) return status;
  if (status === 503) return 529;
  return status > 500 ? 500 : status;
}

export function describeMessageFailure({
  status,
  error,
  incompleteReason,
}: AnswerEnd): MessageFailure | undefined {
  if (incompleteReason === 'tool_outcome_unknown')
    return { type: 'api_error', message: 'The outcome of a tool call on the server is unknown.' };
  if (status !== 'failed' && status !== 'cancelled') return undefined;
  const { code, message = 'The response failed.' } = error ?? {};
  return { type: failureType(code), message: code === TOO_LONG ? tooLong(message) : message };
}

function failureType(code: unknown): ErrorType {
  if (code === 'rate_limit_exceeded') return 'rate_limit_error';
  return code === 'invalid_prompt' || code === TOO_LONG ? 'invalid_request_error' : 'api_error';
}

const TOO_LONG = 'context_length_exceeded';

/** By these words of Anthropic's, clients know that they have to shorten the conversation. */
function tooLong(message: string): string {
  return `prompt is too long: ${message}`;
}

export function invalidAt(path: string, problem: string): ResponsesError {
  return invalid(path, 'invalid_value', `${path}: ${problem}`);
}

export function describeProblem(issue: z.core.$ZodIssue | undefined): ResponsesError {
  const path = (issue?.path ?? []).map(String);
  if (issue?.code === 'unrecognized_keys')
    return invalidAt([...path, issue.keys[0] ?? ''].join('.'), asSentence(issue.message));
  const problem = (issue?.message ?? 'invalid').replace(/^Invalid input: /, '');
  if (issue?.code === 'invalid_type' && issue.input === undefined && problem.endsWith('received undefined'))
    return invalidAt(path.join('.'), 'Field required');
  return path.length === 0
    ? invalid(null, 'invalid_value', `The body: ${problem}`)
    : invalidAt(path.join('.'), problem);
}
