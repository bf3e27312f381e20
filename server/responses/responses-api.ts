import type { Context, Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import * as z from 'zod';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { MountedApi } from '../app.ts';
import { BODY_LIMITS, readBody } from '../read-body.ts';
import type { RunsEnv } from '../runs/run-routes.ts';
import { describeResponsesError, ResponsesError } from './api-error.ts';
import type { LiveResponse } from './follow-response.ts';
import { inputItemsOf, pageOf } from './request/input-listing.ts';
import { streamEvents } from './response-stream.ts';
import { ResponsesService, type ResponsesServiceOptions } from './responses-service.ts';

/** Images and files come in the body. */
const LIMITS = { ...BODY_LIMITS, maxBytes: 32 * 1024 * 1024 };

export type ResponsesApi = MountedApi & { service: ResponsesService };

/** `/v1/responses` for the server that serves the runs API. */
export function createResponsesApi(options: ResponsesServiceOptions): ResponsesApi {
  const service = new ResponsesService(options);
  return {
    service,
    prefix: '/v1',
    add: app => addRoutes(app, service),
    answerError(c, thrown) {
      const { status, body, told } = describeResponsesError(thrown);
      if (!told) options.log(`${c.req.method} failed: ${thrown.stack ?? thrown.message}`);
      // Clients would send a request again, and with it what it did. Where nothing is served yet they may.
      if (status >= 409 && status !== 503 && status !== 429) c.header('x-should-retry', 'false');
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
    return isJsonObject(value) && value.stream === true ? stream(c, live) : await whole(c, live);
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

function statusOf(code: JsonValue | undefined, isRetryable: boolean): 400 | 429 | 502 | 503 {
  if (code === 'rate_limit_exceeded') return 429;
  if (code === 'invalid_prompt') return 400;
  return isRetryable ? 503 : 502;
}

/** A response that failed is an error to whoever waits for it; it can be retrieved all the same. */
async function whole(c: Context<RunsEnv>, live: LiveResponse): Promise<Response> {
  c.req.raw.signal.addEventListener('abort', () => live.leave());
  const response: JsonObject = await live.finished();
  if (response.status !== 'failed') return c.json(response);
  const { code, message } = isJsonObject(response.error) ? response.error : {};
  const retryAfter = live.retryAfter();
  const status = statusOf(code, retryAfter !== null);
  if (retryAfter === null) c.header('x-should-retry', 'false');
  else if (retryAfter > 0) c.header('retry-after', String(retryAfter));
  throw new ResponsesError(typeof message === 'string' ? message : 'The response failed.', {
    status,
    type: status === 429 ? 'rate_limit_error' : status === 400 ? 'invalid_request_error' : 'server_error',
    code: typeof code === 'string' ? code : 'server_error',
  });
}
