import type { Context, Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import * as z from 'zod';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { MountedApi } from '../app.ts';
import { BODY_LIMITS, readBody } from '../read-body.ts';
import type { RunsEnv } from '../runs/run-routes.ts';
import { describeResponsesError, type ErrorType, ResponsesError } from './api-error.ts';
import type { LiveResponse } from './follow-response.ts';
import { inputItemsOf, pageOf } from './request/input-listing.ts';
import { streamEvents } from './response-stream.ts';
import { ResponsesService, type ResponsesServiceOptions } from './responses-service.ts';

/** Larger than for other routes, because images and files are part of the body. */
const LIMITS = { ...BODY_LIMITS, maxBytes: 32 * 1024 * 1024 };

/** The mounted routes and their service. */
type ResponsesApi = MountedApi & { service: ResponsesService };

/** Creates the `/v1/responses` routes, to be mounted on the server of the runs API. */
export function createResponsesApi(options: ResponsesServiceOptions): ResponsesApi {
  const service = new ResponsesService(options);
  return {
    service,
    prefix: '/v1',
    add: app => addRoutes(app, service),
    answerError(c, thrown) {
      const { status, body, reported } = describeResponsesError(thrown);
      if (!reported) options.log(`${c.req.method} failed: ${thrown.stack ?? thrown.message}`);
      // OpenAI's clients retry 409 and 5xx by default, which would repeat the request's effects. After a 429 or 503 they
      // may: nothing was done.
      if (status >= 409 && status !== 429 && status !== 503) c.header('x-should-retry', 'false');
      if (status === 401) c.header('WWW-Authenticate', 'Bearer');
      if (status === 413) c.header('Connection', 'close');
      return c.json(body, status as ContentfulStatusCode);
    },
  };
}

function addRoutes(app: Hono<RunsEnv>, service: ResponsesService): void {
  app.post('/v1/responses', async c => {
    const value = await readBody(c.req.raw, z.unknown(), LIMITS);
    const live = await service.create(value);
    c.header('x-request-id', live.runId);
    return isJsonObject(value) && value.stream === true ? stream(c, live) : await respondWhenDone(c, live);
  });
  app.get('/v1/responses/:id', async c => c.json(await service.retrieve(c.req.param('id'))));
  app.delete('/v1/responses/:id', async c => {
    const id = c.req.param('id');
    await service.delete(id);
    return c.json({ id, object: 'response.deleted', deleted: true });
  });
  app.get('/v1/responses/:id/input_items', async c => {
    const found = await service.find(c.req.param('id'));
    const { order, after, limit } = c.req.query();
    return c.json(pageOf(inputItemsOf(found), { order, after, limit }));
  });
}

function stream(c: Context<RunsEnv>, live: LiveResponse): Response {
  return c.body(streamEvents(live), 200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'X-Accel-Buffering': 'no',
  });
}

/** Answers with the finished response. A failed response becomes an HTTP error; it can still be retrieved. */
async function respondWhenDone(c: Context<RunsEnv>, live: LiveResponse): Promise<Response> {
  c.req.raw.signal.addEventListener('abort', () => live.leave());
  const response: JsonObject = await live.finished();
  if (response.status !== 'failed') return c.json(response);
  const { code, message } = isJsonObject(response.error) ? response.error : {};
  const retryAfter = live.retryAfter();
  if (retryAfter === null) c.header('x-should-retry', 'false');
  else if (retryAfter > 0) c.header('retry-after', String(retryAfter));
  throw new ResponsesError(typeof message === 'string' ? message : 'The response failed.', {
    ...httpErrorFor(code, retryAfter !== null),
    code: typeof code === 'string' ? code : 'server_error',
  });
}

function httpErrorFor(code: unknown, isRetryable: boolean): { status: number; type: ErrorType } {
  if (code === 'rate_limit_exceeded') return { status: 429, type: 'rate_limit_error' };
  if (code === 'invalid_prompt') return { status: 400, type: 'invalid_request_error' };
  return { status: isRetryable ? 503 : 502, type: 'server_error' };
}
