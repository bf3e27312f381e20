import type { Caller } from '../../access/caller.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type {
  GatewayRequest,
  GatewayService,
  LiveResponse,
  MakeWriter,
  RequestConversation,
  RequestKey,
  UnstoredChain,
} from '../gateway/index.ts';
import { KeyedRequests } from '../idempotency/idempotency.ts';
import { compactedResponse, readCompactBody } from './compact-conversation.ts';
import { ResponseWriter, type WireEvent, writeResponse } from './response-writer.ts';

/** A response of the Responses API in progress. */
export type WireResponse = LiveResponse<WireEvent, JsonObject>;

/** Where the conversations of requests are. Both throw a `ResponsesError` with status 404 for an unknown one. */
export type RequestConversations = {
  open(id: string, caller: Caller): RequestConversation;
  /** The runs of the conversation's responses to requests with this key. */
  runsWithKey(id: string, key: RequestKey, caller: Caller): Promise<string[]>;
};

/** Writes the events of the Responses API. */
const writeEvents: MakeWriter<WireEvent, JsonObject> = (head, firstNumber) =>
  new ResponseWriter(head, firstNumber);

/** What callers do with responses, in the words of the Responses API. */
export class Responses {
  readonly service: GatewayService;
  readonly #conversations: RequestConversations;
  readonly #keyed: KeyedRequests;

  constructor(service: GatewayService, conversations: RequestConversations) {
    this.service = service;
    this.#conversations = conversations;
    this.#keyed = new KeyedRequests(service);
  }

  /**
   * Starts the response to a caller's request. Throws a `ResponsesError` before doing anything if it is refused. `chain`
   * has the unstored responses of a connection. With a `key` (`Idempotency-Key`), a request that was answered before gets
   * its response again.
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
      async key =>
        request.conversation === undefined
          ? []
          : await this.#conversations.runsWithKey(request.conversation, key, caller),
      once => this.service.answer(request, caller, writeEvents, { ...how, once }),
    );
  }

  #placeOf({ conversation }: GatewayRequest, caller: Caller): { conversation?: RequestConversation } {
    return conversation === undefined ? {} : { conversation: this.#conversations.open(conversation, caller) };
  }

  /** See `GatewayService.countInput`. */
  async countInput(request: GatewayRequest, caller: Caller): Promise<number> {
    return await this.service.countInput(request, caller, this.#placeOf(request, caller));
  }

  /**
   * Starts the compaction of a conversation. `result` makes its object of the finished response, and throws a
   * `ResponsesError` if the summary is not complete.
   */
  async compact(value: unknown, caller: Caller) {
    const { live, conversation } = await this.service.compact(readCompactBody(value), caller, writeEvents);
    return {
      live,
      result: (response: JsonObject) => compactedResponse(live.runId, conversation, response),
    };
  }

  /** The response object as it is now. Throws a `ResponsesError` with status 404. */
  async retrieve(responseId: string, caller: Caller): Promise<JsonObject> {
    return writeResponse(await this.service.find(responseId, caller)).whole;
  }

  /** See `RequestRuns.resume`. Throws like `retrieve`. */
  async resume(responseId: string, caller: Caller, startingAfter?: number) {
    return await this.service.resume(responseId, caller, writeEvents, startingAfter);
  }
}
