import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { StartOptions } from '../../agent/begin-journal.ts';
import type { RunHappening } from '../../engine/events/run-events.ts';
import type { DriveWatcher } from '../../engine/events/watch-drive.ts';
import type { RecordedEvent, RecordedRun } from '../../engine/replay/record-run.ts';
import type { Run } from '../../engine/run/run.ts';
import { narrowLimits } from '../../engine/sub-agents/sub-agent-runs.ts';
import type { Call } from '../../machines/context.ts';
import { hasEnded, isAtRest } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { DEFAULT_LIMITS, type Limits, type RunConfig } from '../../protocol/config.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import { InDoubt, messageOf } from '../../protocol/error.ts';
import { callsOf } from '../../protocol/event.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { Store } from '../../protocol/store.ts';
import type { SideEffect, Tool, ToolCallContext } from '../../protocol/tool.ts';
import { SEARCH_TOOL } from '../../tools/search-tools.ts';
import { asOutcome, HAND_OFF, handOffTool } from './hand-off-tool.ts';
import { backgroundTool, PlayedWork } from './played-work.ts';
import { type OutcomeEvent, type RecordedInput, repeatInput } from './repeat-input.ts';
import { MODEL, Stage, StageHost, sourceOf } from './stage.ts';

/** What plays a recorded run, and as which run. */
type FollowingOptions = {
  agent: Agent;
  /** The agent's tools, by name, with those of its tool servers. */
  tools: ReadonlyMap<string, Tool>;
  /** Where it is played: the store has the runs that the recorded one continues. */
  store: Store;
  /** Whether the recorded run rests now because people paused it. */
  endsPaused: boolean;
  runId: string;
  labels: Labels;
  title: string;
  /** Default: the agent's. */
  model?: ModelAdapter | undefined;
  /** Tools without side effects, whose calls are executed where the recording has no result. */
  executes?: ReadonlySet<string> | undefined;
  signal?: AbortSignal | undefined;
};

/**
 * How far a played run came. `seq`: the last entry before the player ended it. `refused`: why what a person did by hand
 * cannot be repeated.
 */
export type FollowedRun = { seq: number; refused?: string };

/**
 * Plays a recorded run on an agent: its model answers, and people, clients and tools do what is recorded. Resolves once the
 * run has ended, or waits for what the recording does not have; then it is cancelled, so that no process continues it.
 * Rejects with the errors of `agent.start`, and those of the store.
 *
 * P1 No tool and no agent below is reached. A call gets the result of an equal recorded call (tool, and input as the tool
 *    reads it), in any order within the run, each result once. A `none` tool gives its last result again.
 * P2 A call without such a result gets none: a `once` call is in doubt, others stay open, and so does one whose equal call
 *    had no outcome either. The run goes no further.
 * P3 A decision, an answer or a resolution goes to the equal call. Without one, the run goes no further. What people
 *    answered a tool goes to an equal question of that call, however the questions are grouped, or of an executed call
 *    of that tool.
 * P4 Messages, edits and whatever else people did come once as many turns are complete as in the recording; the model's
 *    next turn waits for them.
 * P5 The clock stands at the time of the recording, so that approvals expire as they did. After a failure, the model is
 *    called again when the time of its back-off has really passed.
 */
