import { findCall } from '../machines/calls.ts';
import type { Call, Context } from '../machines/context.ts';
import type { RunParams } from '../protocol/config.ts';
import type { Item } from '../protocol/item.ts';
import type { Store } from '../protocol/store.ts';
import type { Tool } from '../protocol/tool.ts';
import type { SoughtCall } from './child-runs.ts';
import {
  type AnswerOptions,
  type ApproveOptions,
  type CallCommand,
  type Command,
  FITTING,
  type MakeCommand,
  makeDecision,
  makeInput,
  type RejectOptions,
  type Resolution,
  type RunCommand,
  type Said,
} from './command.ts';
import { editTranscript, retryCall } from './edit-transcript.ts';
import { type CommandResult, type Refusal, refuse, type SubmitResult } from './explain-refusal.ts';
import { findLateSuccess, findLiveAttempt, type JudgeOwner } from './find-live-attempt.ts';
import type { Host } from './host.ts';
import { becameOnce } from './services/call-run.ts';

type Surroundings = {
  store: Store;
  host: Host;
  graceMs: number;
  judgeOwner: JudgeOwner;
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
};

/**
 * What people and clients say to a run. Each tells whether the run took it, and if not, why and who was first.
 * What is said about an open call of a sub-agent goes to the sub-agent's run.
 */
export abstract class RunInputs {
  abstract readonly id: string;
  readonly #surroundings: Surroundings;

  constructor({ store, host, graceMs, judgeOwner, connectTools }: Surroundings) {
    this.#surroundings = { store, host, graceMs, judgeOwner, connectTools };
  }

  /** The run's context as of now. */
  protected abstract look(): Promise<Context>;
  /** Puts what is made of the state to the run, one after another, in one append: all or none. */
  protected abstract put(makes: readonly MakeCommand[]): Promise<SubmitResult>;
  /** The runs of sub-agents with such an open call; with `ever`, or that had one of this id. */
  protected abstract findChildren(sought: SoughtCall, ever: boolean): Promise<RunInputs[]>;
  protected abstract findPausedChild(): Promise<RunInputs | undefined>;
  /** Whether somebody has said something about a call of this run's own that had this id. */
  protected abstract wasToldOf(callId: string): Promise<boolean>;
  /** The command with an output that is too large for the journal kept beside it. */
  protected abstract bound(command: Command): Promise<Command>;
  /** Drives the run on in the background. */
  protected abstract goOn(): void;
  /** Aborts what runs, gives it the grace time, and ends the run. */
  abstract cancel(options?: Said & { reason?: string }): Promise<CommandResult>;

  async approve(callId: string, options: ApproveOptions = {}): Promise<CommandResult> {
    return await this.#decide({ type: 'approve', callId, ...options });
  }

  /** The model reads the reason as the call's result. */
  async reject(callId: string, options: RejectOptions = {}): Promise<CommandResult> {
    return await this.#decide({ type: 'reject', callId, ...options });
  }

  /** Gives a gated call, or one the client runs, its result. */
  async answer(callId: string, options: AnswerOptions): Promise<CommandResult> {
    return await this.#decide({ type: 'answer', callId, ...options });
  }

  /** Says what became of a call in doubt. */
  async resolve(callId: string, resolution: Resolution): Promise<CommandResult> {
    return await this.#decide({ type: 'resolve', callId, ...resolution });
  }

  /** Queues a message for the next turn; under `supersede` it also refuses the calls that wait for approval. */
  async send(message: string | readonly Item[], said: Said = {}): Promise<CommandResult> {
    return await this.#putOne(makeInput({ type: 'send', message, ...said }, this.#surroundings));
  }

  /**
   * Replaces the run's own transcript, between turns. A call of its last turn that has no result gets the
   * one the run has for it, or is run; then the model is called again.
   */
  async editTranscript(items: readonly Item[], said: Said = {}): Promise<CommandResult> {
    return await this.#putIfSound(await editTranscript(items, await this.#edited(), said));
  }

