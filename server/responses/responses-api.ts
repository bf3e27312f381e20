import type { Hono } from 'hono';
import { nextReaderTurn } from '../../engine/events/reader-turns.ts';
import { frameOnce, KEEP_ALIVE_COMMENT } from '../../engine/events/streamed-body.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { GatewayService } from '../gateway/gateway-service.ts';
import {
  DONE,
  finishedResponse,
  respondFromBeginning,
  respondWithEvents,
  type StreamFormat,
} from '../gateway/live/respond.ts';
import { readSession } from '../gateway/request/client-session.ts';
import { nameIgnored } from '../gateway/request/read-fields.ts';
import type { MountedApi } from '../mounted-api.ts';
import { answerOpenAIError, describeResponsesError, invalid, notFound } from '../openai-error.ts';
import { V1_ROUTES } from '../route-table.ts';
import type { RunsEnv } from '../runs-env.ts';
import { codexModels } from './codex-models.ts';
import { readCreateBody } from './request-body.ts';
import type { WireEvent } from './response-writer.ts';
import type { Responses } from './responses.ts';
import { inputItemsOf, pageOf } from './wire-input.ts';

export function createResponsesApi(responses: Responses, log: (line: string) => void): MountedApi {
  const { service } = responses;
  return {
    prefix: '/v1',
    paths: ['/v1/responses', '/v1/conversations', '/v1/models'],
    area: 'v1',
    routes: V1_ROUTES,
    add(app) {
      addRoutes(app, responses);
      addModelRoutes(app, service);
    },
    close: () => service.live.close(),
    answerError: (c, thrown) => answerOpenAIError(c, thrown, log),
  };
}

function addRoutes(app: Hono<RunsEnv>, responses: Responses): void {
  app.post('/v1/responses', async c => {
    const body = await responses.service.fields.readBody(c, 'responses');
    const request = { ...readCreateBody(body), ...readSession(c.req.raw.headers, body) };
    const caller = c.get('caller');
    const key = c.req.header('idempotency-key');
    const { signal } = c.req.raw;
    const tellIgnored = (fields: readonly string[]) => nameIgnored(c, fields);
    const live = await responses.create(request, caller, { signal, tellIgnored, ...omitUndefined({ key }) });
    // A background response is accepted at once.
    const begin = request.background === true ? respondWithEvents : respondFromBeginning;
    if (request.stream === true) return await begin(c, live, RESPONSE_EVENTS);
    if (request.background === true) {
      live.leave();
      return c.json(await responses.retrieve(live.id, caller));
    }
    return c.json((await finishedResponse(c, live)).whole);
  });
  app.post('/v1/responses/input_tokens', async c => {
    const request = readCreateBody(await responses.service.fields.readBody(c, 'responses'));
    const tokens = await responses.countInput(request, c.get('caller'));
    return c.json({ object: 'response.input_tokens', input_tokens: tokens });
  });
  app.post('/v1/responses/compact', async c => {
    const value = await responses.service.fields.readBody(c, 'compact');
    const key = c.req.header('idempotency-key');
    const session = readSession(c.req.raw.headers, value);
    const how = { ...session, ...omitUndefined({ key }) };
    const { live, result } = await responses.compact(value, c.get('caller'), how);
    return c.json(await result((await finishedResponse(c, live)).whole));
  });
  app.get('/v1/responses/:id', async c => {
    const id = c.req.param('id');
    const caller = c.get('caller');
    if (c.req.query('stream') !== 'true') return c.json(await responses.retrieve(id, caller));
    const startingAfter = readNumber(c.req.query('starting_after'));
    await nextReaderTurn();
    const { live, after } = await responses.resume(id, caller, startingAfter);
    return respondWithEvents(c, live, RESPONSE_EVENTS, after);
  });
  app.post('/v1/responses/:id/cancel', async c => {
    const id = c.req.param('id');
    await responses.service.cancel(id, c.get('caller'));
    return c.json(await responses.retrieve(id, c.get('caller')));
  });
  app.delete('/v1/responses/:id', async c => {
    const id = c.req.param('id');
    await responses.service.delete(id, c.get('caller'));
    return c.json({ id, object: 'response.deleted', deleted: true });
  });
  app.get('/v1/responses/:id/input_items', async c => {
    const found = await responses.service.find(c.req.param('id'), c.get('caller'));
    return c.json(pageOf(inputItemsOf(found), c.req.query()));
  });
}

function readNumber(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw invalid('starting_after', 'invalid_value', "'starting_after' is not valid: expected an integer.");
}

const frameEvents = (batch: readonly WireEvent[]) =>
  batch.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');

/** `JSON.stringify` produces no line breaks, so one data line is enough. */
const RESPONSE_EVENTS: StreamFormat<WireEvent> = {
  frame: frameOnce(frameEvents),
  failed: (thrown, last, after) => frameEvents([errorEvent(thrown, (last?.sequence_number ?? after) + 1)]),
  keepAlive: KEEP_ALIVE_COMMENT,
  end: DONE,
};

/** It has the error twice: clients of Open Responses read `error`, others the fields of the event. */
function errorEvent(thrown: unknown, sequenceNumber: number): WireEvent {
  const { error } = describeResponsesError(thrown).body;
  const { message, code, param } = error;
  return { type: 'error', sequence_number: sequenceNumber, message, code, param, error };
}

function addModelRoutes(app: Hono<RunsEnv>, service: GatewayService): void {
  app.get('/v1/models', c => {
    if (c.req.query('client_version') !== undefined) return c.json(codexModels(service.models));
    return c.json({ object: 'list', data: service.models.listed.map(modelObject) });
  });
  app.get('/v1/models/:id', c => {
    const id = c.req.param('id');
    if (service.models.listed.includes(id)) return c.json(modelObject(id));
    throw notFound(`The model '${id}' does not exist.`, 'model_not_found', 'model');
  });
}

function modelObject(id: string): JsonObject {
  return { id, object: 'model', created: 0, owned_by: 'agentchart' };
}