export async function followRecording(
  recorded: RecordedRun,
  options: FollowingOptions,
): Promise<FollowedRun> {
  const { input, stream, paused, continues, by, runContext, config, at } = recorded.started;
  const { holdsAtEnd } = config;
  const { agent, tools, store, endsPaused, runId, labels, title, signal, executes } = options;
  const host = new StageHost({ now: at, name: 'played_' });
  const stage = new Stage<Fulfilment>();
  const stop = new AbortController();
  const rest = optionsToPlay(agent, recorded);
  const models = [options.model ?? rest.model ?? []].flat();
  const isSearched = [...tools.values()].some(({ deferred }) => deferred === true);
  const own = [...tools.values()].filter(({ name }) => !(isSearched && name === SEARCH_TOOL));
  const work = new PlayedWork(store, runId, (callId, from) => stage.request(sourceOf(callId), from));
  const played = createAgent({
    ...rest,
    ...work.options,
    host,
    model: models.map(model => awaitPlayer(model, stage)),
    forkModels: [],
    watchers: [notifyOfEntries(stage)],
    tools: own.map(tool => {
      if (tool.answers === 'directly' && tool.subAgent !== undefined)
        return handOffTool(tool, models[0], async signal => {
          const outcome = await stage.request(HAND_OFF, signal);
          return outcome !== 'go' && outcome.type === 'tool.settled' ? outcome : undefined;
        });
      if (tool.background === true && tool.subAgent !== undefined) return backgroundTool(tool, models[0]);
      return playedTool(tool, recorded, async (context, input) => {
        const outcome = await stage.request(sourceOf(context.callId), context.signal);
        if (outcome === 'go') return await tool.run?.(input, context);
        if (outcome.type !== 'tool.suspended') return repeatOutcome(outcome);
        throw new Error(`Call ${context.callId} does not work in the background.`);
      });
    }),
  });
  const given = { stream, paused, continues, by, runContext, holdsAtEnd };
  const run = await played.start(input, {
    runId,
    labels,
    title,
    signal: stop.signal,
    ...limitsToPlay(rest.limits, config),
    ...omitUndefined(given),
  });
  const parts = { run, host, stage, work, recorded, tools, endsPaused, executes };
  const player = new Player({ ...parts, signal: stop.signal });
  const abort = () => {
    work.end();
    stop.abort(signal?.reason);
    stage.notify();
  };
  signal?.addEventListener('abort', abort);
  try {
    if (signal?.aborted === true) abort();
    await player.play();
  } finally {
    signal?.removeEventListener('abort', abort);
  }
  await host.idle();
  const { seq } = run.durable;
  work.end();
  await run.cancel({ reason: 'the sample ends here' });
  await host.settle(run.settled());
  return { seq, ...omitUndefined({ refused: player.refused }) };
}

/** The options of the user's agent for a played run: without watchers, and with the recorded run context. */
export function optionsToPlay({ options }: Agent, { started }: RecordedRun): AgentOptions {
  const { watchers: _, makeSupervisor: __, callerRetries: ___, capture: ____, ...rest } = options;
  return started.runContext === undefined ? rest : { ...rest, runContext: AS_RECORDED };
}

/** The journal has what the agent's schema once made. */
const AS_RECORDED: StandardSchemaV1 = {
  '~standard': { version: 1, vendor: 'agentchart', validate: value => ({ value }) },
};

/** A run may have been started with narrower limits than its agent has. */
export function limitsToPlay(
  own: Partial<Limits> = {},
  { limits, onLimit }: RunConfig,
): Pick<StartOptions, 'limits' | 'onLimit'> {
  const agents = { ...DEFAULT_LIMITS, ...omitUndefined(own) };
  const narrowed = narrowLimits(agents, limits);
  return isDeepStrictEqual(narrowed, agents) ? {} : { limits: narrowed, onLimit };
}

/** `go`: a model may answer, and a tool may execute. */
type Fulfilment = 'go' | OutcomeEvent;

function notifyOfEntries(stage: Stage<Fulfilment>): DriveWatcher {
  const receive = (happening: RunHappening) => {
    if ('seq' in happening) stage.notify();
  };
  return { begin: () => ({ receive, end: async () => {} }) };
}

/** The model, whose calls wait until the player lets them. */
function awaitPlayer(model: ModelAdapter, stage: Stage<Fulfilment>): ModelAdapter {
  const { provider, model: name, capabilities } = model;
  return {
    provider,
    model: name,
    capabilities,
    async generate(request, options) {
      await stage.request(MODEL, options.signal);
      return await model.generate(request, options);
    },
    async *stream(request, options) {
      await stage.request(MODEL, options.signal);
      yield* model.stream(request, options);
    },
    ...(model.append && { append: model.append.bind(model) }),
    ...(model.promptedSchema && { promptedSchema: model.promptedSchema.bind(model) }),
    ...(model.countTokens && { countTokens: model.countTokens.bind(model) }),
    ...(model.compact && { compact: model.compact.bind(model) }),
  };
}

