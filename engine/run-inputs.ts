import { findCall } from '../machines/calls.ts';
import type { Call, CallStatus, Context } from '../machines/context.ts';
import type { ChartState } from '../machines/step.ts';
import type { RunParams } from '../protocol/config.ts';
import type { Item } from '../protocol/item.ts';
import type { Tool } from '../protocol/tool.ts';
import type { SoughtCall } from './child-runs.ts';
import {
  type AnswerOptions,
  type ApproveOptions,
  answerCall,
  approveCall,
  type Command,
  type RejectOptions,
  type Resolution,
  rejectCall,
  resolveDoubt,
  type Said,
  sendMessage,
  steer,
} from './command.ts';
import { editTranscript, retryCall } from './edit-transcript.ts';
import { type CommandResult, type Refusal, refuse } from './explain-refusal.ts';
import type { Host } from './host.ts';

const GATED: readonly CallStatus[] = ['gated'];
const ANSWERABLE: readonly CallStatus[] = ['gated', 'waiting'];
const DOUBTED: readonly CallStatus[] = ['doubted'];

type Surroundings = { host: Host; connectTools(): Promise<ReadonlyMap<string, Tool>> };

/**
 * What people and clients say to a run. Each tells whether the run took it, and if not, why and who was first.
 * What is said about an open call of a sub-agent goes to the sub-agent's run.
 */
export abstract class RunInputs {
  abstract readonly id: string;
  readonly #surroundings: Surroundings;

  constructor({ host, connectTools }: Surroundings) {
    this.#surroundings = { host, connectTools };
  }

  /** The run's context as of now. */
  protected abstract look(): Promise<Context>;
  /** Puts what `make` makes of the state to the run. */
  protected abstract put(make: (state: ChartState) => Command): Promise<CommandResult>;
  /** The runs of sub-agents with such an open call; with `ever`, or that had one of this id. */
  protected abstract findChildren(sought: SoughtCall, ever: boolean): Promise<RunInputs[]>;
  protected abstract findPausedChild(): Promise<RunInputs | undefined>;
  /** Whether somebody has said something about a call of this run's own that had this id. */
  protected abstract wasToldOf(callId: string): Promise<boolean>;
  /** The command with an output that is too large for the journal kept beside it. */
  protected abstract bound(command: Command): Promise<Command>;
  /** Drives the run on in the background. */
  protected abstract goOn(): void;

  async approve(callId: string, options: ApproveOptions = {}): Promise<CommandResult> {
    const { connectTools } = this.#surroundings;
    return await this.#decide(
      callId,
      { ...options, fitting: GATED },
      call => approveCall(callId, call, options, connectTools),
      child => child.approve(callId, options),
    );
  }

  /** The model reads the reason as the call's result. */
  async reject(callId: string, options: RejectOptions = {}): Promise<CommandResult> {
    return await this.#decide(
      callId,
      { ...options, fitting: GATED },
      call => rejectCall(callId, call, options),
      child => child.reject(callId, options),
    );
  }

  /** Gives a gated call, or one the client runs, its result. */
  async answer(callId: string, options: AnswerOptions): Promise<CommandResult> {
    return await this.#decide(
      callId,
      { ...options, fitting: ANSWERABLE },
      call => answerCall(callId, call, options),
      child => child.answer(callId, options),
    );
  }

  /** Says what became of a call in doubt. */
  async resolve(callId: string, resolution: Resolution): Promise<CommandResult> {
    return await this.#decide(
      callId,
      { runId: resolution.runId, fitting: DOUBTED },
      () => resolveDoubt(callId, resolution),
      child => child.resolve(callId, resolution),
    );
  }

  /** Queues a message for the next turn; under `supersede` it also refuses the calls that wait for approval. */
  async send(message: string | readonly Item[], said: Said = {}): Promise<CommandResult> {
    const command = sendMessage(message, said, this.#surroundings.host);
    return await this.put(() => command);
  }

  /**
   * Replaces the run's own transcript, between turns. A call of its last turn that has no result gets the
   * one the run has for it, or is run; then the model is called again.
   */
  async editTranscript(items: readonly Item[], said: Said = {}): Promise<CommandResult> {
    return await this.#putIfSound(await editTranscript(items, await this.#edited(), said));
  }

  /** Runs a failed call of the last round again, under the same key. */
  async retry(callId: string, said: Said = {}): Promise<CommandResult> {
    return await this.#putIfSound(await retryCall(callId, await this.#edited(), said));
  }

  /** For the turns to come, instead of what the agent says; replaces what was set before. */
  async setParams(params: RunParams, said: Said = {}): Promise<CommandResult> {
    return await this.put(() => ({ type: 'params.changed', params, ...said }));
  }

  async pause(said: Said = {}): Promise<CommandResult> {
    return await this.put(() => steer('pause.requested', said));
  }

  /** Also of a sub-agent's run that is paused, where this one is not. */
  async unpause(said: Said = {}): Promise<CommandResult> {
    return await this.#steer('run.unpaused', said, child => child.unpause(said));
  }

  /** Lets one spending action through and pauses before the next; in the sub-agent's run where that is what is paused. */
  async step(said: Said = {}): Promise<CommandResult> {
    return await this.#steer('step.requested', said, child => child.step(said));
  }

  async #steer(
    type: 'run.unpaused' | 'step.requested',
    said: Said,
    pass: (child: RunInputs) => Promise<CommandResult>,
  ): Promise<CommandResult> {
    const { paused } = await this.look();
    const child = paused ? undefined : await this.findPausedChild();
    if (child === undefined) return await this.put(() => steer(type, said));
    return await this.#passOn(child, pass);
  }

  /**
   * Ids of calls are the providers': a sub-agent may have an open call of the same id. It goes to the run
   * whose call waits for this, this one first; a call that waits for a sub-agent comes after the sub-agent's,
   * unless the digest says that it is meant. Where the id alone does not tell, nothing is taken.
   */
  async #decide(
    callId: string,
    { fitting, digest, runId }: Omit<SoughtCall, 'callId'>,
    make: (call: Call | undefined) => Command | Refusal | Promise<Command | Refusal>,
    pass: (child: RunInputs) => Promise<CommandResult>,
  ): Promise<CommandResult> {
    const call = findCall(await this.look(), callId);
    const fits = call !== undefined && fitting.includes(call.status);
    const isOwn = fits && (call.childRunId === undefined || call.digest === digest);
    if (runId === undefined ? isOwn : runId === this.id) return await this.#putIfSound(await make(call));
    const sought = { callId, fitting, digest, runId };
    const [child, other] = await this.findChildren(sought, call === undefined || runId !== undefined);
    const isNamed = digest !== undefined || runId !== undefined;
    if (child !== undefined && (isNamed || !(await this.wasToldOf(callId)))) {
      return other === undefined ? await this.#passOn(child, pass) : refuseUnclear(callId, [child, other]);
    }
    if (runId !== undefined && child === undefined) return refuseStranger(this.id, runId, callId);
    return await this.#putIfSound(await make(call));
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
    return await this.put(() => bound);
  }

  async #edited() {
    return { context: await this.look(), ...this.#surroundings };
  }
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
