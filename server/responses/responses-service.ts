import type { Caller } from '../../access/caller.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import { type Host, sleep } from '../../engine/host/host.ts';
import { appendEvidence } from '../../engine/journal/append-evidence.ts';
import { hasEnded } from '../../machines/status.ts';
import { EngineError } from '../../protocol/error.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { KeyedMutex } from '../../protocol/keyed-mutex.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { Admission } from '../access/admission.ts';
import { invalid, ResponsesError } from './api-error.ts';
import {
  compactedResponse,
  readCompactBody,
  summaryRequest,
  summaryTranscript,
} from './compaction/compact-conversation.ts';
import { continuationOf } from './continued-run.ts';
import { contextOf } from './conversations/conversation-items.ts';
import type { Conversation } from './conversations/conversation-journal.ts';
import { Conversations, conversationLocked } from './conversations/conversations.ts';
import { GatewayAgents } from './gateway/gateway-agents.ts';
import type { GatewayConfig } from './gateway/gateway-config.ts';
import type { LiveResponse } from './live/live-response.ts';
import { LiveResponses } from './live/live-responses.ts';
import { type MakeWriter, writeResponseEvents } from './live/response-feed.ts';
import { findAnswered } from './once/find-answered.ts';
import { readRequestKey, runsToContinue } from './once/request-key.ts';
import { recordedUsage } from './recorded-usage.ts';
import type { GatewayRequest } from './request/gateway-request.ts';
import type { Plan } from './request/plan.ts';
import { planRequest, readRequest, transcriptFor, transcriptUpTo } from './request/plan-request.ts';
import { type CallersRequest, RequestRuns } from './request-runs.ts';
import { type FoundResponse, ResponseLibrary, writeResponse } from './response-library.ts';
import { UnstoredChain } from './socket/unstored-chain.ts';
import { RESPONSES, type RequestKey } from './wire/response-spec.ts';

export type ResponsesServiceOptions = {
  store: Store;
  host: Host;
  gateway: GatewayConfig;
  /** `AGENTCHART_MODEL`. Its provider serves model names that are neither an alias nor `provider:model`. */
  model?: string;
  /** The agents that requests may name as their model, beside the models of the configuration. */
  agents?: ReadonlyMap<string, Agent>;
  /** How long requests wait for a hidden MCP server that has just begun to connect, in ms. Default 1,000. */
  hiddenWaitMs?: number;
  log(line: string): void;
};

/** A request's plan, and the conversation it was made for. */
type PlanInConversation = { conversation: Conversation; plan: Plan & { given?: number } };

/**
 * The gateway: responses on top of runs.
 *
 * A request (`request/gateway-request.ts`), which its API has read, is planned against the stored runs
 * (`request/plan-request.ts`) and carried out (`request-runs.ts`) with an agent made from the request and the
 * configuration (`gateway/`). The part of the run's story that the client gets is the answer (`answer/`), which is
 * written in the client's protocol (`wire/response-writer.ts`) for readers that share it (`live/`). The journal is the
 * only record: a response is a span of entries (`run-responses.ts`) and is written again whenever it is retrieved.
 *
 * V1 Every request starts or continues a run; the chart decides what happens in it.
 * V2 A request is durable before anything is done for it: in `run.started`, or in a `run.noted` event.
 * V3 Requests that continue the same run are handled one at a time.
 * V4 Ids in a request lead only to responses that its caller may see (`VisibleResponses`).
 */
export class ResponsesService {
  /** Lets requests begin runs, within limits. The server's other routes share it. */
  readonly admission: Admission;
  readonly #options: ResponsesServiceOptions;
  readonly #agents: GatewayAgents;
  readonly #library: ResponseLibrary;
  readonly #live = new LiveResponses();
  readonly #runs: RequestRuns;
  readonly #mutex = new KeyedMutex();
  /** The conversations of `/v1/conversations`. */
  readonly conversations: Conversations;

  constructor(options: ResponsesServiceOptions) {
    const { store, host, gateway, log } = options;
    this.#options = options;
    this.admission = new Admission({ host, ...gateway, recorded: from => recordedUsage(store, from, log) });
    const { admission } = this;
    this.#agents = new GatewayAgents({ ...options, admission });
    this.#library = new ResponseLibrary(store);
    this.conversations = new Conversations({ store, host, library: this.#library });
    this.#runs = new RequestRuns({
      ...options,
      library: this.#library,
      live: this.#live,
      agents: this.#agents,
      admission,
    });
  }

