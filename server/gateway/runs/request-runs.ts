import { isDeepStrictEqual } from 'node:util';
import { byOf, type Caller, personOf } from '../../../access/caller.ts';
import { objectOf } from '../../../adapters/turn/json-access.ts';
import { createAgent } from '../../../agent/agent.ts';
import { startPrivately } from '../../../agent/start-privately.ts';
import type { Host } from '../../../engine/host/host.ts';
import { isOwnerDead } from '../../../engine/host/owner.ts';
import { appendEvidence } from '../../../engine/journal/evidence.ts';
import { type Inherited, InheritedTranscripts } from '../../../engine/journal/load-history.ts';
import { readJournal } from '../../../engine/journal/read-journal.ts';
import { forkRun } from '../../../engine/run/forks/fork-run.ts';
import type { PrivateRun } from '../../../engine/run/private-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { findCall } from '../../../machines/calls.ts';
import { mergeInheritance } from '../../../machines/ledger.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Inheritance } from '../../../protocol/event.ts';
import type { Item, ToolCallItem } from '../../../protocol/item.ts';
import { type JsonValue, omitUndefined, toJson } from '../../../protocol/json.ts';
import { type Labels, MOST_LABELS } from '../../../protocol/listing/label.ts';
import { commandFor } from '../../../protocol/open/answer.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import { isDriven, type RunRecord, type Store } from '../../../protocol/store.ts';
import { nonDrivingStore } from '../../../stores/non-driving-store.ts';
import { estimateRequest } from '../../../text/estimate-usage.ts';
import type { Admission } from '../../access/admission.ts';
import { ApiError } from '../../error-envelope.ts';
import { invalid, ResponsesError } from '../../openai-error.ts';
import { currentNote } from '../../request-log.ts';
import type { Equipment, GatewayAgents } from '../agents/gateway-agents.ts';
import { budgetOf, mostToolCalls } from '../agents/request-agent.ts';
import { newLists, type Toolset } from '../agents/toolset.ts';
import type { PlaceInRun } from '../answer/answer.ts';
import { responseIdOf } from '../answer/wire-ids.ts';
import { Opening } from '../live/opening.ts';
import {
  type AnyFeed,
  type LiveResponse,
  type LiveResponses,
  type MakeWriter,
  ResponseFeed,
} from '../live/response-feed.ts';
import { assertNotOtherwise, type CallAnswer, type Plan } from '../plan/plan-request.ts';
import type { CallOrigin } from '../plan/references.ts';
import { sessionLabels } from '../request/client-session.ts';
import { thresholdIn } from '../request/compaction-items.ts';
import { type GatewayRequest, lifetimeOf, OPENAI, recordOf } from '../request/gateway-request.ts';
import { effortAfter, readableFor } from '../request/openai-items.ts';
import {
  type ClientTool,
  clientTools,
  type RequestTool,
  readDeclarations,
} from '../request/request-tools.ts';
import {
  type FoundResponse,
  placeBefore,
  type ResponseLibrary,
  type RunResponses,
  type UnstoredChain,
} from './response-library.ts';
import {
  abridgeSpec,
  CLIENT,
  callTypeFor,
  type EarlierRequest,
  type Exposed,
  holdCalls,
  isClientTool,
  isSameTool,
  isServerTool,
  LEFT,
  modelNameOf,
  namespaceOf,
  RESPONSES,
  type RecordedRequest,
  type RequestKey,
  type ResponseHead,
  type ResponseSpec,
  toolNamed,
} from './response-spec.ts';

type RequestRunsOptions = {
  host: Host;
  library: ResponseLibrary;
  live: LiveResponses;
  agents: GatewayAgents;
  admission: Admission;
  /** False if other processes drive the runs. */
  drives: boolean;
  log(line: string): void;
};

/** How long the process that journaled a request may take to claim its run, in ms. */
const BEGINNING_MS = 10_000;

/** The first event of a response that is read from its journal and has been streamed before has this number. */
const JOURNAL_NUMBERS = 1_000_000;

