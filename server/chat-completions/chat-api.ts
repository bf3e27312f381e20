import type { Hono } from 'hono';
import type { GatewayService } from '../gateway/gateway-service.ts';
import { failureOf, finishedResponse, respondFromBeginning } from '../gateway/live/respond.ts';
import { readSession } from '../gateway/request/client-session.ts';
import { callNamer } from '../gateway/runs/continued-run.ts';
import type { MountedApi } from '../mounted-api.ts';
import { answerOpenAIError } from '../openai-error.ts';
import { V1_ROUTES } from '../route-table.ts';
import type { RunsEnv } from '../runs-env.ts';
import { readChatRequest } from './chat-request.ts';
import { CHAT_CHUNKS, ChatWriter } from './chat-writer.ts';

export function createChatCompletionsApi(service: GatewayService, log: (line: string) => void): MountedApi {
  return {
    prefix: '/v1/chat',
    paths: ['/v1/chat'],
    area: 'v1',
    routes: V1_ROUTES,
    add: app => addRoutes(app, service),
    answerError: (c, thrown) => answerOpenAIError(c, thrown, log),
  };
}

function addRoutes(app: Hono<RunsEnv>, service: GatewayService): void {
  app.post('/v1/chat/completions', async c => {
    const body = await service.fields.readBody(c, 'chat');
    const { request: read, includeUsage } = readChatRequest(body, model => service.models.providerOf(model));
    const request = { ...read, ...readSession(c.req.raw.headers, body) };
    const how = { nameCall: callNamer('call_', request.input), includeUsage };
    const live = await service.answer(
      request,
      c.get('caller'),
      (head, emit) => new ChatWriter(head, emit, how),
      { signal: c.req.raw.signal },
    );
    if (request.stream === true) return await respondFromBeginning(c, live, CHAT_CHUNKS);
    const { whole, end } = await finishedResponse(c, live);
    if (end.status === 'cancelled') throw failureOf(end);
    return c.json(whole);
  });
}