  /**
   * Starts the response to a caller's request. Throws a `ResponsesError` before doing anything if it is refused. `chain`
   * has the unstored responses of a connection. With a `key` (`Idempotency-Key`), a request that was answered before gets
   * its response again; see `findAnswered`.
   */
  async create(
    request: GatewayRequest,
    caller: Caller,
    { chain, key: header }: { chain?: UnstoredChain; key?: string } = {},
  ): Promise<LiveResponse> {
    const asked = { ...this.#resolve(request), caller, ...omitUndefined({ chain }) };
    if (header === undefined) return await this.#carryOut(asked, writeResponseEvents);
    const key = readRequestKey(header, caller, request);
    return await this.#mutex.run(`key ${key.key}`, () => this.#createOnce(asked, key));
  }

  /**
   * Answers a request of another protocol, for which `write` makes the writer. If the request answers the calls of an
   * earlier one, their run continues, if it can. Throws like `create`.
   */
  async answer<Wire, Whole>(
    request: GatewayRequest,
    caller: Caller,
    write: MakeWriter<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    const continuation = await continuationOf(request, this.#library.seenBy(caller));
    if (continuation !== undefined) {
      try {
        return await this.#carryOut({ ...this.#resolve(continuation), caller }, write);
      } catch (error) {
        // Refused before anything was done, for example because a person has answered the call.
        if (!(error instanceof ResponsesError)) throw error;
      }
    }
    return await this.#carryOut({ ...this.#resolve(request), caller }, write);
  }

  async #carryOut<Wire, Whole>(
    asked: CallersRequest,
    write: MakeWriter<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    const { request, caller, chain } = asked;
    if (request.conversation !== undefined) return await this.#createIn(request.conversation, asked, write);
    const visible = this.#library.seenBy(caller, chain?.runId);
    const plan = await planRequest(request, visible);
    if (plan.type !== 'continue') return await this.#runs.carryOut(plan, asked, write);
    return await this.#mutex.run(plan.run.runId, async () =>
      this.#runs.carryOut(await planRequest(request, visible), asked, write),
    );
  }

  async #createOnce(asked: CallersRequest, key: RequestKey): Promise<LiveResponse> {
    const { request, caller } = asked;
    const { conversation } = request;
    const places = { visible: this.#library.seenBy(caller), live: this.#live };
    for (let tries = 1; ; tries += 1) {
      const joined = conversation && (await this.conversations.runsWithKey(conversation, key, caller));
      const continued = [...(joined ?? []), ...runsToContinue(request)];
      const answered = await findAnswered(key, continued, places);
      if (answered.type === 'unstored') return answered.live;
      if (answered.type === 'stored') return await this.#runs.repeat(answered.found, writeResponseEvents);
      try {
        return await this.#carryOut({ ...asked, once: { key, runId: answered.runId } }, writeResponseEvents);
      } catch (error) {
        // Another process was first with the same key.
        if (!(error instanceof EngineError) || error.code !== 'run-exists' || tries > 3) throw error;
      }
    }
  }

