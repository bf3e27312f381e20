import type { Hono } from 'hono';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import type { MountedApi } from '../mounted-api.ts';
import { readBody } from '../read-body.ts';
import { callNamer, continueOrStart } from '../responses/continued-run.ts';
import type { LiveResponse } from '../responses/live/live-response.ts';
import { failureOf, finishedResponse, respondWithEvents } from '../responses/respond.ts';
import type { ResponsesService } from '../responses/responses-service.ts';
import type { RunsEnv } from '../runs-env.ts';
import { type ChatBody, readChatBody } from './chat-body.ts';
import { inChatTerms } from './chat-errors.ts';
import { answeredCalls, type MessageInput, readMessages } from './chat-input.ts';
import { chunkFormat } from './chunk-writer.ts';
import { completionOf, type NameCall } from './completion.ts';
import { createBodyOf } from './create-body.ts';
import { providerOptions } from './provider-options.ts';

/**
 * OpenAI's Chat Completions, as a translation onto the Responses gateway: a chat request becomes a request for a response
 * (`create-body.ts`), and the response becomes a completion (`completion.ts`) or its chunks (`chunk-writer.ts`). The
 * service runs it; this folder has no loop and no state.
 */
export function createChatApi({
  service,
  answerError,
}: MountedApi & { service: ResponsesService }): MountedApi {
  return {
    prefix: '/v1/chat',
    paths: ['/v1/chat'],
    area: 'v1',
    add: app => addRoutes(app, service),
    answerError,
  };
}

function addRoutes(app: Hono<RunsEnv>, service: ResponsesService): void {
  app.post('/v1/chat/completions', async c => {
    const body = readChatBody(await readBody(c.req.raw, z.unknown(), c.get('requestLimits')));
    const input = readMessages(body.messages);
    const live = await create({ body, input, caller: c.get('caller') }, service).catch(error => {
      throw inChatTerms(error, { body, input });
    });
    const nameCall = callNames(body, input, live);
    if (body.stream === true) {
      const includeUsage = body.stream_options?.include_usage === true;
      return respondWithEvents(c, live, chunkFormat({ nameCall, includeUsage }));
    }
    const response = await finishedResponse(c, live);
    if (response.status === 'cancelled') throw failureOf(response);
    return c.json(completionOf(response, nameCall));
  });
}

type Request = { body: ChatBody; input: readonly MessageInput[]; caller: Caller };

/** Continues the run whose calls the request answers, or else starts a run from its messages. */
async function create({ body, input, caller }: Request, service: ResponsesService): Promise<LiveResponse> {
  return await continueOrStart(
    answeredCalls(body.messages, input),
    id => service.retrieve(id, caller),
    (items, previous) =>
      service.create({ ...createBodyOf(body, items), previous_response_id: previous }, caller, provider =>
        providerOptions(body, provider),
      ),
  );
}

/** Calls of a stored response are named after it. An unstored one cannot be continued: its calls keep their ids. */
function callNames(body: ChatBody, input: readonly MessageInput[], live: LiveResponse): NameCall {
  if (body.store === false) return ({ callId }) => callId;
  const name = callNamer(
    'call_',
    input.flatMap(({ items }) => items),
  );
  return (_, place) => name(live.id, place);
}
