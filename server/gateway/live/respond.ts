/** What the routes of all protocols share: how a response in progress becomes an HTTP response. */
import type { Context } from 'hono';
import { type BodyFormat, EVENT_STREAM_HEADERS, streamedBody } from '../../../engine/events/streamed-body.ts';
import { type ErrorType, ResponsesError } from '../../openai-error.ts';
import type { RunsEnv } from '../../runs-env.ts';
import type { AnswerEnd } from '../answer/answer-event.ts';
import type { FinishedResponse, LiveResponse, ResponseEnd } from './response-feed.ts';

export type StreamFormat<Wire> = Pick<BodyFormat<readonly Wire[]>, 'frame' | 'end'> & {
  keepAlive: string;
  failed(thrown: unknown, last: Wire | undefined, after: number): string;
};

export const DONE = 'data: [DONE]\n\n';

/** Once the answer has begun. Throws the `ResponsesError` of a response that failed before, as `finishedResponse` does. */
export async function respondFromBeginning<Wire>(
  c: Context<RunsEnv>,
  live: LiveResponse<Wire, unknown>,
  format: StreamFormat<Wire>,
): Promise<Response> {
  leaveWithClient(c, live);
  const failed = await orBrokenOff(c, live, live.begun());
  if (failed === null) return respondWithEvents(c, live, format);
  live.leave();
  throw failureFor(c, failed);
}

/** With the events after number `after`, by default all. */
export function respondWithEvents<Wire>(
  c: Context<RunsEnv>,
  live: LiveResponse<Wire, unknown>,
  format: StreamFormat<Wire>,
  after?: number,
): Response {
  leaveWithClient(c, live);
  let last: Wire | undefined;
  const body = streamedBody(live.batches(after), {
    end: format.end ?? '',
    keepAlive: { text: format.keepAlive, host: live.host },
    frame(batch) {
      last = batch.at(-1) ?? last;
      return format.frame(batch);
    },
    failed: thrown => format.failed(thrown, last, after ?? -1),
    leave: () => live.leave(),
  });
  return c.body(body, 200, EVENT_STREAM_HEADERS);
}

/** Throws the `ResponsesError` of a failed response and sets the headers that tell clients whether and when to retry. */
export async function finishedResponse<Whole>(
  c: Context<RunsEnv>,
  live: LiveResponse<unknown, Whole>,
): Promise<FinishedResponse<Whole>> {
  leaveWithClient(c, live);
  const finished = await orBrokenOff(c, live, live.finished());
  if (finished.end.status === 'failed') throw failureFor(c, finished);
  return finished;
}

async function orBrokenOff<Value>(
  c: Context<RunsEnv>,
  live: LiveResponse<unknown, unknown>,
  value: Promise<Value>,
): Promise<Value> {
  return await value.catch(error => {
    if (live.hasEffects()) c.header('x-should-retry', 'false');
    throw error;
  });
}

function failureFor(c: Context<RunsEnv>, { end, retryAfter }: ResponseEnd): ResponsesError {
  if (retryAfter === null) c.header('x-should-retry', 'false');
  else if (retryAfter > 0) c.header('retry-after', String(retryAfter));
  return failureOf(end, { isRetryable: retryAfter !== null });
}

/** The client may have left while its request was prepared. */
function leaveWithClient(c: Context<RunsEnv>, live: LiveResponse<unknown, unknown>): void {
  const { signal } = c.req.raw;
  if (signal.aborted) live.leave();
  else signal.addEventListener('abort', () => live.leave());
}

export function failureOf(
  { error, status }: AnswerEnd,
  { isRetryable = false }: { isRetryable?: boolean } = {},
): ResponsesError {
  const reason = status === 'cancelled' ? 'The response was cancelled.' : 'The response failed.';
  const { code = 'server_error', message = reason } = error ?? {};
  return new ResponsesError(message, { ...httpErrorFor(code, isRetryable), code });
}

function httpErrorFor(code: string, isRetryable: boolean): { status: number; type: ErrorType } {
  if (code === 'rate_limit_exceeded') return { status: 429, type: 'rate_limit_error' };
  if (code === 'invalid_prompt' || code === 'context_length_exceeded')
    return { status: 400, type: 'invalid_request_error' };
  return { status: isRetryable ? 503 : 502, type: 'server_error' };
}