  /** The chain of a new connection: see `create`. */
  openChain(): UnstoredChain {
    return new UnstoredChain(this.#library);
  }

  /** Aborted by `endStreams`. */
  get closing(): AbortSignal {
    return this.#live.closing;
  }

  /** Starts a response in a conversation. Requests in one conversation are planned and begun one at a time. */
  async #createIn<Wire, Whole>(
    id: string,
    asked: CallersRequest,
    write: MakeWriter<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    const carryOut = async ({ conversation, plan }: PlanInConversation) => {
      const ticket = this.#options.host.newId('turn');
      const named = { ticket, ...omitUndefined({ key: asked.once?.key.key }) };
      const join = (runId: string) => this.conversations.join(conversation, { ...named, runId });
      const joined = { id, ticket, given: plan.given ?? 0, join };
      return await this.#runs.carryOut(plan, { ...asked, conversation: joined }, write);
    };
    return await this.#mutex.run(id, async () => {
      const planned = await this.#planIn(id, asked);
      if (planned.plan.type !== 'continue') return await carryOut(planned);
      const { runId } = planned.plan.run;
      return await this.#mutex.run(runId, async () => carryOut(await this.#planIn(id, asked)));
    });
  }

  /** The plan of a request in a conversation. Throws a `ResponsesError` while its newest response is in progress. */
  async #planIn(id: string, { request, caller }: CallersRequest): Promise<PlanInConversation> {
    const visible = this.#library.seenBy(caller);
    const conversation = await this.conversations.find(id, caller);
    const context = await contextOf(conversation, visible);
    if (context.previous?.span.to === null) throw conversationLocked();
    return { conversation, plan: await planRequest(request, visible, context) };
  }

  /** The input tokens that a request would have: the provider's count, or an estimate. Starts nothing. */
  async countInput(request: GatewayRequest, caller: Caller): Promise<number> {
    const asked = { ...this.#resolve(request), caller };
    const { plan } =
      request.conversation === undefined
        ? { plan: await planRequest(request, this.#library.seenBy(caller)) }
        : await this.#planIn(request.conversation, asked);
    return await this.#agents.countInput(asked, await transcriptFor(plan, this.#options.store));
  }

  /** The names of the models that the server lists. */
  get models(): string[] {
    return this.#agents.models;
  }

  /**
   * Starts the compaction of a conversation. `result` makes its object of the finished response, and throws a
   * `ResponsesError` if the summary is not complete.
   */
  async compact(
    value: unknown,
    caller: Caller,
  ): Promise<{ live: LiveResponse; result(response: JsonObject): JsonObject }> {
    const asked = readCompactBody(value);
    this.#assertBounded(asked);
    const visible = this.#library.seenBy(caller);
    const { previous, references, items } = await readRequest(asked, visible);
    const { store, host } = this.#options;
    const before = previous === undefined ? [] : await transcriptUpTo(previous, store);
    const conversation = [...before, ...items].map(item => ({ ...item, id: item.id ?? host.newId('item') }));
    const request = { ...this.#resolve(summaryRequest(asked)), caller, compacts: true as const };
    const plan = {
      type: 'start' as const,
      items: summaryTranscript(conversation),
      origins: references.origins,
    };
    const live = await this.#runs.carryOut(plan, request, writeResponseEvents);
    return { live, result: response => compactedResponse(live.runId, conversation, response) };
  }

  /** The provider of the model that requests call by this name. Throws a `ResponsesError` for an unknown model. */
  providerOf(model: string | undefined): string {
    return this.#agents.providerOf(model);
  }

  /** Finds a stored response that the caller may see. Throws a `ResponsesError` with status 404. */
  async find(responseId: string, caller: Caller): Promise<FoundResponse> {
    const found = await this.#library.seenBy(caller).find(responseId);
    if (found !== undefined) return found;
    throw new ResponsesError(`Response with id '${responseId}' not found.`, {
      status: 404,
      type: 'invalid_request_error',
      code: 'response_not_found',
    });
  }

  /** The response object as it is now. Throws like `find`. */
  async retrieve(responseId: string, caller: Caller): Promise<JsonObject> {
    return writeResponse(await this.find(responseId, caller)).response;
  }

  /** A reader of a stored response, and where it has to begin: see `RequestRuns.resume`. Throws like `find`. */
  async resume(responseId: string, caller: Caller, startingAfter?: number) {
    return await this.#runs.resume(await this.find(responseId, caller), startingAfter);
  }

  /**
   * Cancels a background response that is in progress, and returns the response object. Throws like `find`, and a
   * `ResponsesError` if the response is not one in the background.
   */
  async cancel(responseId: string, caller: Caller): Promise<JsonObject> {
    const { run, span } = await this.find(responseId, caller);
    if (span.spec.request.background !== true)
      throw invalid('response_id', 'invalid_value', 'Cannot cancel a synchronous response.');
    if (span.to === null) await this.#runs.cancel(responseId, run.runId);
    return await this.retrieve(responseId, caller);
  }

  /** Hides a response and cancels its run if it is the latest. The journal keeps it. Throws like `find`. */
  async delete(responseId: string, caller: Caller): Promise<void> {
    const { run } = await this.find(responseId, caller);
    await this.#mutex.run(run.runId, () => this.#delete(responseId, caller));
  }

  async #delete(responseId: string, caller: Caller): Promise<void> {
    const { run, span } = await this.find(responseId, caller);
    const { store, host } = this.#options;
    const note = toJson({ type: 'deleted', responseId });
    await appendEvidence(store, run.runId, { type: 'run.noted', at: host.now(), by: RESPONSES, note });
    if (run.spans.at(-1)?.id !== span.id || hasEnded(run.state)) return;
    this.#live.remove(responseId);
    const agent = createAgent({ name: RESPONSES, store: nonDrivingStore(store), host });
    await (await agent.open(run.runId)).cancel({ by: RESPONSES, reason: 'The response was deleted.' });
  }

  /** The agent of a gateway run, made from its latest request; `undefined` for other runs or an unusable model. */
  async agentFor({ runId }: RunRecord): Promise<Agent | undefined> {
    const run = await this.#library.load(runId);
    return run && this.#agents.makeAgain(run);
  }

  /** Ends all streams when the server shuts down. Runs continue until the process ends, and can be resumed later. */
  endStreams(): void {
    this.#live.close();
  }

  /** Connects the hidden MCP servers, and waits until each has answered or failed, at most `ms`. */
  async begin(ms: number): Promise<void> {
    const patience = new AbortController();
    await Promise.race([this.#agents.begin(), sleep(this.#options.host, ms, patience.signal)]);
    patience.abort();
  }

  /** Closes the connections to MCP servers. */
  async close(): Promise<void> {
    await this.#agents.close();
  }

  /** The request with its model. Throws a `ResponsesError` if it is too large, or the model cannot serve it. */
  #resolve(request: GatewayRequest): { request: GatewayRequest; model: string } {
    this.#assertBounded(request);
    return { request, model: this.#agents.resolve(request) };
  }

  #assertBounded({ input: { length }, names: { input } }: GatewayRequest): void {
    const { inputItems } = this.admission.limits;
    if (length <= inputItems) return;
    throw invalid(
      input,
      'too_many_items',
      `'${input}' has ${length} items; this server takes at most ${inputItems}.`,
    );
  }
}
