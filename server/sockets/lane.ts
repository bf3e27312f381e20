import type { Caller } from '../../access/caller.ts';
import type { Host } from '../../engine/host/host.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { responseIdOf } from '../gateway/answer/wire-ids.ts';
import type { ResponseEnd } from '../gateway/live/response-feed.ts';
import { readSession } from '../gateway/request/client-session.ts';
import { UnstoredChain } from '../gateway/runs/response-library.ts';
import { invalid } from '../openai-error.ts';
import { readCreateBody } from '../responses/request-body.ts';
import type { Responses, WireResponse } from '../responses/responses.ts';

export type LaneOptions = {
  responses: Responses;
  caller: Caller;
  headers: Headers;
  host: Host;
  /** Aborted when the connection is gone. */
  signal: AbortSignal;
  /** Settles once the event was written, or the connection is gone. */
  send(event: object): Promise<void>;
  /** The lanes of the connection, with this one. */
  lanes(): Iterable<Lane>;
};

/** A request that was sent ahead: a later one with its id as the previous response has its input first. */
type SentAhead = { id: string; previous: JsonValue; input: JsonValue[] };

/** The requests of a connection with one `stream_id`, or without one. Its last response that is not stored can be continued. */
export class Lane {
  readonly #options: LaneOptions;
  readonly #chain: UnstoredChain;
  #ahead: SentAhead | null = null;
  #live: WireResponse | null = null;

  constructor(options: LaneOptions) {
    this.#options = options;
    this.#chain = new UnstoredChain(options.responses.service.library);
  }

  /**
   * Sends the events of a response. Returns the end of one that failed before it had any. Rejects with what refuses the
   * request.
   */
  async answer({ generate = true, ...asked }: JsonObject): Promise<ResponseEnd | null> {
    if (typeof generate !== 'boolean')
      throw invalid('generate', 'invalid_value', "'generate' is not valid: expected true or false.");
    const body = this.#withSentAhead(asked);
    const previous = typeof body.previous_response_id === 'string' ? body.previous_response_id : undefined;
    try {
      const { responses, headers } = this.#options;
      responses.service.fields.check('responses', body);
      const request = { ...readCreateBody({ ...body, stream: true }), ...readSession(headers, body) };
      if (generate) return await this.#create(request, previous);
      await this.#takeAhead(request, body);
      return null;
    } catch (error) {
      if (previous !== undefined) this.#chain.forget(previous);
      throw error;
    }
  }

  /** The connection is gone. */
  end(): void {
    this.#live?.leave();
    this.#chain.forget();
    this.#ahead = null;
  }

  async #create(
    request: ReturnType<typeof readCreateBody>,
    previous: string | undefined,
  ): Promise<ResponseEnd | null> {
    const { responses, caller, signal, lanes, send } = this.#options;
    const others = [...lanes()].map(lane => lane.#chain).filter(chain => chain !== this.#chain);
    const ownRunId = others.find(chain => chain.endsWith(previous))?.runId;
    const how = { chain: this.#chain, signal, ...omitUndefined({ ownRunId }) };
    const live = await responses.create(request, caller, how);
    this.#live = live;
    try {
      if (signal.aborted) live.leave();
      const failed = await live.begun();
      if (failed !== null) {
        live.leave();
        this.#chain.forget(previous);
        return failed;
      }
      for await (const batch of live.batches()) for (const event of batch) await send(event);
      if (live.end()?.status === 'failed') this.#chain.forget(previous);
      return null;
    } finally {
      this.#live = null;
    }
  }

  async #takeAhead(request: ReturnType<typeof readCreateBody>, body: JsonObject): Promise<void> {
    const { responses, host, send } = this.#options;
    const id = responseIdOf(host.newId('run'), 1);
    const events = responses.prepare(request, { id, at: host.now() });
    this.#ahead = { id, previous: body.previous_response_id ?? null, input: itemsOf(body.input) };
    for (const event of events) await send(event);
  }

  #withSentAhead(body: JsonObject): JsonObject {
    const { previous_response_id: id = null } = body;
    const ahead = [...this.#options.lanes()].map(lane => lane.#ahead).find(one => one?.id === id);
    if (ahead == null) return body;
    const input = [...ahead.input, ...itemsOf(body.input)];
    return { ...body, previous_response_id: ahead.previous, input };
  }
}

function itemsOf(input: JsonValue | undefined): JsonValue[] {
  if (Array.isArray(input)) return input;
  return input == null ? [] : [{ type: 'message', role: 'user', content: input }];
}