  /** Runs a failed call of the last round again, under the same key. `force`: although an attempt may still act. */
  async retry(callId: string, { force, ...said }: Said & { force?: boolean } = {}): Promise<CommandResult> {
    const edited = await this.#edited();
    const alive =
      force === true ? null : await findLiveAttempt(this.#surroundings, this.id, { callId, attempt: 0 });
    if (alive !== null) return refuseLive(callId, alive);
    return await this.#putIfSound(await retryCall(callId, edited, said));
  }

  /** For the turns to come, instead of what the agent says; replaces what was set before. */
  async setParams(params: RunParams, said: Said = {}): Promise<CommandResult> {
    return await this.#putOne(makeInput({ type: 'set-params', params, ...said }, this.#surroundings));
  }

  async pause(said: Said = {}): Promise<CommandResult> {
    return await this.#putOne(makeInput({ type: 'pause', ...said }, this.#surroundings));
  }

  /** Also of a sub-agent's run that is paused, where this one is not. */
  async unpause(said: Said = {}): Promise<CommandResult> {
    return await this.#steer({ type: 'unpause', ...said }, child => child.unpause(said));
  }

  /** Lets one spending action through and pauses before the next; in the sub-agent's run where that is what is paused. */
  async step(said: Said = {}): Promise<CommandResult> {
    return await this.#steer({ type: 'step', ...said }, child => child.step(said));
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
    if (second === undefined) return atPlace(await this.#tell(only), 0);
    const context = await this.look();
    const makes: MakeCommand[] = [];
    for (const [index, command] of commands.entries()) {
      const prepared = await this.#prepare(command, context);
      if ('accepted' in prepared) return { ...prepared, index };
      makes.push(prepared);
    }
    return await this.put(makes);
  }

  async #prepare(command: RunCommand, context: Context): Promise<MakeCommand | Refusal> {
    if (!('callId' in command)) return makeInput(command, this.#surroundings);
    const stranger = await this.#findStranger(command, context);
    if (stranger !== undefined) return stranger;
    const call = findCall(context, command.callId);
    const decision = await this.#makeDecision(command, call);
    if ('accepted' in decision) return decision;
    const bound = await this.bound(decision);
    return () => bound;
  }

  /** Why a command of a submission is not this run's to take. */
  async #findStranger(command: CallCommand, context: Context): Promise<Refusal | undefined> {
    const { callId, runId } = command;
    const sought = soughtBy(command);
    if (isOwn(sought, context, this.id)) return undefined;
    const [child] = await this.findChildren(sought, false);
    const whose = runId ?? child?.id;
    if (whose === undefined || whose === this.id) return undefined;
    return refuse(
      'refused',
      `Call ${callId} is one of run ${whose}, and these commands are one append to run ${this.id}: submit it to run ${whose}.`,
    );
  }

  async #tell(command: RunCommand): Promise<CommandResult> {
    switch (command.type) {
      case 'approve':
      case 'reject':
      case 'answer':
      case 'resolve':
        return await this.#decide(command);
      case 'unpause':
        return await this.unpause(command);
      case 'step':
        return await this.step(command);
      case 'cancel':
        return await this.cancel(command);
      case 'send':
      case 'set-params':
      case 'pause':
        return await this.#putOne(makeInput(command, this.#surroundings));
    }
  }

