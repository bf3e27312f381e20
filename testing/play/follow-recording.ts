import { setTimeout as sleep } from 'node:timers/promises';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { RecordedEvent, RecordedRun } from '../../engine/replay/record-run.ts';
import type { Run } from '../../engine/run/run.ts';
import type { Call } from '../../machines/context.ts';
import { hasEnded, isAtRest } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import { InDoubt, messageOf } from '../../protocol/error.ts';
import { callsOf } from '../../protocol/event.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import { SEARCH_TOOL } from '../../tools/search-tools.ts';
import { type RecordedInput, repeatInput } from './repeat-input.ts';
import { MODEL, Stage, StageHost, sourceOf } from './stage.ts';

/** What plays a recorded run, and as which run. */
type FollowingOptions = {
  agent: Agent;
  /** The agent's tools, by name, with those of its tool servers. */
  tools: ReadonlyMap<string, Tool>;
  /** Where it is played: the store has the runs that the recorded one continues. */
  store: Store;
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
 * How far a played run came. `seq`: the last entry before the player ended it. `uncovered`: the calls that had no result
 * in the recording. `refused`: why what a person did by hand cannot be repeated.
 */
export type FollowedRun = { seq: number; uncovered: string[]; refused?: string };

/**
 * Plays a recorded run on an agent: its model answers, and people, clients and tools do what is recorded. Resolves once the
 * run has ended, or waits for what the recording does not have; then it is cancelled, so that no process continues it.
 * Rejects with the errors of `agent.start`, and those of the store.
 *
 * P1 No tool and no agent below is reached. A call gets the result of an equal recorded call (tool, and input as the tool
 *    reads it), in any order within the run, each result once. A `none` tool gives its last result again.
 * P2 A call without such a result gets none: a `once` call is in doubt, others stay open. The run goes no further.
 * P3 A decision, an answer or a resolution goes to the equal call. Without one, the run goes no further.
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
  const { agent, tools, store, runId, labels, title, signal, executes } = options;
  const host = new StageHost({ now: at, name: 'played_' });
  const stage = new Stage<Fulfilment>();
  const { watchers: _, makeSupervisor: __, callerRetries: ___, capture: ____, ...rest } = agent.options;
  const models = [options.model ?? rest.model ?? []].flat();
  const isSearched = [...tools.values()].some(({ deferred }) => deferred === true);
  const own = [...tools.values()].filter(({ name }) => !(isSearched && name === SEARCH_TOOL));
  const played = createAgent({
    ...rest,
    host,
    store,
    model: models.map(model => awaitPlayer(model, stage)),
    forkModels: [],
    tools: own.map(tool =>
      playedTool(tool, recorded, async (context, input) => {
        const outcome = await stage.request(sourceOf(context.callId), context.signal);
        return outcome === 'go' ? await tool.run?.(input, context) : repeatOutcome(outcome);
      }),
    ),
  });
  const given = { stream, paused, continues, by, runContext, signal, holdsAtEnd: config.holdsAtEnd };
  const run = await played.start(input, { runId, labels, title, ...omitUndefined(given) });
  const player = new Player({ run, host, stage, recorded, tools, executes, signal });
  await player.play();
  await host.idle();
  const { seq } = run.durable;
  await run.cancel({ reason: 'the sample ends here' });
  await host.settle(run.settled());
  return { seq, uncovered: [...player.uncovered], ...omitUndefined({ refused: player.refused }) };
}

/** `go`: a model may answer, and a tool may execute. */
type Fulfilment = 'go' | Outcome;
type Outcome = Extract<RecordedEvent, { type: 'tool.settled' | 'tool.doubted' }>;

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
 * from outside where they do in the recording.
 */
export function playedTool(
  tool: Tool,
  { tools }: RecordedRun,
  give: (context: ToolCallContext, input: unknown) => unknown,
): Tool {
  const { run, reconcile, subAgent, sees: _, timeoutMs: __, ...rest } = tool;
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
export function repeatOutcome(event: Outcome): unknown {
  if (event.type === 'tool.doubted') throw new InDoubt(event.reason);
  if (!event.isError) return event.output;
  throw new Error(typeof event.output === 'string' ? event.output : JSON.stringify(event.output));
}

type CallInput = Extract<RecordedInput, { callId: string }>;

/** What was recorded of a call, in order, or what is left of it for an equal call. */
type Due = { outcomes: Outcome[]; inputs: CallInput[] };

/** `keys`: of the inputs that it had. */
type RecordedCall = Due & { keys: Set<string>; isTaken: boolean };

type ScriptEvent =
  | RecordedInput
  | Outcome
  | Extract<RecordedEvent, { type: 'turn.completed' | 'timer.fired' }>;

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
      return false;
    default:
      return true;
  }
}

