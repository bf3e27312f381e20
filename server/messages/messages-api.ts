import type { Context, Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import * as z from 'zod';
import type { MountedApi } from '../mounted-api.ts';
import { readBody } from '../read-body.ts';
import { ResponsesError } from '../responses/api-error.ts';
import { callNamer, continueOrStart } from '../responses/continued-run.ts';
import {
  finishedResponse,
  respondWithEvents,
  type StreamFormat,
  setErrorHeaders,
} from '../responses/respond.ts';
import type { ResponsesService } from '../responses/responses-service.ts';
import { V1_ROUTES } from '../route-table.ts';
import type { RunsEnv } from '../runs-env.ts';
import { describeFailure, describeInterruption, describeMessageError } from './message-error.ts';
import { type MessageEvent, MessageWriter } from './message-writer.ts';
import {
  createBodyOf,
  promptOf,
  promptOptionsOf,
  providerOptionsOf,
  toolNameIn,
} from './request/create-body.ts';
import { type MessageBody, readCountBody, readMessageBody } from './request/message-body.ts';
import { answeredCalls, readMessages } from './request/message-input.ts';

/**
 * Creates the `/v1/messages` routes: Anthropic's Messages API as a translation onto the service of `/v1/responses`, to
 * be mounted before it.
 *
 * A request is validated (`request/message-body.ts`), its messages become input items (`request/message-input.ts`) and
 * the rest a request for a response (`request/create-body.ts`). The answer is written as a message
 * (`message-writer.ts`).
 */
export function createMessagesApi(service: ResponsesService, log: (line: string) => void): MountedApi {
  return {
    prefix: '/v1/messages',
    paths: ['/v1/messages'],
    area: 'v1',
    routes: V1_ROUTES,
    add: app => addRoutes(app, service),
    answerError(c, thrown) {
      const { status, body, reported } = describeMessageError(thrown, requestIdOf(c));
      if (!reported)
        log(`Request ${requestIdOf(c)} (${c.req.method}) failed: ${thrown.stack ?? thrown.message}`);
      setErrorHeaders(c, status);
      return c.json(body, status as ContentfulStatusCode);
    },
  };
}

function addRoutes(app: Hono<RunsEnv>, service: ResponsesService): void {
  app.use('/v1/messages/*', async (c, next) => {
    c.header('request-id', requestIdOf(c));
    await next();
  });
  app.post('/v1/messages', async c => {
    const body = readMessageBody(await readBody(c.req.raw, z.unknown(), c.get('requestLimits')));
    const caller = c.get('caller');
    const asked = answeredCalls(readMessages(body.messages));
    const provider = service.providerOf(body.model);
    const how = {
      thinking: thinkingIn(body),
      nameCall: callNamer('toolu_', asked.input),
      toolName: toolNameIn(body),
      requestId: requestIdOf(c),
    };
    const live = await continueOrStart(
      asked,
      id => service.retrieve(id, caller),
      (input, previous) =>
        service.answer(
          { ...createBodyOf(body, input, provider), previous_response_id: previous },
          caller,
          name => providerOptionsOf(body, name),
          head => new MessageWriter(head, how),
        ),
    );
    if (body.stream === true) return respondWithEvents(c, live, formatFor(how.requestId));
    const { whole, end } = await finishedResponse(c, live);
    const failure = describeFailure(end);
    if (failure !== undefined) throw new ResponsesError(failure.message, { status: 502 });
    return c.json(whole);
  });
  app.post('/v1/messages/count_tokens', async c => {
    const body = readCountBody(await readBody(c.req.raw, z.unknown(), c.get('requestLimits')));
    const input = readMessages(body.messages).flatMap(({ items }) => items);
    const request = promptOf(body, input, service.providerOf(body.model));
    const tokens = await service.countInput(request, c.get('caller'), provider =>
      promptOptionsOf(body, provider),
    );
    return c.json({ input_tokens: tokens });
  });
}

/** The server's id of the request, which all its responses have. */
function requestIdOf(c: Context<RunsEnv>): string {
  return c.res.headers.get('x-request-id') ?? '';
}

function thinkingIn({ thinking }: MessageBody): 'shown' | 'omitted' | 'none' {
  if (thinking?.type !== 'enabled' && thinking?.type !== 'adaptive') return 'none';
  return thinking.display === 'omitted' ? 'omitted' : 'shown';
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