/**
 * A tool as the agent has it, except for what it does: `give` returns the result of a call. The results of a sub-agent come
 * from outside where they do in the recording. A result that was shortened when it was recorded is not shortened again.
 */
export function playedTool(
  tool: Tool,
  { tools }: RecordedRun,
  give: (context: ToolCallContext, input: unknown) => unknown,
): Tool {
  const { run, reconcile, subAgent, sees: _, timeoutMs: __, ...own } = tool;
  const rest = { ...own, maxResultBytes: Number.MAX_SAFE_INTEGER };
  const recorded = tools.find(({ name }) => name === tool.name);
  if (run === undefined || (subAgent !== undefined && recorded?.executedBy === 'client')) return rest;
  return {
    ...rest,
    retries: 0,
    ...(reconcile && { reconcile: () => ({ unknown: true as const }) }),
    run: (input, context) => give(context, input),
  };
}

/** Returns the recorded output of a call. Throws what it threw. */
export function repeatOutcome(event: Exclude<OutcomeEvent, { type: 'tool.suspended' }>): unknown {
  if (event.type === 'tool.doubted') throw new InDoubt(event.reason);
  if (!event.isError) return event.output;
  throw new Error(typeof event.output === 'string' ? event.output : JSON.stringify(event.output));
}

function sourceFor({ callId, answers }: Pick<Call, 'callId' | 'answers'>): string {
  return answers === 'directly' ? HAND_OFF : sourceOf(callId);
}

/** What people or clients gave a call, or its outcome, which its work in the background gave. */
type CallInput = Extract<RecordedInput, { callId: string }> | OutcomeOfWork;
type OutcomeOfWork = Extract<RecordedInput, { type: 'message.received' }> & { from: { callId: string } };

function callIdIn(event: RecordedEvent): string | undefined {
  if (event.type === 'message.received') return event.from?.callId;
  return 'callId' in event ? event.callId : undefined;
}

function isOfCall(event: RecordedEvent): event is OutcomeEvent | CallInput {
  return callIdIn(event) !== undefined;
}

/** What was recorded of a call, in order, or what is left of it for an equal call. */
type Due = { outcomes: OutcomeEvent[]; inputs: CallInput[] };

/** What equal calls give once more. */
function lastOf(equal: readonly Due[]): Due {
  const last = equal.at(-1)?.inputs ?? [];
  const outcomes = equal.flatMap(call => call.outcomes).slice(-1);
  return { outcomes, inputs: last.filter(({ type }) => type === 'message.received') };
}

const NOTHING: Due = { outcomes: [], inputs: [] };

/** A call that something may be given to. */
type OpenCall = Pick<Call, 'callId' | 'status' | 'answers'>;

type RecordedCall = Due & { name: string; sideEffect: SideEffect; isTaken: boolean };

type ScriptEvent =
  | RecordedInput
  | OutcomeEvent
  | Extract<RecordedEvent, { type: 'turn.completed' | 'timer.fired' }>;

type Answered = Extract<RecordedInput, { type: 'question.answered' }>;

/** The played run decides the rest itself. */
function isOfScript(event: RecordedEvent): event is ScriptEvent {
  switch (event.type) {
    case 'turn.failed':
    case 'transcript.compacted':
    case 'compaction.failed':
    case 'call.judged':
    case 'answer.checked':
    case 'answer.blocked':
    case 'review.requested':
    case 'question.asked':
      return false;
    default:
      return true;
  }
}

type PlayerParts = {
  run: Run;
  host: StageHost;
  stage: Stage<Fulfilment>;
  work: PlayedWork;
  recorded: RecordedRun;
  tools: ReadonlyMap<string, Tool>;
  endsPaused: boolean;
  executes: ReadonlySet<string> | undefined;
  signal: AbortSignal;
};

