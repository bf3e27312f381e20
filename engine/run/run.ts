import type { Context } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import { findResult } from '../../machines/tool-results.ts';
import type { RunParams } from '../../protocol/config.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonValue, toJson } from '../../protocol/json.ts';
import { agentChart } from '../driver/agent-chart.ts';
import { POLL_MS } from '../driver/driver.ts';
import { type Moment, sleep } from '../driver/host.ts';
import { Supervisor } from '../driver/supervisor.ts';
import { type Fold, hasEnded, type LoadedRun, makeImage } from '../journal/load-run.ts';
import { readPages } from '../journal/read-journal.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import { RunLog } from '../journal/run-log.ts';
import type { RunHandle } from '../sub-agents/child-runs.ts';
import { endRun, RunChildren } from '../sub-agents/run-children.ts';
import { CallRouter, type Route } from './call-router.ts';
import {
  type AnswerOptions,
  type ApproveOptions,
  type Command,
  type CommandOptions,
  isOwnCall,
  type MakeCommand,
  type RejectOptions,
  type Resolution,
  type RunCommand,
} from './command.ts';
import { editTranscript, retryCall } from './edit-transcript.ts';
import { type CommandResult, type Refusal, type SubmitResult, withoutPlace } from './explain-refusal.ts';
import { type ForkMessage, forkRun } from './fork-run.ts';
import { boundInput, prepareCommand, refuseLive } from './prepare-command.ts';
import {
  type BatchOptions,
  type EventSource,
  RunEvents,
  type RunHappening,
  readBatches,
  readEvents,
  readText,
} from './run-events.ts';
import type { RunOptions } from './run-options.ts';
import type { Settled } from './settled.ts';

export type { BatchOptions, RunHappening } from './run-events.ts';

/**
 * A run as this process holds it: driven here, driven by another process and followed, or at rest.
 *
 * What people and clients say to it gives whether the run took it, and if not, why and who was first. What is
 * said about an open call of a sub-agent goes to the sub-agent's run.
 *
 * R1 At most one driver at a time; inputs go to it while there is one, else straight to the journal.
 * R2 `settled()` drives if nobody else does; it rejects only for what the store does, never for what a run does.
 * R3 Who reads its events or its text until it settles is told when driving it here fails, as `settled()` is;
 *    who follows it to its end waits for somebody else to go on.
 * R4 A process that holds a run at rest wakes it when an approval expires, and does not stay alive for it.
 * R5 A process that lost its lease takes the run again if nobody else has it, and follows it otherwise; its
 *    events tell who has it (`run.claimed`, whose `replaces` names the loser).
 */
export class Run implements RunHandle {
  readonly id: string;
  readonly #options: RunOptions;
  readonly #blobs: RunBlobs;
  readonly #children: RunChildren;
  readonly #router: CallRouter;
  readonly #events: RunEvents;
  readonly #log: RunLog<ChartState>;
  readonly #supervisor: Supervisor;

  private constructor(options: RunOptions, loaded: LoadedRun, inherited: readonly Item[] | undefined) {
    this.id = options.runId;
    this.#options = options;
    this.#blobs = new RunBlobs(options);
    const children = new RunChildren(options);
    this.#children = children;
    this.#router = new CallRouter(options, children);
    const events = new RunEvents(this.id);
    this.#events = events;
    const log = new RunLog({ ...options, chart: agentChart }, this.id, loaded, events);
    this.#log = log;
    this.#supervisor = new Supervisor({ options, log, events, children, loaded, inherited });
  }

  /** `inherited` is looked at again when the run is driven. */
  static attach(options: RunOptions, loaded: LoadedRun, inherited?: readonly Item[]): Run {
    const run = new Run(options, loaded, inherited);
    run.#supervisor.wakeAtExpiry();
    return run;
  }

  /** A run that was just created and claimed: driving begins at once. */
  static begin(
    options: RunOptions,
    loaded: LoadedRun,
    inherited: readonly Item[],
    { epoch, leasedAt }: { epoch: number; leasedAt: Moment },
  ): Run {
    const run = new Run(options, loaded, inherited);
    run.#supervisor.begin(epoch, leasedAt, inherited);
    return run;
  }

  /** Resolves when the run rests or has ended, driving it if nobody else does. */
  async settled(): Promise<Settled> {
    return await this.#supervisor.settled();
  }