  async #steer(
    command: { type: 'unpause' | 'step' } & Said,
    pass: (child: RunInputs) => Promise<CommandResult>,
  ): Promise<CommandResult> {
    const { paused } = await this.look();
    const child = paused ? undefined : await this.findPausedChild();
    if (child === undefined) return await this.#putOne(makeInput(command, this.#surroundings));
    return await this.#passOn(child, pass);
  }

  /**
   * Ids of calls are the providers': a sub-agent may have an open call of the same id. It goes to the run
   * whose call waits for this, this one first; a call that waits for a sub-agent comes after the sub-agent's,
   * unless the digest says that it is meant. Where the id alone does not tell, nothing is taken.
   */
  async #decide(command: CallCommand): Promise<CommandResult> {
    const { callId, runId } = command;
    const sought = soughtBy(command);
    const context = await this.look();
    const call = findCall(context, callId);
    const make = async () => await this.#putIfSound(await this.#makeDecision(command, call));
    if (isOwn(sought, context, this.id)) return await make();
    const [child, other] = await this.findChildren(sought, call === undefined || runId !== undefined);
    const isNamed = sought.digest !== undefined || runId !== undefined;
    if (child !== undefined && (isNamed || !(await this.wasToldOf(callId)))) {
      if (other !== undefined) return refuseUnclear(callId, [child, other]);
      return await this.#passOn(child, one => one.#decide(command));
    }
    if (runId !== undefined && child === undefined) return refuseStranger(this.id, runId, callId);
    return await make();
  }

  async #makeDecision(command: CallCommand, call: Call | undefined): Promise<Command | Refusal> {
    const refusal = command.type === 'resolve' ? await this.#refuseRetry(call, command) : null;
    return refusal ?? (await makeDecision(command, call, this.#surroundings.connectTools));
  }

  /** What must not happen twice is not run again, unless it is forced, while an attempt of it may still act, or once one has. */
  async #refuseRetry(call: Call | undefined, resolution: Resolution): Promise<Refusal | null> {
    if (call?.status !== 'doubted' || !('retry' in resolution) || resolution.force === true) return null;
    const { connectTools } = this.#surroundings;
    const isOnce = call.sideEffect === 'once' || becameOnce(call, (await connectTools()).get(call.name));
    if (!isOnce) return null;
    const { callId } = call;
    if ((await findLateSuccess(this.#surroundings.store, this.id, callId)) !== undefined)
      return refuse(
        'already-happened',
        `An attempt of call ${callId} has succeeded after it was given up. Say that it happened ({ happened: true, output }), or force the retry (--force, { force: true }), which does it twice.`,
      );
    const alive = await findLiveAttempt(this.#surroundings, this.id, call);
    return alive === null ? null : refuseLive(callId, alive);
  }

  async #passOn(
    child: RunInputs,
    pass: (child: RunInputs) => Promise<CommandResult>,
  ): Promise<CommandResult> {
    const result = await pass(child);
    if (result.accepted) this.goOn();
    return result;
  }

  async #putIfSound(command: Command | Refusal): Promise<CommandResult> {
    if ('accepted' in command) return command;
    const bound = await this.bound(command);
    return await this.#putOne(() => bound);
  }

  async #putOne(make: MakeCommand): Promise<CommandResult> {
    const result = await this.put([make]);
    if (result.accepted) return result;
    const { index: _, ...refusal } = result;
    return refusal;
  }

  async #edited() {
    return { context: await this.look(), ...this.#surroundings };
  }
}

function refuseLive(callId: string, alive: string): Refusal {
  return refuse(
    'attempt-alive',
    `An earlier attempt of call ${callId} may still act: ${alive}. End that process, or wait until it is done, and retry; or force the retry (--force, { force: true }), which may do it twice.`,
  );
}

function atPlace(result: CommandResult, index: number): SubmitResult {
  return result.accepted ? result : { ...result, index };
}

function soughtBy(command: CallCommand): SoughtCall {
  const { type, callId, runId } = command;
  return { callId, fitting: FITTING[type], runId, digest: 'digest' in command ? command.digest : undefined };
}

/** Whether a command is about a call of the run itself, and not one of a sub-agent's. */
function isOwn({ callId, fitting, digest, runId }: SoughtCall, context: Context, id: string): boolean {
  if (runId !== undefined) return runId === id;
  const call = findCall(context, callId);
  const fits = call !== undefined && fitting.includes(call.status);
  return fits && (call.childRunId === undefined || call.digest === digest);
}

function refuseUnclear(callId: string, runs: readonly RunInputs[]): Refusal {
  const ids = runs.map(({ id }) => id).join(' and ');
  return refuse(
    'refused',
    `More than one sub-agent has an open call ${callId}, among them ${ids}: say which with { runId } or { digest }, or tell that run itself.`,
  );
}

function refuseStranger(id: string, runId: string, callId: string): Refusal {
  return refuse('call-unknown', `Run ${id} has no sub-agent's run ${runId} with a call ${callId}.`);
}
