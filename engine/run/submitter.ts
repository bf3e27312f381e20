import type { Context } from '../../machines/context.ts';
import { hasEnded } from '../../machines/status.ts';
import type { CommandOptions, RunCommand } from '../../protocol/run-command.ts';
import type { RunParts, RunSupervisor } from '../driver/run-options.ts';
import type { Command, MakeCommand } from '../log/command.ts';
import { type CommandResult, type Refusal, type SubmitResult, withoutIndex } from '../log/refusal.ts';
import { endRun } from '../sub-agents/children.ts';
import type { RunHandle } from '../sub-agents/sub-agent-runs.ts';
import { CallRouter } from './call-router.ts';
import type { CheckCommands } from './forks/fork-commands.ts';
import { knownCommands } from './known-commands.ts';
import { boundInput, prepareCommand, prepareCommands } from './prepare-command.ts';

/** Submits the commands of one run: finds the run that each is for, prepares it, and has the supervisor append it. */
export class Submitter {
  readonly #parts: RunParts;
  readonly #supervisor: RunSupervisor;
  readonly #router: CallRouter;
  readonly #onPassedOn: () => void;

  /** `onPassedOn`: a run of a sub-agent accepted a command. */
  constructor(parts: RunParts, supervisor: RunSupervisor, onPassedOn: () => void) {
    this.#parts = parts;
    this.#supervisor = supervisor;
    this.#router = new CallRouter(parts.options, parts.children);
    this.#onPassedOn = onPassedOn;
  }

  /** See `Run.submit`. */
  async submit(commands: readonly RunCommand[]): Promise<SubmitResult> {
    const [only, second] = commands;
    if (only === undefined) return { accepted: true };
    if (second === undefined) {
      const result = await this.submitOne(only);
      return result.accepted ? result : { ...result, index: 0 };
    }
    const { options } = this.#parts;
    const prepared = await prepareCommands(commands, await this.readContext(), options, this.#router);
    return 'accepted' in prepared ? prepared : await this.#supervisor.put(prepared);
  }

  /** Submits one command, to this run or to the run of a sub-agent that has its call. */
  async submitOne(command: RunCommand): Promise<CommandResult> {
    if (command.type === 'cancel') return await this.cancel(command);
    const route = await this.#router.route(command, this.#context, () => this.readContext());
    if (route.type === 'refused') return route.refusal;
    if (route.type === 'child') return await this.#passOn(route.child, command);
    return await this.#put(await prepareCommand(command, this.#context, this.#parts.options));
  }

  /** See `Run.cancel`. */
  async cancel(options: CommandOptions & { reason?: string }): Promise<CommandResult> {
    const result = await this.#cancel(options);
    const { log, children } = this.#parts;
    if (result.accepted && hasEnded(log.state)) await children.cancel(this.#context);
    return result;
  }

  /** Appends an input that is made already. */
  async putInput(input: Command | Refusal): Promise<CommandResult> {
    return await this.#put(await boundInput(input, this.#context, this.#parts.options));
  }

  /** Prepares the commands of a fork of this run. */
  readonly checkForFork: CheckCommands = async (commands, context, { runId, store }) => {
    const { options, children } = this.#parts;
    const router = new CallRouter({ ...options, runId }, children);
    return await prepareCommands(knownCommands(commands), context, { ...options, runId, store }, router);
  };

  /** The context, including the entries of other processes. */
  async readContext(): Promise<Context> {
    await this.#supervisor.refresh();
    return this.#context;
  }

  get #context(): Context {
    return this.#parts.log.state.context;
  }

  async #passOn(child: RunHandle, command: RunCommand): Promise<CommandResult> {
    const result = withoutIndex(await child.submit([command]));
    if (result.accepted) this.#onPassedOn();
    return result;
  }

  async #put(prepared: MakeCommand | Refusal): Promise<CommandResult> {
    return 'accepted' in prepared ? prepared : withoutIndex(await this.#supervisor.put([prepared]));
  }

  async #cancel(options: CommandOptions & { reason?: string }): Promise<CommandResult> {
    const { log } = this.#parts;
    const outcome = await this.#supervisor.driver?.cancel(options);
    if (outcome?.type === 'appended') return { accepted: true };
    const result = await this.#supervisor.put([await endRun(this.#parts.options, log.runId, options)]);
    const { cancelling } = this.#context;
    return cancelling === null || hasEnded(log.state) ? withoutIndex(result) : { accepted: true };
  }
}