  /** Drives the run until it settles; journals nothing but the claim. */
  async resume(): Promise<Settled> {
    await this.#supervisor.refresh();
    if (!hasEnded(this.#log.state)) await this.#supervisor.tryToDrive();
    return await this.settled();
  }

  /** Entries behind `after`, then what happens, until the run settles; with `follow`, until it has ended. */
  events(options: { after?: number; follow?: boolean } = {}): AsyncIterable<RunHappening> {
    return readEvents(this.#eventSource(), options);
  }

  /** The same for servers, as much at a time as there is. */
  eventBatches(options: BatchOptions): AsyncGenerator<readonly RunHappening[]> {
    return readBatches(this.#eventSource(), options);
  }

  /** The text as it reaches the reader, until the run settles. */
  text(): AsyncIterable<string> {
    return readText(this.#eventSource(), this.#options.showText);
  }

  async approve(callId: string, options: ApproveOptions = {}): Promise<CommandResult> {
    return await this.#tell({ type: 'approve', callId, ...options });
  }

  /** The model reads the reason as the call's result. */
  async reject(callId: string, options: RejectOptions = {}): Promise<CommandResult> {
    return await this.#tell({ type: 'reject', callId, ...options });
  }

  /** Gives a gated call, or one the client runs, its result. */
  async answer(callId: string, options: AnswerOptions): Promise<CommandResult> {
    return await this.#tell({ type: 'answer', callId, ...options });
  }

  /** Says what became of a call in doubt. */
  async resolve(callId: string, resolution: Resolution): Promise<CommandResult> {
    return await this.#tell({ type: 'resolve', callId, ...resolution });
  }

  /** Queues a message for the next turn; under `supersede` it also refuses the calls that wait for approval. */
  async send(message: string | readonly Item[], said: CommandOptions = {}): Promise<CommandResult> {
    return await this.#tell({ type: 'send', message, ...said });
  }

  /**
   * Replaces the run's own transcript, between turns. A call of its last turn that has no result gets the
   * one the run has for it, or is run; then the model is called again.
   */
  async editTranscript(items: readonly Item[], said: CommandOptions = {}): Promise<CommandResult> {
    return await this.#put(await editTranscript(items, await this.#edited(), said));
  }

  /** Runs a failed call of the last round again, under the same key. `force`: although an attempt may still act. */
  async retry(
    callId: string,
    { force, ...said }: CommandOptions & { force?: boolean } = {},
  ): Promise<CommandResult> {
    const edited = await this.#edited();
    const refusal = force === true ? null : await refuseLive({ callId, attempt: 0 }, this.#options);
    return refusal ?? (await this.#put(await retryCall(callId, edited, said)));
  }

  /** For the turns to come, instead of what the agent says; replaces what was set before. */
  async setParams(params: RunParams, said: CommandOptions = {}): Promise<CommandResult> {
    return await this.#tell({ type: 'set-params', params, ...said });
  }

  async pause(said: CommandOptions = {}): Promise<CommandResult> {
    return await this.#tell({ type: 'pause', ...said });
  }

  /** Also of a sub-agent's run that is paused, where this one is not. */
  async unpause(said: CommandOptions = {}): Promise<CommandResult> {
    return await this.#tell({ type: 'unpause', ...said });
  }

  /** Lets one spending action through and pauses before the next; in the sub-agent's run where that is what is paused. */
  async step(said: CommandOptions = {}): Promise<CommandResult> {
    return await this.#tell({ type: 'step', ...said });
  }

  /**
   * Aborts what runs, gives it the grace time, and ends the run. Where another process drives it, that one is
   * asked to: the promise resolves once the request is durable, and `settled()` once the run has ended.
   */
  async cancel(options: CommandOptions & { reason?: string } = {}): Promise<CommandResult> {
    const result = await this.#cancel(options);
    if (result.accepted && hasEnded(this.#log.state)) await this.#children.cancel(this.context);
    return result;
  }

  /**
   * Several commands in one append: all are taken, in their order, or none is. A refusal names the place of
   * the command that failed. Each meets the state that those before it lead to, so that approving two calls
   * starts the first before the second is approved: with `pause` before them and `unpause` behind, both run
   * in one batch. They are about this run's own calls: a call of a sub-agent's run is refused, and its run
   * named. `cancel` among others asks for the end, which comes once the tools have had their grace time; a
   * single command is what the method of its name is.
   */
  async submit(commands: readonly RunCommand[]): Promise<SubmitResult> {
    const [only, second] = commands;
    if (only === undefined) return { accepted: true };
    if (second === undefined) {
      const result = await this.#tell(only);
      return result.accepted ? result : { ...result, index: 0 };
    }
    const context = await this.#readContext();
    const makes: MakeCommand[] = [];
    for (const [index, command] of commands.entries()) {
      const stranger = 'callId' in command ? await this.#router.refuseStranger(command, context) : null;
      const prepared = stranger ?? (await prepareCommand(command, context, this.#options));
      if ('accepted' in prepared) return { ...prepared, index };
      makes.push(prepared);
    }
    return await this.#supervisor.put(makes);
  }

  /**
   * A new run that begins as this one did up to its entry `at`, and with `message` behind it; what was under
   * way there is in doubt. It is attached, and driven once `settled()`, `resume()` or a command asks for it.
   * Throws what `forkRun` throws.
   */
  async fork({ at, ...said }: { at: number } & ForkMessage): Promise<Run> {
    const options = this.#options;
    const { runId, loaded } = await forkRun(options, this.id, at, said);
    const owner = { ...options.owner, id: options.host.newId('driver') };
    return Run.attach({ ...options, runId, owner }, loaded, this.#supervisor.inherited);
  }

  /** Where the run stands, with what it continues: JSON from which `agent.restore` goes on, in any process. */
  snapshot(): JsonValue {
    const { inherited } = this.#supervisor;
    const { state, seq } = this.#log.durable;
    const image = makeImage(state, inherited?.length === 0 ? undefined : inherited);
    return { runId: this.id, seq, image: toJson(image) };
  }

  /**
   * The whole of a result, also of one that is too large for the journal. Throws `result-missing` where the
   * store has only its head and tail, and `call-unknown` for a call that has no result in this run.
   */
  async output(callId: string): Promise<JsonValue> {
    const result = findResult(await this.#readContext(), callId);
    return result.blob === undefined ? result.output : await this.#blobs.load(result.blob);
  }

  /** What the chart knows of the run, as far as this process has seen. JSON; not to be changed. */
  get context(): Readonly<Context> {
    return this.#log.state.context;
  }

  /** The fold of what is durable, as far as this process has seen. */
  get durable(): Fold {
    return this.#log.durable;
  }

  /** The context, with what others have appended. */
  async #readContext(): Promise<Context> {
    await this.#supervisor.refresh();
    return this.context;
  }

  async #edited() {
    return { context: await this.#readContext(), ...this.#options };
  }

  async #tell(command: RunCommand): Promise<CommandResult> {
    if (command.type === 'cancel') return await this.cancel(command);
    const route = await this.#route(command);
    if (route.type === 'refused') return route.refusal;
    if (route.type === 'child') return await this.#passOn(route.child, command);
    return await this.#putPrepared(await prepareCommand(command, this.context, this.#options));
  }

  async #route(command: Exclude<RunCommand, { type: 'cancel' }>): Promise<Route> {
    if ('callId' in command)
      return isOwnCall(command, this.id, this.context)
        ? { type: 'own' }
        : await this.#router.find(command, await this.#readContext());
    if (command.type !== 'unpause' && command.type !== 'step') return { type: 'own' };
    return await this.#router.findPaused(await this.#readContext());
  }

  async #passOn(child: RunHandle, command: RunCommand): Promise<CommandResult> {
    const result = await child.submit([command]);
    if (result.accepted) this.settled().catch(() => {});
    return withoutPlace(result);
  }

  async #put(said: Command | Refusal): Promise<CommandResult> {
    return await this.#putPrepared(await boundInput(said, this.context, this.#options));
  }

  async #putPrepared(prepared: MakeCommand | Refusal): Promise<CommandResult> {
    return 'accepted' in prepared ? prepared : withoutPlace(await this.#supervisor.put([prepared]));
  }

  async #cancel(options: CommandOptions & { reason?: string }): Promise<CommandResult> {
    const outcome = await this.#supervisor.driver?.cancel(options);
    if (outcome?.type === 'appended') return { accepted: true };
    const result = await this.#supervisor.put([await endRun(this.#options, this.id, options)]);
    const { cancelling } = this.context;
    return cancelling === null || hasEnded(this.#log.state) ? withoutPlace(result) : { accepted: true };
  }

  #eventSource(): EventSource {
    const { store, host } = this.#options;
    return {
      runId: this.id,
      events: this.#events,
      readPages: after => readPages(store, this.id, after),
      standing: () => this.#supervisor.standing,
      trouble: () => this.#supervisor.failure,
      refresh: () => this.#supervisor.refresh(),
      nap: () => sleep(host, POLL_MS),
    };
  }
}
