import type { Context } from '../../machines/context.ts';
import { historyIn } from '../../machines/history.ts';
import { hasEnded } from '../../machines/status.ts';
import { initial } from '../../machines/step.ts';
import type { RunParams } from '../../protocol/config.ts';
import type { Breakpoint } from '../../protocol/debugger/breakpoint.ts';
import type { RunStarted } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type {
  AnswerOptions,
  ApproveOptions,
  CancelOptions,
  CommandOptions,
  ContinueOptions,
  EditCallOptions,
  EditTurnOptions,
  RejectOptions,
  Resolution,
  RetryOptions,
  RunCommand,
  YieldOptions,
} from '../../protocol/run-command.ts';
import type { ThreadPlace } from '../../protocol/store.ts';
import type { AgentTool } from '../../protocol/tool.ts';
import { drivesOf } from '../driver/drives.ts';
import type { RunOptions, RunSupervisor } from '../driver/run-options.ts';
import { Supervisor } from '../driver/supervisor.ts';
import {
  type BatchOptions,
  type EventSource,
  readBatches,
  readEvents,
  type StoryBatchOptions,
  type StoryReadOptions,
} from '../events/read-events.ts';
import { RunEvents, type RunHappening } from '../events/run-events.ts';
import { SharedPages } from '../events/shared-pages.ts';
import { followText } from '../events/shared-text.ts';
import { momentOf, POLL_MS, sleep } from '../host/host.ts';
import { type Fold, type LoadedRun, makeImage, standingOf, wordsFor } from '../journal/load-run.ts';
import { readPage } from '../journal/read-journal.ts';
import { readRecordedResult } from '../journal/recorded-calls.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import type { Command, MakeCommand } from '../log/command.ts';
import { type CommandResult, type Refusal, type SubmitResult, withoutIndex } from '../log/refusal.ts';
import { RunLog } from '../log/run-log.ts';
import type { Settled } from '../log/settled.ts';
import { FamilyStory, oneByOne } from '../story/family-story.ts';
import { tellHappenings, textsIn } from '../story/read-story.ts';
import type { StoryEvent } from '../story/tell-story.ts';
import { Children, endRun } from '../sub-agents/children.ts';
import { relayForResting } from '../sub-agents/relay-answer.ts';
import type { RunHandle } from '../sub-agents/sub-agent-runs.ts';
import { CallRouter } from './call-router.ts';
import { editTranscript, retryCall } from './edits.ts';
import type { CheckCommands } from './forks/fork-run.ts';
import { type ForkOptions, forkRun } from './forks/fork-run.ts';
import {
  type AnswerOf,
  type CallReference,
  commandOf,
  type InputOf,
  knownCommands,
  knownOptions,
  referTo,
} from './known-commands.ts';
import { boundInput, prepareCommand, prepareCommands, refuseLive } from './prepare-command.ts';

export type { RunHappening } from '../events/run-events.ts';

/**
 * A handle on one run: this process drives it, follows another process that does, or holds it at rest.
 *
 * Command methods (`approve`, `send`, `pause` …) resolve once the command is durable or refused, with
 * `{ accepted: true }` (with `stranded` if no process can drive the run now) or a refusal that says why and who decided
 * first. A decision about a call of a sub-agent goes to the sub-agent's run.
 *
 * R1 At most one process drives the run. Inputs go to the driver in this process, or else directly to the journal.
 * R2 `settled()` drives the run if no other process does. It rejects for errors of the store and defects of the
 *    engine; a failed run is a result.
 * R3 If driving fails in this process, `settled()` and the iterators that read until the run settles reject. With
 *    `follow`, an iterator waits for another process to continue.
 * R4 A process that holds a resting run wakes it when an approval expires. This timer does not keep the process alive.
 * R5 A process that lost its lease claims the run again if it is free and follows it otherwise. The events name the
 *    driver (`run.claimed`; `replaces` names the previous one if its lease was taken over).
 */
export class Run<Tools = AgentTool, Output = unknown> implements RunHandle {
  readonly id: string;
  readonly #options: RunOptions;
  readonly #blobs: RunBlobs;
  readonly #children: Children;
  readonly #router: CallRouter;
  readonly #log: RunLog;
  readonly #supervisor: RunSupervisor;
  readonly #source: EventSource;