class Player {
  refused: string | undefined;
  readonly #parts: PlayerParts;
  readonly #recorded = new Map<string, RecordedCall>();
  /** The recorded calls by the keys of the inputs that they had. */
  readonly #byKey = new Map<string, Set<RecordedCall>>();
  /** By the call of the played run, for the input that it has. */
  readonly #dues = new Map<string, Due & { input: JsonValue; key: string; isCovered: boolean }>();
  readonly #events: readonly RecordedEvent[];
  readonly #script: ScriptEvent[];
  /** The answers of sub-agents to messages that were handed on to them. */
  readonly #handedOn: OutcomeEvent[] = [];
  /** The events of the script that were taken; what belongs to a call may still be due. */
  readonly #passed = new Set<ScriptEvent>();
  /** The calls that wait for an outcome which the recording does not have. */
  readonly #open = new Set<string>();
  readonly #reviews: RecordedInput[] = [];
  /** The digests of the questions that an event answers, by their keys. */
  readonly #asked = new Map<RecordedEvent, ReadonlyMap<string, string>>();
  /** How many turns of the script have passed. */
  #turns = 0;

  constructor(parts: PlayerParts) {
    this.#parts = parts;
    this.#events = parts.recorded.events.map(asOutcome);
    this.#script = this.#events.filter(isOfScript);
  }