export type CallersRequest = {
  request: GatewayRequest;
  model: string;
  caller: Caller;
  compacts?: true;
  history?: string;
  chain?: UnstoredChain;
  /** Aborted when the client leaves. */
  signal?: AbortSignal;
  once?: { key: RequestKey; runId: string };
  /** As in `ResponseSpec`. `join` notes in the conversation that the run gets the response. */
  joined?: NonNullable<ResponseSpec['conversation']> & { join(runId: string): Promise<void> };
};

type Prepared<Wire, Whole> = Equipment &
  CallersRequest & { used: Exposed; opening: Opening; write: MakeWriter<Wire, Whole> };

export class RequestRuns {
  readonly #options: RequestRunsOptions;

  constructor(options: RequestRunsOptions) {
    this.#options = options;
  }

  /** Throws a `ResponsesError` if the run refuses the request, or what `Admission.admit` throws. */
  async carryOut<Wire, Whole>(
    plan: Plan,
    request: CallersRequest,
    write: MakeWriter<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    if (plan.type === 'repeat') return await this.repeat(plan.found, write);
    const { agents, admission, live } = this.#options;
    const { provider } = agents.models.open(request.model);
    const told = {
      ...toolsAddedBy(plan, request.request),
      ...settingsAfter(plan, request.request, provider),
    };
    const asked = { ...request, request: { ...request.request, ...told } };
    live.assertOpen();
    const release = await admission.admit(asked.caller, asked.model);
    let close = async () => release();
    try {
      const used = usedIn(plan);
      const equipment = await unlessLeft(asked, agents.equip(asked, used));
      close = async () => {
        release();
        await equipment.close();
      };
      const opening = new Opening({ streams: asked.request.stream === true });
      const prepared = { ...equipment, ...asked, used, opening, close, write };
      return plan.type === 'start'
        ? await this.#start(plan, prepared)
        : await this.#continueRun(plan, prepared);
    } catch (error) {
      await close();
      throw error;
    }
  }

