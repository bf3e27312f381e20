import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { CallCommand, RunCommand } from '../../protocol/run-command.ts';
import type { Store } from '../../protocol/store.ts';
import { readJournal } from '../journal/read-journal.ts';
import { APPLIES_TO, isOwnCall } from '../log/command.ts';
import { type Refusal, refuse } from '../log/refusal.ts';
import type { Children } from '../sub-agents/children.ts';
import type { RunHandle, SoughtCall } from '../sub-agents/sub-agent-runs.ts';

/** Where a command goes: to the run itself, or to a child run, which applies it or passes it on; or why nowhere. */
export type CallRoute = 'own' | RunHandle | Refusal;

/**
 * Finds the run that a decision belongs to.
 *
 * Providers choose call ids, so a run and its sub-agents may have open calls with the same id. A decision goes to
 * the run whose call waits for it, this run first. A call that waits for a sub-agent comes after the sub-agent's
 * own calls, unless the digest matches it. An ambiguous decision is refused.
 */
export class CallRouter {
  readonly #runId: string;
  readonly #store: Store;
  readonly #children: Children;

  constructor({ runId, store }: { runId: string; store: Store }, children: Children) {
    this.#runId = runId;
    this.#store = store;
    this.#children = children;
  }

  /** Routes a command. `context` may be outdated; `readContext` includes the entries of other processes. */
  async route(
    command: Exclude<RunCommand, { type: 'cancel' }>,
    context: Context,
    readContext: () => Promise<Context>,
  ): Promise<CallRoute> {
    if ('callId' in command) {
      const isOwn = isOwnCall(command, this.#runId, context);
      return isOwn ? 'own' : await this.#find(command, await readContext());
    }
    if (command.type !== 'unpause' && command.type !== 'step') return 'own';
    return await this.#findPaused(command.runId, await readContext());
  }

  async #find(command: CallCommand, context: Context): Promise<CallRoute> {
    const { callId, runId } = command;
    if (isOwnCall(command, this.#runId, context)) return 'own';
    const sought = soughtBy(command);
    const includePast = findCall(context, callId) === undefined || runId !== undefined;
    const [child, other] = await this.#findChildren(sought, context, { includePast });
    const isSpecific = sought.digest !== undefined || runId !== undefined;
    if (child !== undefined && (isSpecific || !(await this.#wasDecided(callId)))) {
      if (other === undefined) return child;
      return refuse(
        'refused',
        `Several sub-agents have an open call ${callId}, including runs ${child.id} and ${other.id}. Choose one with { runId } or { digest }, or send the command to its run.`,
      );
    }
    if (runId === undefined || child !== undefined) return 'own';
    const message = `Run ${this.#runId} has no sub-agent run ${runId} with a call ${callId}. Check both ids.`;
    return refuse('call-unknown', message);
  }

  /** The paused run with this id; without one, a paused child at any depth, if this run itself is not paused. */
  async #findPaused(runId: string | undefined, context: Context): Promise<CallRoute> {
    if (runId === this.#runId || (runId === undefined && context.paused)) return 'own';
    const child = await this.#children.findPaused(context, runId);
    if (child !== undefined) return child;
    if (runId === undefined) return 'own';
    const message = `Run ${this.#runId} has no paused sub-agent run ${runId}. Look at what it waits for.`;
    return refuse('refused', message);
  }

  /** Refuses a command of a submission if it is for another run; `null` if it is not. */
  async refuseForeign(command: RunCommand, context: Context): Promise<Refusal | null> {
    const owner = await this.#ownerOf(command, context);
    if (owner === undefined || owner === this.#runId) return null;
    const what =
      'callId' in command ? `Call ${command.callId} belongs to` : `The command ${command.type} is for`;
    return refuse(
      'refused',
      `${what} run ${owner}, but a submission applies to one run, ${this.#runId}. Submit this command to run ${owner}.`,
    );
  }

  async #ownerOf(command: RunCommand, context: Context): Promise<string | undefined> {
    if (!('callId' in command)) return 'runId' in command ? command.runId : undefined;
    if (isOwnCall(command, this.#runId, context)) return this.#runId;
    const [child] = await this.#findChildren(soughtBy(command), context, { includePast: false });
    return command.runId ?? child?.id;
  }

  /** The child runs with such an open call; with `includePast`, else one that once had a call with this id. */
  async #findChildren(
    sought: SoughtCall,
    context: Context,
    { includePast }: { includePast: boolean },
  ): Promise<RunHandle[]> {
    const open = await this.#children.findWith(context, sought);
    if (open.length > 0 || !includePast) return open;
    const past = await this.#children.findPast(this.#runId, sought);
    return past === undefined ? [] : [past];
  }

  /** Whether an earlier call of this run with the same id was decided. */
  async #wasDecided(callId: string): Promise<boolean> {
    const decisions = ['approval.decided', 'result.received', 'doubt.resolved'];
    const entries = await readJournal(this.#store, this.#runId);
    return entries.some(
      ({ event }) => decisions.includes(event.type) && 'callId' in event && event.callId === callId,
    );
  }
}

function soughtBy(command: CallCommand): SoughtCall {
  const { type, callId, runId } = command;
  const digest = 'digest' in command ? command.digest : undefined;
  return { callId, fitting: APPLIES_TO[type], runId, digest };
}
