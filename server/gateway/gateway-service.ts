import type { Caller } from '../../access/caller.ts';
import type { ProviderFetch } from '../../adapters/http/transport.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import { endWithin, type Host } from '../../engine/host/host.ts';
import { appendEvidence } from '../../engine/journal/evidence.ts';
import { mergeInheritance } from '../../machines/ledger.ts';
import { hasEnded } from '../../machines/status.ts';
import { omitUndefined, toJson } from '../../protocol/json.ts';
import { KeyedMutex } from '../../protocol/keyed-mutex.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { Admission } from '../access/admission.ts';
import { invalid, notFound, ResponsesError } from '../openai-error.ts';
import { GatewayAgents } from './agents/gateway-agents.ts';
import type { GatewayModels } from './agents/gateway-models.ts';
import type { GatewayConfig } from './config/gateway-config.ts';
import { type LiveResponse, LiveResponses, type MakeWriter } from './live/response-feed.ts';
import {
  type ConversationContext,
  historyUpTo,
  type Plan,
  planRequest,
  readRequest,
  transcriptFor,
} from './plan/plan-request.ts';
import { compactsContext, requestToCompact } from './request/compaction-items.ts';
import type { GatewayRequest } from './request/gateway-request.ts';
import { RequestFields } from './request/read-fields.ts';
import { AnsweredHistories, continuationOf, historyOf, withProviderIds } from './runs/continued-run.ts';
import { type CallersRequest, RequestRuns } from './runs/request-runs.ts';
import { type FoundResponse, ResponseLibrary, recordedUsage } from './runs/response-library.ts';
import { RESPONSES, type RequestKey } from './runs/response-spec.ts';

type GatewayServiceOptions = {
  store: Store;
  host: Host;
  gateway: GatewayConfig;
  /** Its provider serves model names that are neither an alias nor `provider:model`. */
  model?: string;
  agents?: ReadonlyMap<string, Agent>;
  hiddenWaitMs?: number;
  /** False if other processes drive the runs. Default true. */
  drives?: boolean;
  /** How models are reached. Default: the global `fetch`. */
  fetch?: ProviderFetch;
  log(line: string): void;
  /** Gets the fields of requests that have no effect. Default: `log`. */
  logIgnored?(line: string): void;
};

/** `read`: what a request follows now; throws if that is in progress. `join` throws if it has changed. */
export type RequestConversation = {
  id: string;
  runsWithKey(key: RequestKey): Promise<string[]>;
  read(): Promise<
    ConversationContext & { join(response: { runId: string; ticket: string; key?: string }): Promise<void> }
  >;
};

/** `ownRunId`: a run, maybe an unstored one, that the request may continue. */
type AnswerOptions = Pick<CallersRequest, 'chain' | 'once' | 'signal'> & {
  ownRunId?: string;
  conversation?: RequestConversation;
};

type Asked = CallersRequest & { conversation?: RequestConversation; ownRunId?: string };

type Planned = {
  plan: Plan & { given?: number };
  join?: Awaited<ReturnType<RequestConversation['read']>>['join'];
};

/**
 * The gateway: answers to requests of all three APIs, on top of runs.
 *
 * A request (`request/gateway-request.ts`), which its API has read, is planned against the stored runs
 * (`plan/plan-request.ts`) and carried out (`runs/request-runs.ts`) with an agent made from the request and the
 * configuration (`agents/`). The part of the run's story that the client gets is the answer (`answer/`), which is
 * written in the client's protocol by an `AnswerWriter` for readers that share it (`live/`). The journal is the
 * only record: a response is a span of entries (`runs/response-library.ts`) and is written again whenever it is retrieved.
 *
 * V1 Every request starts or continues a run; the chart decides what happens in it.
 * V2 A request is durable before anything is done for it: in `run.started`, or in a `run.noted` event. One that is not
 *    stored and has no tools has a run without a store (`PrivateRun`).
 * V3 Requests that continue the same run are handled one at a time, and so are those in one conversation.
 * V4 Ids in a request lead only to responses that its caller may see (`VisibleResponses`).
 */
export class GatewayService {
  readonly admission: Admission;
  readonly library: ResponseLibrary;
  readonly live = new LiveResponses();
  readonly #options: GatewayServiceOptions;
  readonly runs: RequestRuns;
  readonly fields: RequestFields;
  readonly #agents: GatewayAgents;
  readonly #histories = new AnsweredHistories();
  readonly #mutex = new KeyedMutex();