  async #start<Wire, Whole>(
    { continues, refersTo, items: read, origins, inherits, restored }: Extract<Plan, { type: 'start' }>,
    asked: Prepared<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    const { host, library, agents } = this.#options;
    const { request, model, toolset, used } = asked;
    const runId = asked.once?.runId ?? host.newId('run');
    const isStored = request.store !== false;
    const isPrivate = this.#isPrivate(asked);
    const store = isPrivate ? library.store : library.storeFor(request);
    const before = continues?.runId;
    const source = library.storeOf(before ?? '');
    const older = await InheritedTranscripts.of(source).load(before ?? null);
    const { items: inherited, sent } = older;
    const isLinked = !isPrivate && before !== undefined && source === store;
    const inheritance = inheritanceOf(request, older, { items: read, inherits });
    const { provider } = agents.models.open(model);
    const items = nameCalls(readableFor(provider, read), origins, { ...toolset, used, provider });
    agents.assertReadable([...inherited, ...items], model, inheritance.items);
    const lists = newLists(runId, toolset, [...inherited, ...items]);
    const spec: ResponseSpec = {
      ...this.#describe(asked),
      lists: lists.map(list => list.id),
      used,
      ...omitUndefined({ refersTo, restored: restored?.length === 0 ? undefined : restored?.slice() }),
    };
    const given = { request, toolset, store, opening: asked.opening };
    const by = omitUndefined({ by: byOf(asked.caller) });
    if (isPrivate) {
      const stream = request.stream === true;
      const begin = { runId, stream, inherits: inheritance, sent, ...by };
      const input = [...inherited, ...lists, ...items];
      const run = startPrivately(input, agents.optionsFor(spec, given), begin);
      return this.#follow(run, headOf(run, spec), asked, { from: 1, isStored });
    }
    const agent = agents.make(spec, given);
    if (isStored) await asked.joined?.join(runId);
    const run = await agent.start([...(isLinked ? [] : inherited), ...lists, ...items], {
      runId,
      labels: labelsFor(asked),
      launch: {
        model,
        request: abridgeSpec(spec, runId, isLinked ? continues && lastRequest(continues) : undefined),
      },
      inherits: inheritance,
      ...by,
      ...(isUnwatched(asked, store === library.store) && { stream: false }),
      ...(isLinked ? { continues: before } : { sent }),
      ...(isStored && asked.joined && { thread: asked.joined.id, ...(!isLinked && { continues: null }) }),
    });
    if (!isStored) library.rememberUnstored(runId, store);
    return this.#follow(run, headOf(run, spec), asked, { from: 1, isStored });
  }

  /** Whether nothing but its answer needs the run: no store, no tool and no later request. */
  #isPrivate({ request, model, toolset, compacts, chain, once }: CallersRequest & Equipment): boolean {
    const { library, agents } = this.#options;
    const isAlone = !library.keeps(request) && chain === undefined && once === undefined;
    return isAlone && toolset.tools.length === 0 && compacts !== true && !agents.isAgent(model);
  }

  async #continueRun<Wire, Whole>(
    { run: known, forkAt, callAnswers, messages }: Extract<Plan, { type: 'continue' }>,
    asked: Prepared<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    const { host, library, agents } = this.#options;
    const { request, toolset } = asked;
    assertToolsProvided(known, callAnswers, toolset);
    const { transcript, compaction } = known.state.context;
    agents.assertReadable(transcript, asked.model, compaction.items);
    const source = library.storeOf(known.runId);
    const isStored = library.isStored(known.runId);
    const runId = forkAt === undefined ? known.runId : (asked.once?.runId ?? host.newId('run'));
    if (isStored && request.store !== false) await asked.joined?.join(runId);
    const fork = { runId: known.runId, at: forkAt ?? 0 };
    const state =
      forkAt === undefined
        ? known.state
        : await this.#fork(source, { ...fork, takesPlace: asked.joined !== undefined }, runId);
    const { toolCalls, turns } = state.context;
    const { limited, overBudget, left } = limitApprovals(callAnswers, mostToolCalls(request));
    const onlyApproves = messages.length === 0 && callAnswers.every(({ open }) => open.kind === 'approval');
    const continued = known.spans.findLast(({ to }) => forkAt === undefined || to === forkAt);
    const callsBefore = onlyApproves ? (continued?.spec.callsBefore ?? 0) : toolCalls;
    const { provider } = agents.models.open(asked.model);
    const named = readableFor(provider, messages).map(item => ({
      ...item,
      id: item.id ?? host.newId('item'),
    }));
    const spec: ResponseSpec = {
      ...this.#describe(asked),
      decisions: callAnswers.flatMap(decisionOf),
      ...omitUndefined({ overBudget }),
      messages: named.map(({ id }) => id),
      turnsBefore: turns,
      callsBefore,
      openCalls: known.tools.openIn(state.context),
    };
    const held = { ...toolset, tools: holdCalls(toolset.tools, toolset.exposed, known.tools) };
    // A fork has the first entry of its run too, and no later request.
    const before = forkAt === undefined ? lastRequest(known) : firstRequest(known, runId);
    const note: JsonValue = { type: 'asked', spec: abridgeSpec(spec, runId, before) };
    const { opening } = asked;
    if (limited.some(({ answer }) => answer.type === 'approve')) opening.open();
    const run = await agents.make(spec, { request, toolset: held, store: source, opening }).open(runId);
    await submitCommands(
      run,
      {
        note,
        callAnswers: limited,
        messages: named,
        limits: budgetOf(left, { toolCalls, turns, callsBefore }),
        caller: asked.caller,
      },
      async () => assertNotOtherwise(known, callAnswers, await readJournal(source, runId)),
    );
    const found = await this.#findAsked(source, runId, note);
    const { from } = found.span;
    return this.#follow(run, found.span, asked, { from, begin: placeBefore(found), isStored });
  }

  /** Appends the note if the run has refused all commands that came with it. */
  async #findAsked(store: Store, runId: string, note: JsonValue): Promise<FoundResponse> {
    const { host, library } = this.#options;
    const run = await library.load(runId);
    const noted = run?.entries.findLast(
      ({ event }) => event.type === 'run.noted' && isDeepStrictEqual(event.note, note),
    );
    const span = run?.spans.find(({ seq }) => seq === noted?.seq);
    if (run !== undefined && span !== undefined) return { run, span };
    await appendEvidence(store, runId, { type: 'run.noted', at: host.now(), by: RESPONSES, note });
    return await this.#findAsked(store, runId, note);
  }

  /** In a conversation, the fork takes over: the run that it is a copy of may wait forever. */
  async #fork(
    store: Store,
    source: { runId: string; at: number; takesPlace: boolean },
    runId: string,
  ): Promise<ChartState> {
    const { host, library } = this.#options;
    const { takesPlace } = source;
    const { loaded } = await forkRun({ store, host, takesPlace }, source.runId, source.at, { runId });
    if (!library.isStored(source.runId)) library.rememberUnstored(runId, store);
    return loaded.state;
  }

  /** A reader of a response that exists already. It gets the events as they were made here, or else the journal's. */
  async repeat<Wire, Whole>(
    found: FoundResponse,
    write: MakeWriter<Wire, Whole>,
  ): Promise<LiveResponse<Wire, Whole>> {
    const feed = this.#findFeed(found);
    if (feed?.isWrittenBy(write) === true && feed.keeps(-1)) return feed.attach();
    return await this.#readJournal(found, write, 0);
  }

  /**
   * A reader, and the number of the event after which it has to begin. Events that were made here have the numbers that
   * earlier readers saw. Those of a journal lack the deltas, so they have other numbers, always the same: from
   * `JOURNAL_NUMBERS` on. A client with a number that cannot be found gets all events of the journal.
   */
  async resume<Wire, Whole>(
    found: FoundResponse,
    write: MakeWriter<Wire, Whole>,
    startingAfter?: number,
  ): Promise<{ live: LiveResponse<Wire, Whole>; after?: number | undefined }> {
    const isLive = startingAfter === undefined || startingAfter < JOURNAL_NUMBERS;
    const feed = isLive ? this.#findFeed(found) : undefined;
    if (feed?.isWrittenBy(write) === true && feed.keeps(startingAfter ?? -1))
      return { live: feed.attach(), after: startingAfter };
    const { stream, background } = found.span.spec.request;
    const wasNumbered = startingAfter !== undefined || stream === true || background === true;
    const live = await this.#readJournal(found, write, wasNumbered ? JOURNAL_NUMBERS : 0);
    return { live, after: isLive ? undefined : startingAfter };
  }

  async cancel(responseId: string, runId: string): Promise<void> {
    const run = this.#options.live.find(responseId)?.run ?? (await this.#openToRead(runId));
    const result = await run.cancel({ by: CLIENT, reason: 'The client cancelled the response.' });
    if (result.accepted) await run.settled();
  }

  #describe(asked: CallersRequest & Equipment): ResponseSpec {
    return { ...describeRequest(asked), ...(!this.#options.drives && { drivenElsewhere: true }) };
  }

  /**
   * Whether the request of a run that no process drives has ended with its connection, so that nothing of it may continue.
   * Ends the run then. A run that rests waits for its client's next request.
   */
  async endLeft({ runId, spans, entries }: RunResponses, record: RunRecord): Promise<boolean> {
    const { host, live } = this.#options;
    const span = spans.at(-1);
    if (span === undefined || span.to !== null || record.status !== 'running') return false;
    const { lifetime, drivenElsewhere } = span.spec;
    if (lifetime !== 'connection' || drivenElsewhere === true) return false;
    if (live.find(span.id)?.isAnswering === true || isDriven(record, host.now(), isOwnerDead)) return false;
    const isBegun = entries.some(({ seq, event }) => seq > span.seq && event.type === 'run.claimed');
    if (!isBegun && host.now() < span.createdAt + BEGINNING_MS) return true;
    await (await this.#openToRead(runId)).cancel({ by: RESPONSES, reason: LEFT.gone });
    return true;
  }

  /** Ends the kept runs with `store: false` that wait: their client has left, and no other finds them. */
  async endKept(): Promise<void> {
    const { library } = this.#options;
    for (const runId of library.kept) {
      if ((await library.store.get(runId))?.status !== 'waiting') continue;
      await (await this.#openToRead(runId)).cancel({ by: RESPONSES, reason: LEFT.client });
    }
  }

  async #openToRead(runId: string): Promise<Run> {
    const { host, library } = this.#options;
    const store = nonDrivingStore(library.storeOf(runId));
    return await createAgent({ name: RESPONSES, store, host }).open(runId);
  }

  /** Not after a redaction of the journal. */
  #findFeed({ run, span }: FoundResponse): AnyFeed | undefined {
    const { live } = this.#options;
    const feed = live.find(span.id);
    const redacted = run.entries.findLast(({ event }) => event.type === 'run.redacted')?.seq ?? 0;
    if (feed === undefined || feed.isLeft) return undefined;
    if (redacted <= feed.lastSeq) return feed;
    live.remove(span.id);
    return undefined;
  }

  /** Follows the run without driving anything. Readers of the same journal share its events. */
  async #readJournal<Wire, Whole>(
    { run, span }: FoundResponse,
    write: MakeWriter<Wire, Whole>,
    firstNumber: number,
  ): Promise<LiveResponse<Wire, Whole>> {
    const { host, live } = this.#options;
    const begin = placeBefore({ run, span });
    const how = {
      host,
      from: span.from,
      begin,
      closing: live.closing,
      whenUnread: 'stop',
      keepsAll: true,
    } as const;
    const key = JSON.stringify([span.id, firstNumber, run.entries.at(-1)?.seq]);
    const open = async (onClosed: () => void) =>
      new ResponseFeed(await this.#openToRead(run.runId), span, { ...how, write, firstNumber, onClosed });
    return await live.replay(key, write, open);
  }

  #follow<Wire, Whole>(
    run: Run | PrivateRun,
    head: ResponseHead,
    { chain, once, close, write, opening }: Prepared<Wire, Whole>,
    { isStored, ...place }: { from: number; begin?: PlaceInRun | undefined; isStored: boolean },
  ): LiveResponse<Wire, Whole> {
    const { host, log, library, live } = this.#options;
    const note = currentNote();
    if (note !== undefined) Object.assign(note, { run: run.id, model: head.spec.model });
    const asked = note === undefined ? '' : ` of request ${note.request}`;
    if (!isStored) chain?.keep({ id: head.id, runId: run.id });
    const settled = run.settled();
    settled
      .then(settled => {
        if (!isStored && chain === undefined && settled.status !== 'waiting') library.forgetUnstored(run.id);
        if (!isStored && settled.status === 'waiting') chain?.keepWaiting(run.id);
        for (const { callId, name } of settled.status === 'waiting' ? settled.doubts : [])
          log(
            `Run ${run.id}: call ${callId} (${name}) is in doubt. Resolve it with: agentchart resolve ${run.id} ${callId}`,
          );
        for (const { callId, name } of settled.status === 'waiting' ? settled.questions : [])
          log(
            `Run ${run.id}: call ${callId} (${name}) asks people. Answer it with: agentchart answer ${run.id} ${callId} --answers JSON`,
          );
        if (settled.status === 'failed')
          log(`Run ${run.id}${asked} failed (${settled.error.code}): ${settled.error.message}`);
      })
      .catch(() => {})
      .finally(() => void close());
    const whenUnread = head.spec.lifetime === 'answer' ? 'keep' : 'cancel';
    opening.openForWork(run.durable.state);
    const options = {
      host,
      ...place,
      write,
      settled,
      opening,
      closing: live.closing,
      log,
      whenUnread,
    } as const;
    const feed = new ResponseFeed(run, head, options);
    live.add(feed, settled, { isKept: isStored || once !== undefined });
    return feed.attach();
  }
}