  private constructor(options: RunOptions, loaded: LoadedRun, inherited: readonly Item[] | undefined) {
    this.id = options.runId;
    this.#options = options;
    this.#blobs = new RunBlobs(options);
    const children = new Children(options);
    const events = new RunEvents(this.id, loaded.seq);
    const log = new RunLog(options, this.id, loaded, events);
    this.#log = log;
    const parts = { options, log, events, children, loaded, inherited };
    const supervisor = options.makeSupervisor?.(parts) ?? new Supervisor(parts);
    this.#supervisor = supervisor;
    this.#children = children;
    this.#router = new CallRouter(options, children);
    const { runId, store, host } = options;
    const isFollowing = () => supervisor.driver === null && supervisor.activity === 'running';
    const followDriver = followText({ ...options, events, isFollowing });
    const refresh = () => supervisor.refresh();
    const read = (after: number) => readPage(store, runId, after);
    const pages = new SharedPages({ runId, read, refresh, isShared: () => events.readers > 1 });
    const answers = relayForResting({ ...options, children, events });
    events.dropShared = () => {
      pages.clear();
      answers.end();
    };
    this.#source = {
      runId,
      events,
      lastSeq: () => log.durable.seq,
      readPage: after => pages.readAfter(after, log.durable.seq),
      activity: () => supervisor.activity,
      failure: () => supervisor.failure,
      refresh: () => refresh().then(followDriver),
      nap: () => {
        void answers.look(log.durable.state.context);
        return sleep(host, POLL_MS);
      },
    };
  }

  /**
   * A handle on an existing run. `inherited`: the cached transcript of the runs that it continues.
   * @internal
   */
  static attach<Tools, Output>(
    options: RunOptions,
    loaded: LoadedRun,
    inherited?: readonly Item[],
  ): Run<Tools, Output> {
    const past = loaded.inherited && historyIn(loaded.inherited);
    const how = past === undefined ? options : { ...options, loadPast: async () => past };
    const run = new Run<Tools, Output>(how, loaded, inherited);
    run.#supervisor.wakeAtExpiry();
    return run;
  }

  /**
   * Creates a run in its store, claimed if the store grants leases, and starts driving it. Rejects with `run-exists`, and
   * with `changedThread` if it cannot take its place.
   * @internal
   */
  static async begin<Tools, Output>(
    options: RunOptions,
    started: RunStarted,
    inherited: readonly Item[],
    place?: ThreadPlace,
  ): Promise<Run<Tools, Output>> {
    const { store, host, owner, isDead, leaseMs } = options;
    const { state } = initial(started);
    const leasedAt = momentOf(host);
    const drives = drivesOf(store);
    const create = async () => {
      host.reach?.('create.before');
      const claim = drives.isDraining ? undefined : { owner, isDead, leaseMs, now: leasedAt.wall };
      const rest = {
        events: [],
        ...standingOf(state),
        ...wordsFor([started]),
        ...omitUndefined({ place }),
      };
      const { epoch, seq } = await store.create(started, claim, rest);
      host.reach?.('create.after');
      const run = new Run<Tools, Output>(options, { state, seq, redactions: 0, snapshotSeq: 0 }, inherited);
      run.#supervisor.begin(epoch, leasedAt, inherited);
      return run;
    };
    return await drives.claiming(create());
  }

  /**
   * Waits until the run rests or has ended, and drives it if no other process does.
   *
   * @example
   * const settled = await run.settled();
   * if (settled.status === 'waiting') {
   *   for (const call of settled.approvals) await run.approve(call, { by: 'ann' });
   * }
   */
  async settled(): Promise<Settled<Tools, Output>> {
    return (await this.#supervisor.settled()) as Settled<Tools, Output>;
  }

  /**
   * Claims the run, even if it rests, and drives it until it settles or another process drives it: for workers.
   * @internal
   */
  async drive(): Promise<void> {
    await this.#supervisor.drive();
  }

  /** Claims the run, even if it rests, and drives it until it settles, or follows its driver. A paused run stays paused. */
  async resume(): Promise<Settled<Tools, Output>> {
    await this.#supervisor.refresh();
    if (!hasEnded(this.#log.state)) await this.#supervisor.tryToDrive();
    return await this.settled();
  }

  /**
   * Gives the run up, if this process drives it, so that another process continues it: starts nothing more, waits up to
   * `graceMs` for calls in progress, and releases the lease. `settled()` calls that wait now follow it; later ones
   * drive it again.
   */
  async yield(options: YieldOptions = {}): Promise<void> {
    await this.#supervisor.yield(knownOptions('yield', options).graceMs ?? this.#options.graceMs);
  }

  /** The entries after seq `after` (default 0), then new entries and deltas, until the run settles; with `follow`, until it has ended. */
  events(options: { after?: number; follow?: boolean } = {}): AsyncIterable<RunHappening> {
    return readEvents(this.#source, knownOptions('events', options));
  }

  /** Like `events`, in batches of everything available: for servers. */
  eventBatches(options: BatchOptions): AsyncGenerator<readonly RunHappening[]> {
    return readBatches(this.#source, knownOptions('eventBatches', options));
  }

  /**
   * What happens in the run, as a conversation: texts as they are generated, calls and their outcomes, what it waits for.
   * Starts after entry `after` (default 0) and ends once the run rests or has ended; with `follow`, once it has ended.
   * With `settle` it drives the run and ends as `settled()` does: once the runs of its sub-agents rest too.
   *
   * With `subAgents: 'merged'`, the story has the events of sub-agents' runs, between the start and the result of their
   * calls: each run's in its order, and those of calls that are open at `after` from their beginning.
   */
  story(options: StoryReadOptions = {}): AsyncGenerator<StoryEvent> {
    const { after = 0, follow = false, settle = false, subAgents } = knownOptions('story', options);
    const { store, textFilters: filters } = this.#options;
    if (subAgents === 'merged') {
      const end = settle ? { until: () => this.settled() } : {};
      return oneByOne(this.storyBatches({ after, follow, subAgents, ...end }));
    }
    const until = async () => {
      await this.settled();
      return this.#log.durable.seq;
    };
    const happenings = readEvents(this.#source, { after, follow, ...(settle && { until }) });
    return tellHappenings(store, { runId: this.id, filters }, after, happenings);
  }

  /** Like `story`, in lists. Once `until` resolves, it ends with what is stored then, whatever `follow` is. For servers. */
  storyBatches(options: StoryBatchOptions = {}): AsyncGenerator<readonly StoryEvent[]> {
    const { after = 0, follow = false, until, subAgents } = knownOptions('storyBatches', options);
    const { textFilters: filters, subAgents: below } = this.#options;
    const subAgent = subAgents === 'merged' ? below.subAgent : () => undefined;
    const agent = { name: this.context.agent.name, filters, subAgent };
    const family = new FamilyStory({ ...this.#options, after, agent });
    const open = (id: string) => below.open(id);
    return family.follow({ run: this, open, follow, ...omitUndefined({ settled: until }) });
  }

  /** The text of the run as it is generated, after the agent's text filters. Drives the run and ends as `settled()` does. */
  text(): AsyncIterable<string> {
    return textsIn(this.story({ settle: true }));
  }

  /**
   * Allows a gated call to run, with another input if `input` is given. Or gives an answer under review, or `answer` in its
   * place. Example: see `settled`.
   */
  async approve<Call extends CallReference>(
    call: Call,
    options: ApproveOptions<InputOf<Call>> = {},
  ): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'approve', ...referTo(call) }, options));
  }

  /** Refuses a gated call, or sends an answer under review back. The model reads the reason. */
  async reject(call: CallReference, options: RejectOptions = {}): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'reject', ...referTo(call) }, options));
  }

  /** Supplies the result of a gated call instead of running it, or the result of a client tool's call. */
  async answer<Call extends CallReference>(
    call: Call,
    options: AnswerOptions<AnswerOf<Call>>,
  ): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'answer', ...referTo(call) }, options));
  }

  /** Resolves a call in doubt: it happened (`{ happened: true, output }`), it failed, or it is run again. */
  async resolve<Call extends CallReference>(
    call: Call,
    resolution: Resolution<AnswerOf<Call>>,
  ): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'resolve', ...referTo(call) }, resolution));
  }

  /**
   * Queues a message for the next turn; gated calls and a review keep waiting. If the agent's `onMessage` is `supersede`,
   * rejects the calls and takes the answer back.
   */
  async send(message: string | readonly Item[], options: CommandOptions = {}): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'send', message }, options));
  }

  /**
   * Replaces the run's own transcript, between turns. A call of the last turn without a result gets the result that
   * the run has recorded, or is run. Then the model is called again.
   */
  async editTranscript(items: readonly Item[], options: CommandOptions = {}): Promise<CommandResult> {
    const editable = { ...this.#options, context: await this.#readContext() };
    return await this.#putInput(await editTranscript(items, editable, options));
  }

  /** Runs a failed call of the last round again, under the same key. `force`: even if an earlier attempt may still act. */
  async retry(callId: string, options: RetryOptions = {}): Promise<CommandResult> {
    const { force } = knownOptions('retry', options);
    const editable = { ...this.#options, context: await this.#readContext() };
    const refusal = force === true ? null : await refuseLive({ callId, attempt: 0 }, this.#options);
    return refusal ?? (await this.#putInput(await retryCall(callId, editable, options)));
  }

  /** Replaces text, calls or both of the latest turn before its calls start. A call with the same id and input stays approved. */
  async editTurn(options: EditTurnOptions): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'edit-turn' }, options));
  }

  /** Replaces the input of a call that has not started. It is validated and asks for approval again if its tool requires one. */
  async editCall<Call extends CallReference>(
    call: Call,
    options: EditCallOptions<InputOf<Call>>,
  ): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'edit-call', ...referTo(call) }, options));
  }

  /**
   * Replaces the run's breakpoints. The run rests before an action that one of them matches, whichever process drives
   * it. `unpause` continues past it, `step` takes this action only.
   *
   * @example
   * await run.setBreakpoints([
   *   { id: 'large', tool: 'refund', where: { path: 'input.cents', op: '>', value: 10_000 } },
   * ]);
   */
  async setBreakpoints(
    breakpoints: readonly Breakpoint[],
    options: CommandOptions = {},
  ): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'breakpoints', breakpoints }, options));
  }

  /** Overrides the agent's parameters for future turns. Replaces all parameters that were set before. */
  async setParams(params: RunParams, options: CommandOptions = {}): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'set-params', params }, options));
  }

  /** Pauses the run before its next model call or round of tool calls. */
  async pause(options: CommandOptions = {}): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'pause' }, options));
  }

  /** Continues a paused run; if it is not paused itself, its paused sub-agent's run, or the one that `runId` names. */
  async unpause(options: ContinueOptions = {}): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'unpause' }, options));
  }

  /**
   * Says that a person has signed in at a tool server: the run, or a sub-agent's, connects to it again. `server`: its name,
   * as in `settled.open`.
   */
  async signedIn(server: string, options: ContinueOptions = {}): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'sign-in', server }, options));
  }

  /** Allows one model call or round of tool calls, then pauses. Applies to a paused sub-agent's run like `unpause`. */
  async step(options: ContinueOptions = {}): Promise<CommandResult> {
    return await this.#submitOne(commandOf({ type: 'step' }, options));
  }

  /**
   * Aborts the running work, waits for up to the grace time, and ends the run. With `afterCalls`, calls that have started
   * finish before, and nothing else begins. If another process drives it, this requests the cancellation: the promise
   * resolves once the request is durable, `settled()` once the run has ended.
   */
  async cancel(options: CancelOptions = {}): Promise<CommandResult> {
    return await this.#cancel(commandOf({ type: 'cancel' }, options));
  }

  /**
   * Applies several commands in one append: all, in order, or none. A refusal has the index of the refused command.
   *
   * Each command is applied to the state after the previous one. Approving two calls therefore starts the first
   * before the second is approved; to run both in one batch, put `pause` before and `unpause` after them. Commands
   * about calls of a sub-agent's run are refused: submit them to that run. `cancel` among several commands requests
   * the cancellation, which follows after the grace time. A single command acts like the method of its name.
   *
   * @example
   * const approvals = ids.map(callId => ({ type: 'approve', callId }) as const);
   * await run.submit([{ type: 'pause' }, ...approvals, { type: 'unpause' }]);
   */
  async submit(commands: readonly RunCommand[]): Promise<SubmitResult> {
    const [only, second] = knownCommands(commands);
    if (only === undefined) return { accepted: true };
    if (second === undefined) {
      const result = await this.#submitOne(only);
      return result.accepted ? result : { ...result, index: 0 };
    }
    const prepared = await prepareCommands(commands, await this.#readContext(), this.#options, this.#router);
    return 'accepted' in prepared ? prepared : await this.#supervisor.put(prepared);
  }

  /**
   * Creates a run that starts with a copy of this run's journal up to entry `at`, followed by `message` and `commands`,
   * which act before anything follows from that entry: all in one commit. Calls in progress at that entry are in doubt.
   * With `paused`, it rests and can be changed (`editTurn`, `setParams`) before `unpause`. With `replayTools`, it plays
   * the results of this run for equal calls and executes no tool. It is driven once `settled()`, `resume()` or a command
   * is called on it. Throws what `forkRun` throws; then there is no fork.
   */
  async fork(options: { at: number } & ForkOptions): Promise<Run<Tools, Output>> {
    const { at, ...how } = knownOptions('fork', options);
    if (how.commands !== undefined) knownCommands(how.commands);
    const parts = { ...this.#options, checkCommands: this.#checkForFork };
    const { runId, loaded } = await forkRun(parts, this.id, at, how);
    const owner = { ...parts.owner, id: parts.host.newId('driver') };
    return Run.attach({ ...parts, runId, owner }, loaded, this.#supervisor.inherited);
  }

  /** The durable state and the inherited transcript as JSON: `agent.restore` continues from it in any process. */
  snapshot(): JsonValue {
    const { inherited } = this.#supervisor;
    const { state, seq } = this.#log.durable;
    const image = makeImage(state, inherited?.length === 0 ? undefined : inherited);
    return { runId: this.id, seq, image: toJson(image) };
  }

  /** The full result of a call. Throws `call-unknown` without one, `result-missing` if the store has only its head and tail. */
  async output(callId: string): Promise<JsonValue> {
    const result = await readRecordedResult(this.#options.store, await this.#readContext(), callId);
    return result.blob === undefined ? result.output : await this.#blobs.load(result.blob);
  }

  /** Submits one command, to this run or to the run of a sub-agent that has its call. */
  async #submitOne(command: RunCommand): Promise<CommandResult> {
    if (command.type === 'cancel') return await this.#cancel(command);
    const route = await this.#router.route(command, this.context, () => this.#readContext());
    if (route === 'own') {
      // What replaces a reply is made of it: no digest says so later.
      const context = command.type === 'edit-turn' ? await this.#readContext() : this.context;
      return await this.#put(await prepareCommand(command, context, this.#options));
    }
    if ('accepted' in route) return route;
    const result = withoutIndex(await route.submit([command]));
    if (result.accepted) this.settled().catch(() => {});
    return result;
  }

  async #cancel(options: CancelOptions): Promise<CommandResult> {
    const result = await this.#requestCancel(options);
    if (result.accepted && hasEnded(this.#log.state)) await this.#children.cancel(this.#log.state);
    return result;
  }

  async #requestCancel(options: CancelOptions): Promise<CommandResult> {
    const outcome = await this.#supervisor.driver?.cancel(options);
    if (outcome?.type === 'appended') return { accepted: true };
    const result = await this.#supervisor.put([await endRun(this.#options, this.id, options)]);
    const isRequested = this.context.cancelling !== null && !hasEnded(this.#log.state);
    return isRequested ? { accepted: true } : withoutIndex(result);
  }

  async #putInput(input: Command | Refusal): Promise<CommandResult> {
    return await this.#put(await boundInput(input, this.context, this.#options));
  }

  async #put(prepared: MakeCommand | Refusal): Promise<CommandResult> {
    return 'accepted' in prepared ? prepared : withoutIndex(await this.#supervisor.put([prepared]));
  }

  readonly #checkForFork: CheckCommands = async (commands, context, { runId, store }) => {
    const where = { ...this.#options, runId, store };
    const router = new CallRouter(where, this.#children);
    return await prepareCommands(commands, context, where, router);
  };

  async #readContext(): Promise<Context> {
    await this.#supervisor.refresh();
    return this.context;
  }

  /** The chart's context, as far as this process has read the journal. JSON; do not modify. */
  get context(): Readonly<Context> {
    return this.#log.state.context;
  }

  /**
   * The fold of the durable entries, as far as this process has read the journal.
   * @internal
   */
  get durable(): Fold {
    return this.#log.durable;
  }

  /**
   * The run's store, and its agent's text filters: for projections of a run.
   * @internal
   */
  get source(): Pick<RunOptions, 'store' | 'host' | 'showText' | 'textFilters'> {
    return this.#options;
  }
}
