import type { Host } from '../../engine/driver/host.ts';
import { appendEvidence } from '../../engine/journal/append-evidence.ts';
import { InheritedTranscripts } from '../../engine/journal/load-history.ts';
import { hasEnded } from '../../engine/journal/load-run.ts';
import { readJournal, readPage } from '../../engine/journal/read-journal.ts';
import { forkRun } from '../../engine/run/fork-run.ts';
import type { Run } from '../../engine/run/run.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import type { Tool, ToolSource } from '../../protocol/tool.ts';
import { memory } from '../../stores/memory.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { type Agent, createAgent } from '../../tools/agent/agent.ts';
import { invalid, ResponsesError } from './api-error.ts';
import { followResponse, type LiveResponse } from './follow-response.ts';
import { holdCalls } from './gateway/call-tools.ts';
import type { GatewayConfig } from './gateway/gateway-config.ts';
import { GatewayModels } from './gateway/gateway-models.ts';
import { GatewayServers } from './gateway/gateway-servers.ts';
import {
  type AgentTools,
  assertSupported,
  budgetOf,
  makeRequestAgent,
  mostToolCalls,
} from './gateway/request-agent.ts';
import { makeToolset, type Toolset } from './gateway/toolset.ts';
import { KeyedMutex } from './keyed-mutex.ts';
import { decisionOf, limitApprovals } from './request/limit-approvals.ts';
import type { Plan, Verdict } from './request/plan.ts';
import { assertNotOtherwise } from './request/plan-approvals.ts';
import { planRequest } from './request/plan-request.ts';
import { type CreateBody, readCreateBody } from './request/request-body.ts';
import { type FoundResponse, ResponseLibrary, translateResponse } from './response-library.ts';
import { divideJournal, type RunResponses } from './run-responses.ts';
import { submitCommands } from './submit-commands.ts';
import {
  type Exposed,
  isSameTool,
  RESPONSES,
  type ResponseSpec,
  toolNamed,
  withoutSecrets,
} from './wire/response-spec.ts';
import { itemIdOf, responseIdOf } from './wire/wire-ids.ts';

export type ResponsesServiceOptions = {
  store: Store;
  host: Host;
  gateway: GatewayConfig;
  /** `AGENTCHART_MODEL`. Its provider serves model names that are neither an alias nor `provider:model`. */
  model?: string;
  log(line: string): void;
};

type Equipment = { toolset: Toolset; close(): Promise<void> };

/** A request with its resolved model string and its tools. */
type Prepared = Equipment & { body: CreateBody; model: string };

/**
 * The gateway: the Responses API on top of runs.
 *
 * A request is validated (`request/request-body.ts`), planned against the stored runs (`request/plan-request.ts`) and
 * carried out with an agent made from the request and the configuration (`gateway/`). The run's events are translated
 * into a response and its stream (`wire/translation.ts`). The journal is the only record: a response is a span of
 * entries (`run-responses.ts`) and is translated again whenever it is retrieved.
 *
 * V1 Every request starts or continues a run; the chart decides what happens in it.
 * V2 A request is durable before anything is done for it: in `run.started`, or in a `run.noted` event.
 * V3 Requests that continue the same run are handled one at a time.
 */
export class ResponsesService {
  readonly #options: ResponsesServiceOptions;
  readonly #models: GatewayModels;
  readonly #servers: GatewayServers;
  readonly #library: ResponseLibrary;
  readonly #mutex = new KeyedMutex();

  constructor(options: ResponsesServiceOptions) {
    this.#options = options;
    this.#models = new GatewayModels(options.gateway.models, options.model);
    this.#servers = new GatewayServers(options.gateway, options.log);
    this.#library = new ResponseLibrary(options.store);
  }

  /** Starts the response to a request body. Throws a `ResponsesError` before doing anything if it is refused. */
  async create(value: unknown): Promise<LiveResponse> {
    const body = readCreateBody(value);
    const model = this.#models.resolve(body.model);
    assertSupported(this.#models.open(model).provider, body);
    const plan = await planRequest(body, this.#library);
    if (plan.type !== 'continue') return await this.#carryOut(plan, body, model);
    return await this.#mutex.run(plan.run.runId, async () =>
      this.#carryOut(await planRequest(body, this.#library), body, model),
    );
  }

  /** Finds a stored response. Throws a `ResponsesError` with status 404. */
  async find(responseId: string): Promise<FoundResponse> {
    const found = await this.#library.find(responseId);
    if (found !== undefined) return found;
    throw new ResponsesError(`Response with id '${responseId}' not found.`, {
      status: 404,
      type: 'invalid_request_error',
      code: 'response_not_found',
    });
  }

  /** The response object as it is now. Throws like `find`. */
  async retrieve(responseId: string): Promise<JsonObject> {
    return translateResponse(await this.find(responseId)).response;
  }

  /** Hides a response and cancels its run if it is the latest. The journal keeps it. Throws like `find`. */
  async delete(responseId: string): Promise<void> {
    const { run } = await this.find(responseId);
    await this.#mutex.run(run.runId, () => this.#delete(responseId));
  }

  async #delete(responseId: string): Promise<void> {
    const { run, span } = await this.find(responseId);
    const { store, host } = this.#options;
    const note = toJson({ type: 'deleted', responseId });
    await appendEvidence(store, run.runId, { type: 'run.noted', at: host.now(), by: RESPONSES, note });
    if (run.spans.at(-1)?.id !== span.id || hasEnded(run.state)) return;
    const agent = createAgent({ name: RESPONSES, store: nonDrivingStore(store), host });
    await (await agent.open(run.runId)).cancel({ by: RESPONSES, reason: 'The response was deleted.' });
  }

