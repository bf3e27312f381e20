import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { Store } from '../../protocol/store.ts';
import { readJournal } from '../journal/read-journal.ts';
import type { RunHandle, SoughtCall } from '../sub-agents/child-runs.ts';
import type { RunChildren } from '../sub-agents/run-children.ts';
import { type CallCommand, FITTING, isOwnCall } from './command.ts';
import { type Refusal, refuse } from './explain-refusal.ts';

/** Whose a command is: the run's own, or that of a run right below it, which has it or passes it on. */
export type Route =
  | { type: 'own' }
  | { type: 'child'; child: RunHandle }
  | { type: 'refused'; refusal: Refusal };

/**
 * Finds the run that a decision belongs to.
 *
 * Ids of calls are the providers': a sub-agent may have an open call of the same id. A decision goes to the run
 * whose call waits for it, this one first; a call that waits for a sub-agent comes after the sub-agent's, unless
 * the digest says that it is meant. Where the id alone does not tell, nothing is taken.
 */
export class CallRouter {
  readonly #runId: string;
  readonly #store: Store;
  readonly #children: RunChildren;

  constructor({ runId, store }: { runId: string; store: Store }, children: RunChildren) {
    this.#runId = runId;
    this.#store = store;
    this.#children = children;
  }

  async find(command: CallCommand, context: Context): Promise<Route> {
    const { callId, runId } = command;
    if (isOwnCall(command, this.#runId, context)) return { type: 'own' };
    const sought = soughtBy(command);
    const isEver = findCall(context, callId) === undefined || runId !== undefined;
    const [child, other] = await this.#findChildren(sought, context, isEver);
    const isNamed = sought.digest !== undefined || runId !== undefined;
    if (child !== undefined && (isNamed || !(await this.#wasToldOf(callId)))) {
      if (other === undefined) return { type: 'child', child };
      return { type: 'refused', refusal: refuseUnclear(callId, [child, other]) };
    }
    if (runId === undefined || child !== undefined) return { type: 'own' };
    const message = `Run ${this.#runId} has no sub-agent's run ${runId} with a call ${callId}.`;
    return { type: 'refused', refusal: refuse('call-unknown', message) };
  }

  /** The child, at any depth, that rests because it is paused, where this run is not. */
  async findPaused(context: Context): Promise<Route> {
    const child = context.paused ? undefined : await this.#children.findPaused(context);
    return child === undefined ? { type: 'own' } : { type: 'child', child };
  }

  /** Why a command of a submission is not this run's to take; `null` if it is. */
  async refuseStranger(command: CallCommand, context: Context): Promise<Refusal | null> {
    const { callId, runId } = command;
    if (isOwnCall(command, this.#runId, context)) return null;
    const [child] = await this.#findChildren(soughtBy(command), context, false);
    const whose = runId ?? child?.id;
    if (whose === undefined || whose === this.#runId) return null;
    return refuse(
      'refused',
      `Call ${callId} is one of run ${whose}, and these commands are one append to run ${this.#runId}: submit it to run ${whose}.`,
    );
  }

  /** The runs of sub-agents with such an open call; with `isEver`, or one that had a call of this id. */
  async #findChildren(sought: SoughtCall, context: Context, isEver: boolean): Promise<RunHandle[]> {
    const open = await this.#children.findWith(context, sought);
    if (open.length > 0 || !isEver) return open;
    const past = await this.#children.findPast(this.#runId, sought);
    return past === undefined ? [] : [past];
  }

  /** Whether something was said before about a call of this run's own that had this id. */
  async #wasToldOf(callId: string): Promise<boolean> {
    const told = ['approval.decided', 'result.received', 'doubt.resolved'];
    const entries = await readJournal(this.#store, this.#runId);
    return entries.some(
      ({ event }) => told.includes(event.type) && 'callId' in event && event.callId === callId,
    );
  }
}

function soughtBy(command: CallCommand): SoughtCall {
  const { type, callId, runId } = command;
  return { callId, fitting: FITTING[type], runId, digest: 'digest' in command ? command.digest : undefined };
}

function refuseUnclear(callId: string, runs: readonly RunHandle[]): Refusal {
  const ids = runs.map(({ id }) => id).join(' and ');
  return refuse(
    'refused',
    `More than one sub-agent has an open call ${callId}, among them ${ids}: say which with { runId } or { digest }, or tell that run itself.`,
  );
}
