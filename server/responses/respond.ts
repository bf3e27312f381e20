/** What the routes of all protocols share: how a response in progress becomes an HTTP response. */
import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { RunsEnv } from '../runs-env.ts';
import { describeResponsesError, type ErrorType, ResponsesError } from './api-error.ts';
import type { LiveResponse } from './live/live-response.ts';
import { type StreamFormat, streamEvents } from './response-stream.ts';

/** Answers with the events of a response, by default all, in the format of a protocol. */
export function respondWithEvents(
  c: Context<RunsEnv>,
  live: LiveResponse,
  format: StreamFormat,
  after?: number,
): Response {
  return c.body(streamEvents(live, format, after), 200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'X-Accel-Buffering': 'no',
  });
}

/**
 * The finished response object. Throws the `ResponsesError` of a failed response and sets the headers that tell clients
 * whether and when to retry.
 */
export async function finishedResponse(c: Context<RunsEnv>, live: LiveResponse): Promise<JsonObject> {
  c.req.raw.signal.addEventListener('abort', () => live.leave());
  const response = await live.finished().catch(error => {
    // The run continues. A repeated request would start another run.
    c.header('x-should-retry', 'false');
    throw error;
  });
  if (response.status !== 'failed') return response;
  const retryAfter = live.retryAfter();
  if (retryAfter === null) c.header('x-should-retry', 'false');
  else if (retryAfter > 0) c.header('retry-after', String(retryAfter));
  throw failureOf(response, { isRetryable: retryAfter !== null });
}

/** The error of a failed or cancelled response object. */
export function failureOf(
  { error, status }: JsonObject,
  { isRetryable = false }: { isRetryable?: boolean } = {},
): ResponsesError {
  const { code, message } = isJsonObject(error) ? error : {};
  const reason = status === 'cancelled' ? 'The response was cancelled.' : 'The response failed.';
  return new ResponsesError(typeof message === 'string' ? message : reason, {
    ...httpErrorFor(code, isRetryable),
    code: typeof code === 'string' ? code : 'server_error',
  });
}

function httpErrorFor(code: unknown, isRetryable: boolean): { status: number; type: ErrorType } {
  if (code === 'rate_limit_exceeded') return { status: 429, type: 'rate_limit_error' };
  if (code === 'invalid_prompt') return { status: 400, type: 'invalid_request_error' };
  return { status: isRetryable ? 503 : 502, type: 'server_error' };
}

/** Answers with OpenAI's error envelope. Logs errors whose details the client does not see. */
export function answerOpenAIError(c: Context<RunsEnv>, thrown: Error, log: (line: string) => void): Response {
  const { status, body, reported } = describeResponsesError(thrown);
  if (!reported)
    log(`Request ${c.get('requestId')} (${c.req.method}) failed: ${thrown.stack ?? thrown.message}`);
  setErrorHeaders(c, status);
  return c.json(body, status as ContentfulStatusCode);
}

/** The statuses of a request that did nothing: 529 is Anthropic's 503. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 503, 529]);

/** Sets the headers of an error response, in every protocol. */
export function setErrorHeaders(c: Context<RunsEnv>, status: number): void {
  // Clients retry 409 and 5xx by default, which would repeat the request's effects. After some errors they may: nothing
  // was done.
  if (status >= 409 && !RETRYABLE.has(status)) c.header('x-should-retry', 'false');
  if (status === 401) c.header('WWW-Authenticate', 'Bearer');
  if (status === 413) c.header('Connection', 'close');
}