type PlayerParts = {
  run: Run;
  host: StageHost;
  stage: Stage<Fulfilment>;
  recorded: RecordedRun;
  tools: ReadonlyMap<string, Tool>;
  executes: ReadonlySet<string> | undefined;
  signal: AbortSignal | undefined;
};

class Player {
  readonly uncovered = new Set<string>();
  refused: string | undefined;
  readonly #parts: PlayerParts;
  readonly #recorded = new Map<string, RecordedCall>();
  /** By the call of the played run. */
  readonly #dues = new Map<string, Due & { key: string }>();
  readonly #script: ScriptEvent[];
  readonly #reviews: RecordedInput[] = [];
  readonly #endsPaused: boolean;
  /** How many turns of the script have passed. */
  #turns = 0;

  constructor(parts: PlayerParts) {
    const { events, started } = parts.recorded;
    this.#parts = parts;
    this.#script = events.filter(isOfScript);
    const last = events.findLast(({ type }) => type === 'pause.requested' || type === 'run.unpaused');
    this.#endsPaused = last === undefined ? started.paused === true : last.type === 'pause.requested';
  }

  /** Plays until the run has ended, or nothing in the recording lets it go on. */
  async play(): Promise<void> {
    const { run, stage, recorded, signal } = this.#parts;
    for (const event of recorded.events) await this.#note(event);
    while (this.refused === undefined) {
      signal?.throwIfAborted();
      const changed = stage.changed();
      const rests = run.settled();
      const { state } = run.durable;
      if (hasEnded(state)) break;
      if ((await this.#act()) || run.durable.state !== state) continue;
      if (this.#isStill(state)) break;
      await Promise.race([changed, rests]);
    }
  }

  async #note(event: RecordedEvent): Promise<void> {
    for (const { callId, name, input } of callsOf(event)) {
      const known = this.#recorded.get(callId);
      const call = known ?? { keys: new Set<string>(), outcomes: [], inputs: [], isTaken: false };
      call.keys.add(await this.#keyOf(name, input));
      this.#recorded.set(callId, call);
    }
    if (!('callId' in event)) return;
    const call = this.#recorded.get(event.callId);
    if (event.type === 'tool.settled' || event.type === 'tool.doubted') call?.outcomes.push(event);
    else if (event.type !== 'call.judged') call?.inputs.push(event);
  }

  async #keyOf(name: string, input: JsonValue): Promise<string> {
    return await keyAsRead(this.#parts.tools, name, input);
  }

  /** Does what comes next, if it can be done now. */
  async #act(): Promise<boolean> {
    for (const call of this.#parts.run.context.calls) await this.#assign(call);
    const [event] = this.#script;
    if (event !== undefined && (await this.#take(event))) {
      this.#script.shift();
      return true;
    }
    return await this.#goOn();
  }

  /** Gives a call of the played run what is recorded of an equal call. */
  async #assign({ callId, name, input, sideEffect }: Call): Promise<void> {
    const due = this.#dues.get(callId);
    const isOpen = due !== undefined && due.outcomes.length + due.inputs.length > 0;
    if (isOpen) return;
    const key = await this.#keyOf(name, input);
    if (due?.key === key) return;
    const equal = [...this.#recorded.values()].filter(({ keys }) => keys.has(key));
    const free = equal.find(({ isTaken }) => !isTaken);
    if (free !== undefined) {
      free.isTaken = true;
      this.#dues.set(callId, { key, outcomes: [...free.outcomes], inputs: [...free.inputs] });
      return;
    }
    const again = sideEffect === 'none' ? equal.flatMap(({ outcomes }) => outcomes).slice(-1) : [];
    this.#dues.set(callId, { key, outcomes: again, inputs: [] });
  }

  /** Whether the next event of the script has passed; what belongs to a call that is not there yet stays with the call. */
  async #take(event: ScriptEvent): Promise<boolean> {
    const { run, host } = this.#parts;
    switch (event.type) {
      case 'turn.completed':
        if (run.context.turns <= this.#turns) return false;
        this.#turns += 1;
        return true;
      case 'tool.settled':
      case 'tool.doubted': {
        const call = run.context.calls.find(({ callId }) => this.#dues.get(callId)?.outcomes[0] === event);
        if (call === undefined) return true;
        if (!this.#isHeld(call)) await host.idle();
        this.#moveTo(event.at);
        this.#giveOutcome(call);
        return true;
      }
      case 'timer.fired':
        await this.#fireTimer(event.at);
        return true;
      case 'review.decided':
        this.#reviews.push(event);
        this.#moveTo(event.at);
        await this.#decideReview();
        return true;
      default:
    }
    if ('callId' in event) {
      const call = run.context.calls.find(({ callId }) => this.#dues.get(callId)?.inputs[0] === event);
      if (call === undefined) return true;
      if (!isReadyFor(call, event)) await host.idle();
      this.#moveTo(event.at);
      await this.#giveInput(call);
    } else {
      await host.idle();
      this.#moveTo(event.at);
      await this.#submit(event);
    }
    return true;
  }

  /** What the played run needs beside the order of the recording. */
  async #goOn(): Promise<boolean> {
    const { run, host, stage } = this.#parts;
    for (const call of run.context.calls)
      if (this.#giveOutcome(call) || (await this.#giveInput(call))) return true;
    if (await this.#decideReview()) return true;
    if (stage.has(MODEL)) {
      stage.fulfil(MODEL, 'go');
      return true;
    }
    const { value } = run.durable.state;
    if (value === 'backingOff') return await this.#waitForRetry();
    if (isPaused(value) && (this.#script.length > 0 || !this.#endsPaused))
      return (await run.unpause()).accepted;
    for (const call of run.context.calls) if (this.#isHeld(call) && this.#leaveOpen(call)) return true;
    await host.idle();
    return run.context.calls.some(call => this.#isDue(call)) || stage.has(MODEL);
  }

  #isHeld({ callId }: Call): boolean {
    return this.#parts.stage.has(sourceOf(callId));
  }

  #isDue(call: Call): boolean {
    return this.#isHeld(call) && (this.#dues.get(call.callId)?.outcomes.length ?? 0) > 0;
  }

  #giveOutcome(call: Call): boolean {
    if (!this.#isDue(call)) return false;
    const outcome = this.#dues.get(call.callId)?.outcomes.shift();
    if (outcome !== undefined) this.#parts.stage.fulfil(sourceOf(call.callId), outcome);
    return true;
  }

  /** A decision that the agent now refuses from this person leaves the call open. */
  async #giveInput(call: Call): Promise<boolean> {
    const due = this.#dues.get(call.callId);
    const [event] = due?.inputs ?? [];
    if (event === undefined || !isReadyFor(call, event)) return false;
    due?.inputs.shift();
    await repeatInput(this.#parts.run, { ...event, callId: call.callId }).catch(() => {});
    return true;
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

  /** Returns whether the run goes on. */
  #leaveOpen({ callId, name, sideEffect }: Call): boolean {
    const { stage, recorded } = this.#parts;
    const source = sourceOf(callId);
    if (this.#parts.executes?.has(name) === true) {
      stage.fulfil(source, 'go');
      return true;
    }
    this.uncovered.add(callId);
    if (sideEffect !== 'once') return false;
    const { at } = recorded.started;
    stage.fulfil(source, { type: 'tool.doubted', at, callId, reason: NO_RESULT });
    return true;
  }

  #moveTo(at: number): void {
    this.#parts.host.moveTo(Math.max(at, this.#parts.host.now()));
  }

  async #fireTimer(at: number): Promise<void> {
    const { run, host } = this.#parts;
    await host.idle();
    if (run.context.timer === null || !isAtRest(run.durable.state)) return;
    this.#moveTo(Math.max(at, run.context.timer));
    await host.advance(0);
  }

  async #waitForRetry(): Promise<boolean> {
    const { run, host, signal } = this.#parts;
    const { timer } = run.context;
    if (timer === null) return false;
    await sleep(Math.max(0, timer - host.now()), undefined, omitUndefined({ signal }));
    this.#moveTo(timer);
    await host.advance(0);
    return true;
  }

  /** Whether the run waits only for what the recording does not have. */
  #isStill({ value, context }: ChartState): boolean {
    if (value !== 'executingTools') return typeof value === 'object' && 'resting' in value;
    const running = context.calls.filter(({ status }) => status === 'running');
    return running.length > 0 && running.every(call => this.#isHeld(call) && this.uncovered.has(call.callId));
  }
}

const NO_RESULT = 'The recording has no result of an equal call. The call was not executed.';

function isPaused(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'resting' in value && value.resting === 'paused';
}

function isReadyFor({ status }: Call, { type }: CallInput): boolean {
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