  /** The agent of a gateway run, made from its latest request; `undefined` for other runs or an unusable model. */
  async agentFor({ runId }: RunRecord): Promise<Agent | undefined> {
    const run = await this.#library.load(runId);
    const spec = run?.spans.at(-1)?.spec;
    if (run === undefined || spec === undefined) return undefined;
    const body = readCreateBody({ ...spec.request, input: [] });
    if (!this.#canOpen(spec.model)) return undefined;
    let equipment: Promise<Equipment> | undefined;
    const tools: ToolSource = {
      connect: async () => {
        equipment ??= this.#equip(body);
        const { toolset } = await equipment;
        return holdCalls(sameTools(toolset, spec.exposed), spec.exposed, run.tools);
      },
      close: async () => await (await equipment)?.close(),
    };
    return this.#makeAgent(body, { tools: [tools], exposed: spec.exposed }, spec, this.#options.store);
  }

  /** Closes the connections to MCP servers. */
  async close(): Promise<void> {
    await this.#servers.close();
  }

  #canOpen(model: string): boolean {
    try {
      return this.#models.open(model) !== undefined;
    } catch (error) {
      this.#options.log(messageOf(error));
      return false;
    }
  }

  async #carryOut(plan: Plan, body: CreateBody, model: string): Promise<LiveResponse> {
    if (plan.type === 'repeat') return await this.#repeat(plan.found);
    const equipment = await this.#equip(body);
    try {
      return plan.type === 'start'
        ? await this.#start(plan, { ...equipment, body, model })
        : await this.#continueRun(plan, { ...equipment, body, model });
    } catch (error) {
      await equipment.close();
      throw error;
    }
  }

  async #start(
    { continues, refersTo, items }: Extract<Plan, { type: 'start' }>,
    { body, model, toolset, close }: Prepared,
  ): Promise<LiveResponse> {
    const { host } = this.#options;
    const runId = host.newId('run');
    const isStored = body.store !== false;
    const store = isStored ? this.#options.store : memory();
    const inherited = await new InheritedTranscripts(this.#options.store).load(continues ?? null);
    const lists = this.#newLists(runId, toolset, [...inherited, ...items]);
    const spec: ResponseSpec = {
      ...this.#describe(body, model, toolset),
      lists: lists.map(list => list.id),
      ...omitUndefined({ refersTo }),
    };
    const agent = this.#makeAgent(body, toolset, spec, store);
    const run = await agent.start([...(isStored ? [] : inherited), ...lists, ...items], {
      runId,
      launch: { model, request: toJson(spec) },
      ...omitUndefined({ continues: isStored ? continues : undefined }),
    });
    if (!isStored) this.#library.rememberUnstored(runId, store);
    const createdAt = (await readPage(store, runId, 0, { entries: 1 }))[0]?.event.at ?? host.now();
    return this.#follow(run, { id: responseIdOf(runId, 1), createdAt, spec }, { from: 1, isStored, close });
  }

  async #continueRun(
    { run: known, forkAt, verdicts, messages }: Extract<Plan, { type: 'continue' }>,
    { body, model, toolset, close }: Prepared,
  ): Promise<LiveResponse> {
    const { host } = this.#options;
    assertToolsProvided(known, verdicts, toolset);
    const source = (await this.#library.storeOf(known.runId)) ?? this.#options.store;
    const isStored = this.#library.isStored(known.runId);
    const { runId, state } = forkAt === undefined ? known : await this.#fork(source, known.runId, forkAt);
    const { toolCalls, turns } = state.context;
    const { limited, overBudget, left } = limitApprovals(verdicts, mostToolCalls(body));
    const onlyApproves = messages.length === 0 && verdicts.every(({ type }) => type === 'approval');
    const callsBefore = onlyApproves ? (known.spans.at(-1)?.spec.callsBefore ?? 0) : toolCalls;
    const named = messages.map(item => ({ ...item, id: item.id ?? host.newId('item') }));
    const spec: ResponseSpec = {
      ...this.#describe(body, model, toolset),
      decisions: verdicts.flatMap(decisionOf),
      ...omitUndefined({ overBudget }),
      messages: named.map(({ id }) => id),
      turnsBefore: turns,
      callsBefore,
      openCalls: known.tools.openIn(state.context),
    };
    const held = { ...toolset, tools: holdCalls(toolset.tools, toolset.exposed, known.tools) };
    const note = toJson({ type: 'asked', spec });
    await appendEvidence(source, runId, { type: 'run.noted', at: host.now(), by: RESPONSES, note });
    const span = divideJournal(runId, await readJournal(source, runId))?.spans.at(-1);
    if (span === undefined) throw new Error('a run with a note has a response');
    const run = await this.#makeAgent(body, held, spec, source).open(runId);
    await submitCommands(
      run,
      { verdicts: limited, messages: named, limits: budgetOf(left, { toolCalls, turns, callsBefore }) },
      async () => assertNotOtherwise(known, limited, await readJournal(source, runId)),
    );
    return this.#follow(run, span, { from: span.from, isStored, close });
  }

  async #fork(store: Store, source: string, at: number) {
    const { runId, loaded } = await forkRun({ store, host: this.#options.host }, source, at);
    return { runId, state: loaded.state };
  }

  /** Follows the run without submitting or driving anything. */
  async #repeat({ run, span }: FoundResponse): Promise<LiveResponse> {
    const store = (await this.#library.storeOf(run.runId)) ?? this.#options.store;
    const agent = createAgent({ name: RESPONSES, store: nonDrivingStore(store), host: this.#options.host });
    const { host } = this.#options;
    return followResponse(await agent.open(run.runId), span, { host, from: span.from });
  }

  #follow(
    run: Run,
    head: { id: string; createdAt: number; spec: ResponseSpec },
    { from, isStored, close }: { from: number; isStored: boolean; close(): Promise<void> },
  ): LiveResponse {
    const { host, log } = this.#options;
    const settled = run.settled();
    settled
      .then(settled => {
        if (!isStored && settled.status !== 'waiting') this.#library.forgetUnstored(run.id);
        if (settled.status === 'waiting') this.#logDoubts(run.id, settled.doubts);
        if (settled.status === 'failed')
          log(`Run ${run.id} failed (${settled.error.code}): ${settled.error.message}`);
      })
      .catch(() => {})
      .finally(() => void close());
    return followResponse(run, head, { host, from, settled, log, cancelWhenLeft: !isStored });
  }

  /** Logs the calls in doubt with the command that resolves them. Clients do not see runs. */
  #logDoubts(runId: string, doubts: readonly { callId: string; name: string }[]): void {
    for (const { callId, name } of doubts)
      this.#options.log(
        `Run ${runId}: call ${callId} (${name}) is in doubt. Resolve it with: agentchart resolve ${runId} ${callId}`,
      );
  }

  async #equip(body: CreateBody): Promise<Equipment> {
    const { servers, close } = await this.#servers.connect(body.servers);
    return { toolset: makeToolset(body.functions, servers), close };
  }

  #makeAgent(
    body: CreateBody,
    toolset: AgentTools,
    { model, turnsBefore }: ResponseSpec,
    store: Store,
  ): Agent {
    const { host } = this.#options;
    return makeRequestAgent({ body, toolset, model: this.#models.open(model), store, host, turnsBefore });
  }

  #describe(body: CreateBody, model: string, { exposed }: Toolset): ResponseSpec {
    return {
      request: withoutSecrets(body),
      model,
      exposed,
      decisions: [],
      messages: [],
      lists: [],
      turnsBefore: 0,
    };
  }

  /** The lists of servers that the conversation has not listed yet. A server with an error is listed again. */
  #newLists(runId: string, { lists }: Toolset, transcript: readonly Item[]) {
    const listed = new Set(
      transcript.flatMap(item => (item.type === 'tool_list' && item.error === undefined ? [item.label] : [])),
    );
    return lists
      .filter(({ label }) => !listed.has(label))
      .map((list, place) => {
        const id = itemIdOf({ kind: 'mcpl', runId, turn: 0, place });
        return { ...list, type: 'tool_list' as const, id };
      });
  }
}

/** The tools that are still the ones the request had: a name may now belong to another server's tool. */
function sameTools({ tools, exposed }: Toolset, before: Exposed): Tool[] {
  return tools.filter(({ name }) => isSameTool(toolNamed(exposed, name), toolNamed(before, name)));
}

/** Throws a `ResponsesError` unless the request provides the tool of every call that it approves. */
function assertToolsProvided(run: RunResponses, verdicts: readonly Verdict[], { exposed }: Toolset): void {
  for (const verdict of verdicts) {
    if (verdict.type !== 'approval' || !verdict.approve) continue;
    const call = run.state.context.calls.find(({ callId }) => callId === verdict.callId);
    const wanted = run.tools.of(verdict.callId);
    if (wanted !== undefined && call !== undefined && isSameTool(wanted, toolNamed(exposed, call.name)))
      continue;
    throw invalid(
      'tools',
      'approval_continuation_invalid_tool',
      `'tools' does not include the tool of the approved call: "${wanted?.name ?? call?.name}" of the MCP server "${wanted?.label}". Send the same MCP server as in the request that asked for approval.`,
    );
  }
}
