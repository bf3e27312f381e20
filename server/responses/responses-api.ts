import type { Hono } from 'hono';
import * as z from 'zod';
import { nextReaderTurn } from '../../engine/events/readers/reader-turns.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { MountedApi } from '../mounted-api.ts';
import { readBody } from '../read-body.ts';
import { V1_ROUTES } from '../route-table.ts';
import type { RunsEnv } from '../runs-env.ts';
import { invalid } from './api-error.ts';
import { addConversationRoutes } from './conversations/conversation-routes.ts';
import { addModelRoutes } from './model-routes.ts';
import { inputItemsOf, pageOf } from './request/input-listing.ts';
import { readCreateBody } from './request/request-body.ts';
import { answerOpenAIError, finishedResponse, RESPONSE_EVENTS, respondWithEvents } from './respond.ts';
import { ResponsesService, type ResponsesServiceOptions } from './responses-service.ts';
import { socketRoute } from './socket/socket-route.ts';

/** The mounted routes and their service. */
type ResponsesApi = MountedApi & { service: ResponsesService };

/** Creates the `/v1/responses` routes, to be mounted on the server of the runs API. */
export function createResponsesApi(options: ResponsesServiceOptions): ResponsesApi {
  const service = new ResponsesService(options);
  return {
    service,
    prefix: '/v1',
    paths: ['/v1/responses', '/v1/conversations', '/v1/models'],
    area: 'v1',
    routes: V1_ROUTES,
    add(app) {
      app.get('/v1/responses', socketRoute({ service, host: options.host, log: options.log }));
      addRoutes(app, service);
      addModelRoutes(app, service);
      addConversationRoutes(app, service.conversations);
    },
    close: () => service.endStreams(),
    answerError: (c, thrown) => answerOpenAIError(c, thrown, options.log),
  };
}

function addRoutes(app: Hono<RunsEnv>, service: ResponsesService): void {
  app.post('/v1/responses', async c => {
    const request = readCreateBody(await readBody(c.req.raw, z.unknown(), c.get('requestLimits')));
    const caller = c.get('caller');
    const key = c.req.header('idempotency-key');
    const live = await service.create(request, caller, omitUndefined({ key }));
    if (request.stream === true) return respondWithEvents(c, live, RESPONSE_EVENTS);
    if (request.background === true) {
      live.leave();
      return c.json(await service.retrieve(live.id, caller));
    }
    return c.json((await finishedResponse(c, live)).whole);
  });
  app.post('/v1/responses/input_tokens', async c => {
    const request = readCreateBody(await readBody(c.req.raw, z.unknown(), c.get('requestLimits')));
    const tokens = await service.countInput(request, c.get('caller'));
    return c.json({ object: 'response.input_tokens', input_tokens: tokens });
  });
  app.post('/v1/responses/compact', async c => {
    const value = await readBody(c.req.raw, z.unknown(), c.get('requestLimits'));
    const { live, result } = await service.compact(value, c.get('caller'));
    return c.json(result((await finishedResponse(c, live)).whole));
  });
  app.get('/v1/responses/:id', async c => {
    const id = c.req.param('id');
    const caller = c.get('caller');
    if (c.req.query('stream') !== 'true') return c.json(await service.retrieve(id, caller));
    const startingAfter = readNumber(c.req.query('starting_after'));
    await nextReaderTurn();
    const { live, after } = await service.resume(id, caller, startingAfter);
    return respondWithEvents(c, live, RESPONSE_EVENTS, after);
  });
  app.post('/v1/responses/:id/cancel', async c =>
    c.json(await service.cancel(c.req.param('id'), c.get('caller'))),
  );
  app.delete('/v1/responses/:id', async c => {
    const id = c.req.param('id');
    await service.delete(id, c.get('caller'));
    return c.json({ id, object: 'response.deleted', deleted: true });
  });
  app.get('/v1/responses/:id/input_items', async c => {
    const found = await service.find(c.req.param('id'), c.get('caller'));
    return c.json(pageOf(inputItemsOf(found), c.req.query()));
  });
}

function readNumber(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw invalid('starting_after', 'invalid_value', "'starting_after' is not valid: expected an integer.");
}
