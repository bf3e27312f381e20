import type { ModelInfo } from '@anthropic-ai/sdk/resources/models';
import type { Context, Hono } from 'hono';
import type { GatewayService } from '../gateway/gateway-service.ts';
import { finishedResponse, respondFromBeginning, type StreamFormat } from '../gateway/live/respond.ts';
import { readSession } from '../gateway/request/client-session.ts';
import { callNamer } from '../gateway/runs/continued-run.ts';
import type { MountedApi } from '../mounted-api.ts';
import { answerError, notFound, ResponsesError } from '../openai-error.ts';
import { V1_ROUTES } from '../route-table.ts';
import type { RunsEnv } from '../runs-env.ts';
import { describeInterruption, describeMessageError, describeMessageFailure } from './message-error.ts';
import { readCountRequest, readMessageRequest } from './message-request.ts';
import { type MessageEvent, MessagesApiWriter } from './message-writer.ts';

/** Anthropic's Messages API over the service of the gateway, to be mounted before `/v1/responses`. */
export function createMessagesApi(service: GatewayService, log: (line: string) => void): MountedApi {
  return {
    prefix: '/v1/messages',
    paths: ['/v1/messages'],
    area: 'v1',
    routes: V1_ROUTES,
    add: app => addRoutes(app, service),
    answerError: (c, thrown) => answerError(c, thrown, log, describeMessageError(thrown, requestIdOf(c))),
  };
}

function addRoutes(app: Hono<RunsEnv>, service: GatewayService): void {
  const modelOf = (model: string) => service.models.open(service.models.resolve(model));
  addModelRoutes(app, service.models);
  app.use('/v1/messages/*', async (c, next) => {
    c.header('request-id', requestIdOf(c));
    await next();
  });
  app.post('/v1/messages', async c => {
    const body = await service.fields.readBody(c, 'messages');
    const { request: read, ...asked } = readMessageRequest(body, modelOf, c.req.header('anthropic-beta'));
    const request = { ...read, ...readSession(c.req.raw.headers, body) };
    const nameCall = callNamer('toolu_', request.input);
    const how = { ...asked, nameCall, requestId: requestIdOf(c) };
    const live = await service.answer(
      request,
      c.get('caller'),
      (head, emit) => new MessagesApiWriter(head, emit, how),
      { signal: c.req.raw.signal },
    );
    if (request.stream === true) return await respondFromBeginning(c, live, formatFor(how.requestId));
    const { whole, end } = await finishedResponse(c, live);
    const failure = describeMessageFailure(end);
    if (failure !== undefined) throw new ResponsesError(failure.message, { status: 502 });
    return c.json(whole);
  });
  app.post('/v1/messages/count_tokens', async c => {
    const body = await service.fields.readBody(c, 'messages');
    const request = readCountRequest(body, modelOf);
    const tokens = await service.countInput(request, c.get('caller'));
    return c.json({ input_tokens: tokens });
  });
}

function requestIdOf(c: Context<RunsEnv>): string {
  return c.res.headers.get('x-request-id') ?? '';
}

function formatFor(request_id: string): StreamFormat<MessageEvent> {
  return {
    frame: batch => batch.map(frameOf).join(''),
    failed: thrown => frameOf({ type: 'error', error: describeInterruption(thrown), request_id }),
    end: '',
    keepAlive: frameOf({ type: 'ping' }),
  };
}

function frameOf(event: MessageEvent | { type: 'ping' }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Answers Anthropic's clients, which are known by their version header; leaves the others to the routes that follow. */
function addModelRoutes(app: Hono<RunsEnv>, models: GatewayService['models']): void {
  app.get('/v1/models', async (c, next) => {
    if (!isForAnthropic(c)) return await next();
    const data = models.listed.map(id => modelInfo(id, models));
    return c.json({ data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null });
  });
  app.get('/v1/models/:id', async (c, next) => {
    if (!isForAnthropic(c)) return await next();
    const id = c.req.param('id');
    if (models.listed.includes(id)) return c.json(modelInfo(id, models));
    const thrown = notFound(`model: ${id}`, 'model_not_found', 'model');
    return c.json(describeMessageError(thrown, c.res.headers.get('x-request-id') ?? '').body, 404);
  });
}

function isForAnthropic(c: Context<RunsEnv>): boolean {
  return c.req.header('anthropic-version') !== undefined;
}

const UNKNOWN = { capabilities: null, line: null, max_tokens: null, deprecated_at: null, retires_at: null };

function modelInfo(id: string, models: GatewayService['models']): ModelInfo {
  return {
    id,
    type: 'model',
    display_name: id,
    created_at: new Date(0).toISOString(),
    lifecycle: 'active',
    max_input_tokens: models.contextWindowOf(id) ?? null,
    ...UNKNOWN,
  };
}
