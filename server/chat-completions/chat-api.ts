import type { Hono } from 'hono';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import type { MountedApi } from '../mounted-api.ts';
import { readBody } from '../read-body.ts';
import { callNamer, continueOrStart } from '../responses/continued-run.ts';
import type { LiveResponse } from '../responses/live/live-response.ts';
import type { MakeWriter } from '../responses/live/response-feed.ts';
import { failureOf, finishedResponse, respondWithEvents } from '../responses/respond.ts';
import type { ResponsesService } from '../responses/responses-service.ts';
import type { ResponseHead } from '../responses/wire/response-object.ts';
import { V1_ROUTES } from '../route-table.ts';
import type { RunsEnv } from '../runs-env.ts';
import { type ChatBody, readChatBody } from './chat-body.ts';
import { inChatTerms } from './chat-errors.ts';
import { answeredCalls, type MessageInput, readMessages } from './chat-input.ts';
import { CHAT_CHUNKS, ChatWriter, type NameCall } from './chat-writer.ts';
import { createBodyOf } from './create-body.ts';
import { providerOptions } from './provider-options.ts';

/**
 * OpenAI's Chat Completions, as a translation onto the Responses gateway: a chat request becomes a request for a response
 * (`create-body.ts`), and its answer is written as a completion (`chat-writer.ts`). The service runs it; this folder has
 * no loop and no state.
 */
export function createChatApi({
  service,
  answerError,
}: MountedApi & { service: ResponsesService }): MountedApi {
  return {
    prefix: '/v1/chat',
    paths: ['/v1/chat'],
    area: 'v1',
    routes: V1_ROUTES,
    add: app => addRoutes(app, service),
    answerError,
  };
}

function addRoutes(app: Hono<RunsEnv>, service: ResponsesService): void {
  app.post('/v1/chat/completions', async c => {
    const body = readChatBody(await readBody(c.req.raw, z.unknown(), c.get('requestLimits')));
    const input = readMessages(body.messages);
    const includeUsage = body.stream_options?.include_usage === true;
    const how = { nameCall: callNames(body, input), includeUsage };
    const write = (head: ResponseHead) => new ChatWriter(head, how);
    const live = await create({ body, input, caller: c.get('caller') }, service, write).catch(error => {
      throw inChatTerms(error, { body, input });
    });
    if (body.stream === true) return respondWithEvents(c, live, CHAT_CHUNKS);
    const { whole, end } = await finishedResponse(c, live);
    if (end.status === 'cancelled') throw failureOf(end);
    return c.json(whole);
  });
}

type Request = { body: ChatBody; input: readonly MessageInput[]; caller: Caller };

/** Continues the run whose calls the request answers, or else starts a run from its messages. */
async function create<Wire, Whole>(
  { body, input, caller }: Request,
  service: ResponsesService,
  write: MakeWriter<Wire, Whole>,
): Promise<LiveResponse<Wire, Whole>> {
  return await continueOrStart(
    answeredCalls(body.messages, input),
    id => service.retrieve(id, caller),
    (items, previous) =>
      service.answer(
        { ...createBodyOf(body, items), previous_response_id: previous },
        caller,
        provider => providerOptions(body, provider),
        write,
      ),
  );
}

/** Calls of a stored response are named after it. An unstored one cannot be continued: its calls keep their ids. */
function callNames(body: ChatBody, input: readonly MessageInput[]): NameCall {
  if (body.store === false) return ({ callId }) => callId;
  const name = callNamer(
    'call_',
    input.flatMap(({ items }) => items),
  );
  return (_, responseId, place) => name(responseId, place);
}
