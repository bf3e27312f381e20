import type { Caller } from '../../access/caller.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { NO_USAGE } from '../gateway/answer/answer-event.ts';
import type { GatewayService, RequestConversation } from '../gateway/gateway-service.ts';
import type { LiveResponse, MakeWriter } from '../gateway/live/response-feed.ts';
import { compactionItem, compactionOf } from '../gateway/request/compaction-items.ts';
import type { GatewayRequest } from '../gateway/request/gateway-request.ts';
import type { UnstoredChain } from '../gateway/runs/response-library.ts';
import { KeyedRequests } from '../idempotency/idempotency.ts';
import { invalid, ResponsesError } from '../openai-error.ts';
import { readCreateBody } from './request-body.ts';
import { ResponseWriter, usageObject, type WireEvent, writeResponse } from './response-writer.ts';
import { wireInputs } from './wire-input.ts';

export type WireResponse = LiveResponse<WireEvent, JsonObject>;

/** The methods of the result throw a `ResponsesError` with status 404 if there is none. */
type OpenConversation = (id: string, caller: Caller) => RequestConversation;

const writeEvents: MakeWriter<WireEvent, JsonObject> = (head, firstNumber) =>
  new ResponseWriter(head, firstNumber);

/** What callers do with responses, in the words of the Responses API. */
export class Responses {
  readonly service: GatewayService;
  readonly #openConversation: OpenConversation;
  readonly #keyed: KeyedRequests;

  constructor(service: GatewayService, openConversation: OpenConversation) {
    this.service = service;
    this.#openConversation = openConversation;
    this.#keyed = new KeyedRequests(service);
  }

  /**
   * Throws a `ResponsesError` before doing anything if the request is refused. `chain` has the unstored responses of a
   * connection. With a `key` (`Idempotency-Key`), a request that was answered before gets its response again.
   */
  async create(
    request: GatewayRequest,
    caller: Caller,
    { chain, key: header }: { chain?: UnstoredChain; key?: string } = {},
  ): Promise<WireResponse> {
    this.service.resolve(request);
    const how = { ...this.#placeOf(request, caller), ...omitUndefined({ chain }) };
    if (header === undefined) return await this.service.answer(request, caller, writeEvents, how);
    return await this.#keyed.answer(
      header,
      { request, caller, write: writeEvents },
      async key => (await how.conversation?.runsWithKey(key)) ?? [],
      once => this.service.answer(request, caller, writeEvents, { ...how, once }),
    );
  }

  #placeOf({ conversation }: GatewayRequest, caller: Caller): { conversation?: RequestConversation } {
    return conversation === undefined ? {} : { conversation: this.#openConversation(conversation, caller) };
  }

  async countInput(request: GatewayRequest, caller: Caller): Promise<number> {
    return await this.service.countInput(request, caller, this.#placeOf(request, caller));
  }

  /** `result` makes the compaction of the finished response, and throws a `ResponsesError` for an incomplete summary. */
  async compact(value: unknown, caller: Caller) {
    const { live, conversation } = await this.service.compact(readCompactBody(value), caller, writeEvents);
    return {
      live,
      result: (response: JsonObject) => compactedResponse(live.runId, conversation, response),
    };
  }

  /** As it is now. Throws a `ResponsesError` with status 404. */
  async retrieve(responseId: string, caller: Caller): Promise<JsonObject> {
    return writeResponse(await this.service.find(responseId, caller)).whole;
  }

  async resume(responseId: string, caller: Caller, startingAfter?: number) {
    const found = await this.service.find(responseId, caller);
    return await this.service.runs.resume(found, writeEvents, startingAfter);
  }
}

const MEMBERS = ['model', 'input', 'previous_response_id', 'instructions', 'prompt_cache_key'];

/** Throws a `ResponsesError` with the path of the first problem. */
function readCompactBody(value: unknown): GatewayRequest {
  const given = Object.entries(isJsonObject(value) ? value : {}).filter(
    ([name, member]) => member !== null && MEMBERS.includes(name),
  );
  const body = Object.fromEntries(given);
  if (body.model === undefined)
    throw invalid('model', 'missing_required_parameter', "Missing required parameter: 'model'.");
  const asked = readCreateBody(body);
  if (asked.input.length > 0 || asked.previousResponseId !== undefined) return asked;
  throw invalid(
    'input',
    'missing_required_parameter',
    "Missing required parameter: 'input'. Send the conversation, or a 'previous_response_id'.",
  );
}

/** The messages that are not the model's, and one compaction item. */
function compactedResponse(
  runId: string,
  conversation: readonly Item[],
  { id, created_at, status, incomplete_details, usage }: JsonObject,
): JsonObject {
  const { reason } = isJsonObject(incomplete_details) ? incomplete_details : {};
  if (status !== 'completed')
    throw new ResponsesError(`The model did not finish the summary (${String(reason ?? status)}).`, {
      status: 502,
      type: 'server_error',
      code: 'compaction_incomplete',
    });
  const kept = conversation.filter(
    item => item.type === 'message' && item.role !== 'assistant' && compactionOf(item) === undefined,
  );
  return {
    id: id ?? null,
    object: 'response.compaction',
    created_at: created_at ?? null,
    output: [...wireInputs(kept, {}), compactionItem(runId)] satisfies JsonValue[],
    usage: usage ?? usageObject(NO_USAGE),
  };
}