function headOf(run: Run | PrivateRun, spec: ResponseSpec): ResponseHead {
  return { id: responseIdOf(run.id, 1), createdAt: run.context.startedAt, spec };
}

function lastRequest({ runId, spans }: RunResponses): EarlierRequest | undefined {
  const last = spans.at(-1);
  return last && { runId, request: last.spec.request, places: last.places };
}

/** The first request of a run whose fork is `runId`: the fork has a copy of that entry. */
function firstRequest({ spans: [first] }: RunResponses, runId: string): EarlierRequest | undefined {
  return first?.seq === 1 ? { runId, request: first.spec.request, places: first.places } : undefined;
}

/**
 * Whether nothing reads the run's stream: only this process has the run, and its client gets one body. A run with tools
 * does not count, because a later request may continue it and ask for a stream.
 */
function isUnwatched({ request, toolset }: CallersRequest & Equipment, isShared: boolean): boolean {
  return !isShared && request.stream !== true && toolset.tools.length === 0;
}

/**
 * Those of the caller, which decide who sees the run, and of the client's session, if there is room. In a conversation all
 * runs have the same.
 */
function labelsFor({ caller, request, joined }: CallersRequest): Labels {
  if (joined !== undefined) return caller.labels;
  const labels = { ...sessionLabels(request.session), ...caller.labels };
  return Object.keys(labels).length > MOST_LABELS ? caller.labels : labels;
}