  /** Plays until the run has ended, or needs what the recording does not have. */
  async play(): Promise<void> {
    const { run, stage, signal } = this.#parts;
    for (const event of this.#events) await this.#note(event);
    let failed: { error: unknown } | undefined;
    let rests: Promise<void> | undefined;
    // Held before the model is called: without a key its driver ends at once, and a later call would drive the run again.
    const settle = () =>
      run
        .settled()
        .then(
          () => {},
          error => {
            failed = { error };
          },
        )
        .finally(() => {
          rests = undefined;
        });
    while (this.refused === undefined) {
      signal.throwIfAborted();
      const changed = stage.changed();
      rests ??= settle();
      if (hasEnded(run.durable.state)) break;
      const isBusy = await this.#isBusy();
      if (failed !== undefined) throw failed.error;
      if (await this.#act(isBusy)) continue;
      if (!isBusy && this.#isStill(run.durable.state)) break;
      await Promise.race([changed, rests]);
    }
  }

  async #note(event: RecordedEvent): Promise<void> {
    for (const { callId, name, input, sideEffect } of callsOf(event)) {
      const call = this.#recorded.get(callId) ?? {
        name,
        sideEffect,
        outcomes: [],
        inputs: [],
        isTaken: false,
      };
      this.#recorded.set(callId, call);
      const key = await this.#keyOf(name, input);
      this.#byKey.set(key, (this.#byKey.get(key) ?? new Set()).add(call));
    }
    if (event.type === 'question.answered') {
      const asked = this.#events.findLast(
        one => one.type === 'question.asked' && one.callId === event.callId && one.digest === event.digest,
      );
      const questions = asked?.type === 'question.asked' ? asked.questions : [];
      this.#asked.set(event, new Map(questions.map(({ key, digest }) => [key, digest])));
    }
    if (!isOfScript(event) || !isOfCall(event)) return;
    const call = this.#recorded.get(callIdIn(event) ?? '');
    if (isOutcome(event)) {
      const isKept = event.type !== 'tool.doubted' || call?.sideEffect === 'once';
      if (isKept) (call?.outcomes ?? this.#handedOn).push(event);
    } else if (event.type === 'doubt.resolved' && call !== undefined && call.sideEffect !== 'once')
      call.outcomes.push(...outcomeIn(event));
    else call?.inputs.push(event);
  }

  async #keyOf(name: string, input: JsonValue): Promise<string> {
    return await keyAsRead(this.#parts.tools, name, input);
  }

  /** Does what comes next, if it can be done now. */
  async #act(isBusy: boolean): Promise<boolean> {
    for (const call of this.#parts.run.context.calls) await this.#assign(call);
    const canCome = (event: OutcomeEvent | CallInput) => !isBusy || event.type !== 'message.received';
    if (await this.#giveDues(event => this.#passed.has(event) && canCome(event))) return true;
    const [event] = this.#script;
    if (event !== undefined && (await this.#take(event, isBusy))) {
      this.#script.shift();
      this.#passed.add(event);
      return true;
    }
    return await this.#goOn(isBusy);
  }

  /** Gives a call of the played run what is recorded of an equal call. */
  async #assign({ callId, name, input, sideEffect, forwards, background }: Call): Promise<void> {
    const due = this.#dues.get(callId);
    if (forwards !== undefined && due === undefined) {
      const outcomes = this.#handedOn.splice(0, 1);
      this.#dues.set(callId, { input, key: forwards, isCovered: outcomes.length > 0, outcomes, inputs: [] });
    }
    if (forwards !== undefined) return;
    const isOpen = due !== undefined && due.outcomes.length + due.inputs.length > 0;
    if (isOpen || due?.input === input) return;
    const key = await this.#keyOf(name, input);
    if (due?.key === key) return;
    const equal = [...(this.#byKey.get(key) ?? [])];
    const free = equal.find(({ isTaken }) => !isTaken);
    if (free !== undefined) free.isTaken = true;
    const fits = ({ type }: OutcomeEvent | CallInput) =>
      background === true
        ? type !== 'tool.settled'
        : type !== 'tool.suspended' && type !== 'message.received';
    const known = free ?? (sideEffect === 'none' ? this.#othersFor(name, equal) : NOTHING);
    const outcomes = known.outcomes.filter(fits);
    this.#dues.set(callId, {
      input,
      key,
      isCovered: free !== undefined,
      outcomes,
      inputs: known.inputs.filter(fits),
    });
  }

  /** For a call without a result of its own: one that is executed may ask what calls of its tool were answered. */
  #othersFor(name: string, equal: readonly Due[]): Due {
    const { outcomes, inputs } = lastOf(equal);
    if (outcomes.length > 0 || this.#parts.executes?.has(name) !== true) return { outcomes, inputs };
    const answers = [...this.#recorded.values()]
      .filter(call => call.name === name)
      .flatMap(call => call.inputs.filter(({ type }) => type === 'question.answered'));
    return { outcomes, inputs: [...answers, ...inputs] };
  }

  /** Whether the next event of the script has passed; what belongs to a call that is not there yet stays with the call. */
  async #take(event: ScriptEvent, isBusy: boolean): Promise<boolean> {
    const { run } = this.#parts;
    if (event.type === 'turn.completed') {
      if (run.context.turns <= this.#turns) return false;
      this.#turns += 1;
      return true;
    }
    if (isOfCall(event)) {
      const call = this.#calls().find(one => this.#nextOf(one).includes(event));
      if (call === undefined) return true;
      if (isBusy && (event.type === 'message.received' || !this.#isReadyFor(call, event))) return false;
      this.#moveTo(event.at);
      await this.#give(call, event);
      return true;
    }
    if (isBusy) return false;
    if (event.type === 'timer.fired') {
      await this.#fireTimer(event.at);
      return true;
    }
    this.#moveTo(event.at);
    if (event.type === 'review.decided') {
      this.#reviews.push(event);
      await this.#decideReview();
    } else await this.#submit(event);
    return true;
  }

  /** What the played run needs beside the order of the recording. */
  async #goOn(isBusy: boolean): Promise<boolean> {
    const { run, stage, endsPaused } = this.#parts;
    if (await this.#giveDues(({ type }) => type !== 'message.received')) return true;
    if (await this.#decideReview()) return true;
    if (stage.has(MODEL)) {
      stage.fulfil(MODEL, 'go');
      return true;
    }
    const { value } = run.durable.state;
    if (value === 'backingOff') return await this.#waitForRetry();
    if (isPaused(value) && (this.#script.length > 0 || !endsPaused)) return (await run.unpause()).accepted;
    if (!isBusy && (await this.#giveDues())) return true;
    return !isBusy && run.context.calls.some(call => this.#isHeld(call) && this.#leaveOpen(call));
  }

  /** Whether something of the run is in progress, such as a guardrail, that ends without the player. */
  async #isBusy(): Promise<boolean> {
    const { run, host, stage } = this.#parts;
    const isBusy = () => {
      const { value, context } = run.durable.state;
      if (hasEnded(run.durable.state) || isResting(value) || value === 'backingOff') return false;
      if (value !== 'executingTools') return !stage.has(MODEL);
      const begun = context.calls.filter(({ status }) => status === 'running' || status === 'reconciling');
      return begun.length === 0 || begun.some(call => !this.#isHeld(call));
    };
    if (!isBusy()) return false;
    await host.idle();
    return isBusy();
  }

  #isHeld(call: OpenCall): boolean {
    return this.#parts.stage.has(sourceFor(call));
  }

  /** What is recorded of a call and was not given yet: its next outcome, and the next that people or clients gave. */
  #nextOf({ callId }: OpenCall): (OutcomeEvent | CallInput)[] {
    const { outcomes = [], inputs = [] } = this.#dues.get(callId) ?? {};
    const answers = inputs.findIndex(({ type }) => type !== 'question.answered');
    return [...outcomes.slice(0, 1), ...inputs.slice(0, answers < 0 ? inputs.length : answers + 1)];
  }

  /** Those of the current round, and those whose work in the background is open. */
  #calls(): OpenCall[] {
    const { calls, background } = this.#parts.run.context;
    const earlier = background.filter(work => calls.every(({ callId }) => callId !== work.callId));
    return [...calls, ...earlier.map(({ callId }) => ({ callId, status: 'settled' as const }))];
  }

  #isReadyFor(call: OpenCall, event: OutcomeEvent | CallInput): boolean {
    if (event.type === 'message.received') return this.#parts.work.isOpen(call.callId);
    if (event.type === 'question.answered') return this.#fitting(call, event).length > 0;
    return isOutcome(event) ? this.#isHeld(call) : isReadyFor(call, event);
  }

  /** The keys of open questions of the call that the event answers as they were asked. All must be declined, or none. */
  #fitting({ callId }: OpenCall, event: Answered): string[] {
    const call = this.#parts.run.context.calls.find(one => one.callId === callId);
    const open = call?.status === 'asking' ? (call.asked?.questions ?? []) : [];
    const digests = this.#asked.get(event);
    const fitting = open.filter(({ key, digest }) => key in event.answers && digests?.get(key) === digest);
    const given = fitting.filter(({ key }) => event.answers[key]?.type === 'given');
    if (given.length === 0 && fitting.length < open.length) return [];
    return (given.length > 0 ? given : fitting).map(({ key }) => key);
  }

  /** What the call does not ask yet stays due. */
  async #giveAnswers(call: OpenCall, event: Answered, inputs: CallInput[]): Promise<void> {
    const keys = new Set(this.#fitting(call, event));
    const all = Object.entries(event.answers);
    const rest = all.filter(([key]) => !keys.has(key));
    const left = { ...event, answers: Object.fromEntries(rest) };
    this.#asked.set(left, this.#asked.get(event) ?? new Map());
    if (this.#passed.has(event)) this.#passed.add(left);
    inputs.splice(inputs.indexOf(event), 1, ...(rest.length > 0 ? [left] : []));
    const answers = Object.fromEntries(all.filter(([key]) => keys.has(key)));
    await repeatInput(this.#parts.run, { ...event, answers, callId: call.callId }).catch(() => {});
  }

  /** Returns whether a call took what is due to it. A decision that the agent now refuses from this person leaves it open. */
  async #give(call: OpenCall, event: OutcomeEvent | CallInput): Promise<boolean> {
    if (!this.#isReadyFor(call, event)) return false;
    const { callId } = call;
    const { outcomes = [], inputs = [] } = this.#dues.get(callId) ?? {};
    if (isOutcome(event)) {
      outcomes.shift();
      this.#parts.stage.fulfil(sourceFor(call), event);
    } else if (event.type === 'question.answered') await this.#giveAnswers(call, event, inputs);
    else {
      inputs.splice(inputs.indexOf(event), 1);
      if (event.type === 'message.received') await this.#parts.work.deliver(event, callId);
      else await repeatInput(this.#parts.run, { ...event, callId }).catch(() => {});
    }
    return true;
  }

  async #giveDues(isWanted: (event: OutcomeEvent | CallInput) => boolean = () => true): Promise<boolean> {
    for (const call of this.#calls())
      for (const event of this.#nextOf(call))
        if (isWanted(event) && (await this.#give(call, event))) return true;
    return false;
  }

  async #decideReview(): Promise<boolean> {
    if (this.#parts.run.context.review === null) return false;
    const event = this.#reviews.shift();
    if (event !== undefined) await repeatInput(this.#parts.run, event).catch(() => {});
    return event !== undefined;
  }

  async #submit(event: RecordedInput): Promise<void> {
    const isEdit = event.type === 'transcript.edited' || event.type === 'turn.edited';
    await repeatInput(this.#parts.run, event).catch(error => {
      if (isEdit)
        this.refused = `A person changed the run by hand, which cannot be repeated: ${messageOf(error)}`;
    });
  }

  /** Returns whether the call was executed or put in doubt. */
  #leaveOpen(call: Call): boolean {
    const { callId, name, sideEffect, background } = call;
    const { stage, recorded } = this.#parts;
    const source = sourceFor(call);
    if (background !== true && this.#parts.executes?.has(name) === true) {
      stage.fulfil(source, 'go');
      return true;
    }
    this.#open.add(callId);
    // The recorded call has no outcome either. Work in the background does not begin.
    if (background === true || sideEffect !== 'once' || this.#dues.get(callId)?.isCovered === true)
      return false;
    const { at } = recorded.started;
    stage.fulfil(source, { type: 'tool.doubted', at, callId, reason: NO_RESULT });
    return true;
  }

  #moveTo(at: number): void {
    this.#parts.host.moveTo(Math.max(at, this.#parts.host.now()));
  }

  async #fireTimer(at: number): Promise<void> {
    const { run, host } = this.#parts;
    if (run.context.timer === null || !isAtRest(run.durable.state)) return;
    this.#moveTo(Math.max(at, run.context.timer));
    await host.advance(0);
  }

  async #waitForRetry(): Promise<boolean> {
    const { run, host, signal } = this.#parts;
    const { timer } = run.context;
    if (timer === null) return false;
    await sleep(Math.max(0, timer - host.now()), undefined, { signal });
    this.#moveTo(timer);
    await host.advance(0);
    return true;
  }

  /** Whether the run waits only for what the recording does not have. */
  #isStill({ value, context }: ChartState): boolean {
    if (value !== 'executingTools') return isResting(value);
    const running = context.calls.filter(({ status }) => status === 'running');
    return running.length > 0 && running.every(call => this.#isHeld(call) && this.#open.has(call.callId));
  }
}

const NO_RESULT = 'The recording has no result of an equal call. The call was not executed.';

/** Only `once` calls can come in doubt when they are played; others were, where a fork or another process had started them. */
function outcomeIn({
  at,
  callId,
  resolution,
}: Extract<CallInput, { type: 'doubt.resolved' }>): OutcomeEvent[] {
  if (resolution.type === 'retry') return [];
  const isError = resolution.type === 'failed';
  const output = isError ? resolution.reason : resolution.output;
  return [{ type: 'tool.settled', at, callId, output, isError }];
}

function isResting(value: ChartState['value']): value is Extract<typeof value, { resting: string }> {
  return typeof value === 'object' && 'resting' in value;
}

export function isPaused(value: ChartState['value']): boolean {
  return isResting(value) && value.resting === 'paused';
}

function isOutcome(event: RecordedEvent): event is OutcomeEvent {
  return event.type === 'tool.settled' || event.type === 'tool.doubted' || event.type === 'tool.suspended';
}

function isReadyFor({ status }: OpenCall, { type }: CallInput): boolean {
  if (type === 'approval.decided') return status === 'gated';
  if (type === 'result.received') return status === 'waiting';
  if (type === 'doubt.resolved') return status === 'doubted';
  return status === 'gated' || status === 'ready';
}

/** A key that calls have in common which their tool reads alike: with its defaults, without unknown members. */
export async function keyAsRead(
  tools: ReadonlyMap<string, Tool>,
  name: string,
  input: JsonValue,
): Promise<string> {
  const read = await tools.get(name)?.validate(input);
  try {
    return digestCall(name, read?.valid === true ? toJson(read.value) : input);
  } catch {
    return digestCall(name, input);
  }
}