  constructor(options: GatewayServiceOptions) {
    const { store, host, gateway, log, logIgnored = log } = options;
    this.#options = options;
    this.admission = new Admission({ host, ...gateway, recorded: from => recordedUsage(store, from, log) });
    this.library = new ResponseLibrary(store, { keepsUnstored: gateway.keepUnstored === true });
    this.#agents = new GatewayAgents({ ...options, admission: this.admission });
    this.fields = new RequestFields({ providerOf: model => this.models.providerOf(model), log: logIgnored });
    const { admission, library, live } = this;
    const { drives = true } = options;
    this.runs = new RequestRuns({ ...options, drives, library, live, agents: this.#agents, admission });
  }

  /** Starts an answer; one to the calls of an earlier request continues its run. Throws `ResponsesError`. */
  async answer<Wire, Whole>(
    request: GatewayRequest,
    caller: Caller,
    write: MakeWriter<Wire, Whole>,
    how: AnswerOptions = {},
  ): Promise<LiveResponse<Wire, Whole>> {
    const { conversation: _, ...alone } = how;
    const compacted = compactsContext(this.models.providerOf(request.model))
      ? undefined
      : requestToCompact(request);
    if (compacted !== undefined) return await this.compact(compacted, caller, write, alone);
    const continuation = await continuationOf(
      request,
      ownRunId => this.library.seenBy(caller, ownRunId),
      history => this.#histories.find(history, caller),
    );
    const carryOut = async (asked: Asked) => {
      const live = await this.#carryOut(asked, write);
      this.#histories.note(request, caller, live.id);
      return live;
    };
    const history = historyOf(request);
    if (continuation !== undefined && how.once === undefined) {
      const { runId: ownRunId } = continuation;
      try {
        const asked = { ...this.resolve(continuation.request), caller, ...how, ownRunId, ...history };
        return await carryOut(asked);
      } catch (error) {
        // Refused before anything was done, for example because a person has answered the call.
        if (!(error instanceof ResponsesError)) throw error;
      }
    }
    const asked = this.resolve(withProviderIds(request));
    return await carryOut({ ...asked, caller, ...how, ...history });
  }

  async #carryOut<Wire, Whole>(
    asked: Asked,
    write: MakeWriter<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    const { conversation } = asked;
    const carryOut = async ({ plan, join }: Planned) =>
      await this.runs.carryOut(plan, this.#joined(asked, plan.given, join), write);
    const alone = async () => {
      const planned = await this.#plan(asked);
      if (planned.plan.type !== 'continue') return await carryOut(planned);
      return await this.#mutex.run(planned.plan.run.runId, async () => carryOut(await this.#plan(asked)));
    };
    return conversation === undefined ? await alone() : await this.#mutex.run(conversation.id, alone);
  }

  async #plan({ request, caller, chain, conversation, ownRunId }: Asked): Promise<Planned> {
    const context = await conversation?.read();
    const library = this.library.seenBy(caller, ownRunId ?? chain?.runId);
    const plan = await planRequest(request, library, context);
    return { plan, ...omitUndefined({ join: context?.join }) };
  }

  #joined({ conversation, ...asked }: Asked, given = 0, join?: Planned['join']): CallersRequest {
    if (conversation === undefined || join === undefined) return asked;
    const ticket = this.#options.host.newId('turn');
    const note = { ticket, ...omitUndefined({ key: asked.once?.key.key }) };
    const { id } = conversation;
    return { ...asked, joined: { id, ticket, given, join: runId => join({ ...note, runId }) } };
  }

  async countInput(
    request: GatewayRequest,
    caller: Caller,
    how: Pick<AnswerOptions, 'conversation'> = {},
  ): Promise<number> {
    const asked = { ...this.resolve(withProviderIds(request)), caller, ...how };
    const { plan } = await this.#plan(asked);
    return await this.#agents.countInput(asked, await transcriptFor(plan, this.#options.store));
  }

  get models(): GatewayModels {
    return this.#agents.models;
  }

  /** Starts a run that only compacts the conversation that a request has or continues. */
  async compact<Wire, Whole>(
    request: GatewayRequest,
    caller: Caller,
    write: MakeWriter<Wire, Whole>,
    how: Omit<AnswerOptions, 'conversation'> = {},
  ): Promise<LiveResponse<Wire, Whole>> {
    const asked = { ...this.resolve(request), caller, compacts: true as const, ...how };
    const library = this.library.seenBy(caller, how.ownRunId ?? how.chain?.runId);
    const { previous, references, items } = await readRequest(request, library);
    const before = previous && (await historyUpTo(previous, this.library.storeOf(previous.run.runId)));
    const inherits =
      before && references.inherits
        ? mergeInheritance(before.inherits, references.inherits)
        : (before?.inherits ?? references.inherits);
    const conversation = [...(before?.items ?? []), ...items];
    const { origins } = references;
    const plan = { type: 'start' as const, items: conversation, origins, ...omitUndefined({ inherits }) };
    return await this.runs.carryOut(plan, asked, write);
  }

  async find(responseId: string, caller: Caller): Promise<FoundResponse> {
    const found = await this.library.seenBy(caller).find(responseId);
    if (found !== undefined) return found;
    throw notFound(`Response with id '${responseId}' not found.`, 'response_not_found');
  }

  async cancel(responseId: string, caller: Caller): Promise<void> {
    const { run, span } = await this.find(responseId, caller);
    if (span.spec.request.background !== true)
      throw invalid('response_id', 'invalid_value', 'Cannot cancel a synchronous response.');
    if (span.to === null) await this.runs.cancel(responseId, run.runId);
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
    this.live.remove(responseId);
    const agent = createAgent({ name: RESPONSES, store: nonDrivingStore(store), host });
    await (await agent.open(run.runId)).cancel({ by: RESPONSES, reason: 'The response was deleted.' });
  }

  /** The agent that drives a run on. None for a run whose request has ended with its connection: see `RequestRuns.endLeft`. */
  async agentFor(record: RunRecord): Promise<Agent | undefined> {
    const run = await this.library.load(record.runId);
    if (run === undefined || (await this.runs.endLeft(run, record))) return undefined;
    return this.#agents.makeAgain(run);
  }

  /** Connects the hidden MCP servers, and waits until each has answered or failed, at most `ms`. */
  async begin(ms: number): Promise<void> {
    await endWithin(this.#agents.begin(), this.#options.host, ms);
  }

  async close(): Promise<void> {
    await this.#agents.close();
  }

  resolve(request: GatewayRequest): { request: GatewayRequest; model: string } {
    this.#assertBounded(request);
    return this.#agents.resolve(request);
  }

  #assertBounded({ input: { length }, names: { input } }: GatewayRequest): void {
    const { inputItems } = this.admission.limits;
    if (length <= inputItems) return;
    const message = `'${input}' has ${length} items; this server takes at most ${inputItems}.`;
    throw invalid(input, 'too_many_items', message);
  }
}