/** Rejects once the client of a request that ends with its connection has left; what was prepared is closed then. */
async function unlessLeft(
  { request, signal }: CallersRequest,
  equipping: Promise<Equipment>,
): Promise<Equipment> {
  if (signal === undefined || lifetimeOf(request) === 'answer') return await equipping;
  const { promise: left, reject } = Promise.withResolvers<never>();
  const leave = () => reject(new ApiError('request-aborted', LEFT.client));
  signal.addEventListener('abort', leave);
  if (signal.aborted) leave();
  try {
    return await Promise.race([equipping, left]);
  } catch (error) {
    equipping.then(({ close }) => close()).catch(() => {});
    throw error;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/** What the run has from its chain and from compactions in its input; its size, if it may have to be compacted. */
function inheritanceOf(
  request: GatewayRequest,
  { items: inherited, inherits: older }: Inherited,
  { items, inherits: given }: { items: readonly Item[]; inherits: Inheritance | undefined },
): Inheritance {
  const inherits = given === undefined ? older : mergeInheritance(older, given);
  if (thresholdIn(request) === undefined) return inherits;
  const { tokens } = inherits;
  const unmeasured = tokens === 0 ? [...inherited, ...items] : items;
  const added = estimateRequest({
    ...omitUndefined({ instructions: request.instructions }),
    transcript: unmeasured,
    tools: [],
  });
  return { ...inherits, tokens: tokens + added };
}

function describeRequest({
  request,
  model,
  caller,
  compacts,
  history,
  once,
  joined,
  toolset: { exposed },
}: CallersRequest & Equipment): ResponseSpec {
  const { name, labels } = caller;
  const { providerOptions = {} } = request;
  const conversation = joined && { id: joined.id, ticket: joined.ticket, given: joined.given };
  return {
    caller: { name, labels },
    request: recordOf(request),
    model,
    exposed,
    decisions: [],
    messages: [],
    lists: [],
    turnsBefore: 0,
    lifetime: lifetimeOf(request),
    ...omitUndefined({ compacts, history, key: once?.key, conversation }),
    ...(Object.keys(providerOptions).length > 0 ? { providerOptions } : {}),
  };
}

function assertToolsProvided(
  run: RunResponses,
  callAnswers: readonly CallAnswer[],
  { exposed, lists }: Toolset,
): void {
  for (const { open, answer } of callAnswers) {
    if (answer.type !== 'approve') continue;
    const call = findCall(run.state.context, open.callId);
    const wanted = run.tools.of(open.callId);
    if (wanted !== undefined && call !== undefined && isSameTool(wanted, toolNamed(exposed, call.name)))
      continue;
    const label = isServerTool(wanted) ? wanted.label : undefined;
    const failed = lists.some(list => list.label === label && list.error !== undefined);
    throw invalid(
      'tools',
      'approval_continuation_invalid_tool',
      failed
        ? `The MCP server "${label}" of the approved call cannot be reached. Nothing ran. Send the approval again later.`
        : `'tools' does not include the tool of the approved call: "${wanted?.name ?? call?.name}" of the MCP server "${label}". Send the same MCP server as in the request that asked for approval.`,
    );
  }
}

/** Applies a response's limit of tool calls to the calls that its request approves: the others get errors as results. */
function limitApprovals(callAnswers: readonly CallAnswer[], most: number) {
  const approved = callAnswers.flatMap(({ open, answer }) =>
    answer.type === 'approve' ? [open.callId] : [],
  );
  const over = approved.slice(most);
  const output = `Not run: the call was approved, but the response's limit of ${most} tool calls is reached.`;
  const limited = callAnswers.map(({ open, answer }): CallAnswer => {
    const isOver = over.includes(open.callId);
    return { open, answer: isOver ? { type: 'result', output, isError: true } : answer };
  });
  const left = Math.max(0, most - approved.length);
  return { limited, left, overBudget: over.length > 0 ? over : undefined };
}

/** As the client made it, before the limit. Nothing for a call in doubt. */
function decisionOf({ open: { kind, callId }, answer }: CallAnswer): ResponseSpec['decisions'] {
  if (kind === 'doubt') return [];
  if (kind === 'result') return [{ type: 'output', callId }];
  return [{ type: 'approval', callId, approve: answer.type === 'approve' }];
}

/** The tools that items of the conversation declare, except those that the request declares itself. */
function toolsAddedBy(
  plan: Exclude<Plan, { type: 'repeat' }>,
  { tools }: Pick<RecordedRequest, 'tools'>,
): Partial<Pick<RecordedRequest, 'addedTools'>> {
  const before = plan.type === 'start' ? plan.continues : plan.run;
  const added = [
    ...(before?.spans.at(-1)?.spec.request.addedTools ?? []),
    ...declarationsIn(plan).flatMap(list => readDeclarations(list, 'input')),
  ];
  const known = new Map(added.flatMap(clientTools).map(tool => [keyOf(tool), loaded(tool)]));
  for (const tool of tools.flatMap(clientTools)) known.delete(keyOf(tool));
  return known.size === 0 ? {} : { addedTools: [...known.values()] };
}

/** OpenAI's API reads updates of the configuration itself. */
function settingsAfter(
  plan: Exclude<Plan, { type: 'repeat' }>,
  { settings }: RecordedRequest,
  provider: string,
): Partial<Pick<RecordedRequest, 'settings'>> {
  if (provider === OPENAI) return {};
  const items = plan.type === 'start' ? plan.items : [...plan.run.state.context.transcript, ...plan.messages];
  const reasoningEffort = effortAfter(items);
  return reasoningEffort === undefined ? {} : { settings: { ...settings, reasoningEffort } };
}

function keyOf({ name, namespace }: ClientTool): string {
  return JSON.stringify([namespace, name]);
}

/** The model sees it where the item is, so nothing has to find it. */
function loaded({ tool, namespace }: ClientTool): RequestTool {
  if (tool.type !== 'function' && tool.type !== 'custom') return tool;
  const { defer_loading: _, ...seen } = tool;
  return namespace === undefined ? seen : { type: 'namespace', name: namespace, tools: [seen] };
}

/** The lists of tools in the new items: of those that add them, and of what searches found. */
function declarationsIn(plan: Exclude<Plan, { type: 'repeat' }>): (JsonValue | undefined)[] {
  const items = plan.type === 'start' ? plan.items : plan.messages;
  const searches = new Set(
    items.flatMap(item => (item.type === 'tool_call' && isSearch(item, plan) ? [item.callId] : [])),
  );
  const lists = items.map(item => {
    if (item.type === 'provider_item') return objectOf(objectOf(item.opaque.data).item).tools;
    return item.type === 'tool_result' && searches.has(item.callId) ? objectOf(item.output).tools : undefined;
  });
  const found = (plan.type === 'start' ? [] : plan.callAnswers).map(({ open, answer }) =>
    answer.type === 'result' &&
    plan.type === 'continue' &&
    callTypeFor(plan.run.tools.of(open.callId)) === 'tool_search_call'
      ? objectOf(toJson(answer.output)).tools
      : undefined,
  );
  return [...lists, ...found];
}

function isSearch({ callId, opaque }: ToolCallItem, plan: Plan): boolean {
  const origin = plan.type === 'start' ? plan.origins.get(callId) : undefined;
  return (objectOf(opaque?.data).as ?? callTypeFor(origin?.tool)) === 'tool_search_call';
}

function usedIn(plan: Plan): Exposed {
  switch (plan.type) {
    case 'repeat':
      return {};
    case 'continue':
      return plan.run.tools.used;
    case 'start': {
      const { continues, items, origins } = plan;
      const used: Exposed = { ...continues?.tools.used };
      for (const item of items) {
        if (item.type !== 'tool_call') continue;
        const { callId, name } = item;
        const origin = origins.get(callId) ?? { tool: { kind: 'function', name }, modelName: name };
        if (origin.modelName !== undefined) used[origin.modelName] ??= origin.tool;
      }
      return used;
    }
  }
}

/** Names calls as their tools are named now, so that they pass for no others; else `mcp_LABEL_NAME`. */
function nameCalls(
  items: readonly Item[],
  origins: ReadonlyMap<string, CallOrigin>,
  known: { exposed: Exposed; used: Exposed; provider: string },
): Item[] {
  return items.map(item => {
    const origin = item.type === 'tool_call' ? origins.get(item.callId) : undefined;
    return item.type === 'tool_call' && origin !== undefined
      ? { ...markCall(item, origin, known.provider), name: nameNow(origin, item.name, known) }
      : item;
  });
}

/** A call of a model that had the tool as a plain function, as the adapter of OpenAI's API would have kept it. */
function markCall(item: ToolCallItem, { tool }: CallOrigin, provider: string): ToolCallItem {
  if (provider !== OPENAI || item.opaque?.provider === OPENAI || !isClientTool(tool)) return item;
  const as = callTypeFor(tool);
  const { namespace } = tool;
  if (as === 'function_call' && namespace === undefined) return item;
  const data = { as, ...(namespace === undefined ? {} : { namespace, called: tool.name }) };
  return { ...item, opaque: { provider: OPENAI, data } };
}

function nameNow(
  { tool, modelName }: CallOrigin,
  name: string,
  { exposed, used }: { exposed: Exposed; used: Exposed },
): string {
  if (!isServerTool(tool)) return modelNameOf(exposed, { name: tool.name, namespace: namespaceOf(tool) });
  const [current] =
    Object.entries(exposed).find(
      ([, other]) => isServerTool(other) && other.label === tool.label && other.name === tool.name,
    ) ?? [];
  if (current !== undefined) return current;
  const isTaken = (toolNamed(exposed, name) ?? toolNamed(used, name)) !== undefined;
  return modelName === undefined && isTaken ? `mcp_${tool.label}_${tool.name}` : name;
}

/**
 * Submits a request's note, decisions, results and messages to a run, in one append: no crash leaves a request without
 * its effects. A command that is refused because its call was already decided is left out, and the rest is submitted
 * again, unless `onRefusal` throws. Throws a `ResponsesError` if the run refuses the messages.
 */
async function submitCommands(
  run: Run,
  request: {
    /** Not appended if the run refuses all commands. */
    note: JsonValue;
    callAnswers: readonly CallAnswer[];
    messages: readonly Item[];
    limits: { toolCalls: number; turns: number };
    caller: Caller;
  },
  onRefusal: () => Promise<void>,
): Promise<void> {
  const { note, callAnswers, messages, limits, caller } = request;
  const as = personOf(caller) ?? { name: RESPONSES };
  const noted: RunCommand = { type: 'note', note, by: RESPONSES };
  let left: RunCommand[] = [
    { type: 'set-params', params: { limits }, as },
    ...callAnswers.map(({ open, answer }) => ({ ...commandFor(open, answer), as })),
    ...(messages.length === 0 ? [] : [{ type: 'send', message: messages, as } as const]),
  ];
  while (left.length > 0) {
    const hasSeveral = left.filter(({ type }) => type !== 'set-params').length > 1;
    const commands = [noted, ...(hasSeveral && !run.context.paused ? [PAUSE, ...left, UNPAUSE] : left)];
    const result = await run.submit(commands);
    if (result.accepted) return;
    await onRefusal();
    const refused = commands[result.index];
    const hasEnded = result.code === 'run-ended';
    if (refused?.type === 'send' || (hasEnded && messages.length > 0))
      throw new ResponsesError(result.message, { status: 409, code: 'run_moved_on', param: 'input' });
    if (hasEnded) return;
    left = left.filter(command => command !== refused);
  }
}

/** Around commands, so that the run acts only after all of them. Not used if a person paused the run. */
const PAUSE: RunCommand = { type: 'pause', by: RESPONSES };
const UNPAUSE: RunCommand = { type: 'unpause', by: RESPONSES };
