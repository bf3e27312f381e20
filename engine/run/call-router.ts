import { findCall } from '../../machines/calls.ts';
import type { CallStatus, Context } from '../../machines/context.ts';
import { callsOf, type RunEvent } from '../../protocol/event.ts';
import type { CallCommand, RunCommand } from '../../protocol/run-command.ts';
import { type JournalStore, readJournal } from '../journal/read-journal.ts';
import { type Refusal, refuse } from '../log/refusal.ts';
import type { Children } from '../sub-agents/children.ts';
import type { RunHandle } from '../sub-agents/sub-agent-runs.ts';

/** Where a command goes: to the run itself, or to a child run, which applies it or passes it on; or why nowhere. */
type CallRoute = 'own' | RunHandle | Refusal;

const APPLIES_TO: Readonly<Record<CallCommand['type'], readonly CallStatus[]>> = {
  approve: ['gated'],
  reject: ['gated', 'asking'],
  answer: ['gated', 'asking', 'waiting'],
  resolve: ['doubted'],
  'edit-call': ['ready', 'gated', 'asking'],
};

const DECISIONS = ['approval.decided', 'question.answered', 'result.received', 'doubt.resolved'];

/**
 * Finds the run that a command belongs to.
 *
 * Providers choose call ids, so a run and its sub-agents may have open calls with the same id. A decision goes to
 * the run whose call waits for it, this run first. A call that waits for a sub-agent comes after the sub-agent's
 * own calls, unless the digest matches it. An ambiguous decision is refused.
 */
export class CallRouter {
  readonly #runId: string;
  readonly #store: JournalStore;
  readonly #children: Children;

  constructor({ runId, store }: { runId: string; store: JournalStore }, children: Children) {
    this.#runId = runId;
    this.#store = store;
    this.#children = children;
  }

  /** Routes a command. `context` may be outdated; `readContext` includes the entries of other processes. */
  async route(
    command: RunCommand,
    context: Context,
    readContext: () => Promise<Context>,
  ): Promise<CallRoute> {
    if ('callId' in command) {
      if (this.#isOwn(command, context)) return 'own';
      const latest = await readContext();
      return this.#isOwn(command, latest) ? 'own' : await this.#routeCall(command, latest);
    }
    if (command.type !== 'unpause' && command.type !== 'step' && command.type !== 'sign-in') return 'own';
    const { runId } = command;
    const latest = await readContext();
    const waits = ({ paused, signIns }: Context) =>
      command.type === 'sign-in' ? signIns.some(({ server }) => server === command.server) : paused;
    if (runId === this.#runId || (runId === undefined && waits(latest))) return 'own';
    const isIt = ({ id, context: its }: RunHandle) => waits(its) && (runId ?? id) === id;
    const [child] = await this.#findBelow(latest, isIt);
    if (child !== undefined) return child;
    if (runId === undefined) return 'own';
    const message = `Run ${this.#runId} has no sub-agent run ${runId} that waits for this. Look at what it waits for.`;
    return refuse('refused', message);
  }

  /** Refuses a command of a submission if it is for another run; `null` if it is not. */
  async refuseForeign(command: RunCommand, context: Context): Promise<Refusal | null> {
    const named = 'runId' in command ? command.runId : undefined;
    const isRouted = named === undefined && 'callId' in command;
    const route = isRouted ? await this.route(command, context, async () => context) : 'own';
    if (route !== 'own' && 'accepted' in route) return route;
    const owner = named ?? (route === 'own' ? this.#runId : route.id);
    if (owner === this.#runId) return null;
    const what =
      'callId' in command ? `Call ${command.callId} belongs to` : `The command ${command.type} is for`;
    return refuse(
      'refused',
      `${what} run ${owner}, but a submission applies to one run, ${this.#runId}. Submit this command to run ${owner}.`,
    );
  }

  #isOwn(command: CallCommand, context: Context): boolean {
    if (command.runId !== undefined) return command.runId === this.#runId;
    if (isReview(context, command)) return true;
    const call = findCall(context, command.callId);
    if (call === undefined || !APPLIES_TO[command.type].includes(call.status)) return false;
    return call.childRunId === undefined || ('digest' in command && call.digest === command.digest);
  }

  async #routeCall(command: CallCommand, context: Context): Promise<CallRoute> {
    const { callId, runId } = command;
    const open = await this.#findOpen(command, context);
    const mayBePast = findCall(context, callId) === undefined || runId !== undefined;
    const [child, other] = open.length > 0 || !mayBePast ? open : await this.#findPast(command, context);
    const isSpecific = runId !== undefined || ('digest' in command && command.digest !== undefined);
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

  /** The children with such an open call, at any depth: by digest if one matches, else by id. */
  async #findOpen(command: CallCommand, context: Context): Promise<RunHandle[]> {
    const { type, callId, runId } = command;
    const find = (digest?: string) =>
      this.#findBelow(context, child => {
        if (runId !== undefined) return child.id === runId;
        if (isReview(child.context, command)) return true;
        const call = findCall(child.context, callId);
        if (call === undefined || !APPLIES_TO[type].includes(call.status)) return false;
        return digest === undefined || call.digest === digest;
      });
    const digest = 'digest' in command ? command.digest : undefined;
    const matching = digest === undefined ? [] : await find(digest);
    return matching.length > 0 ? matching : await find();
  }

  /** The direct children that match, or have a descendant that does. */
  async #findBelow(context: Context, isMatch: (child: RunHandle) => boolean): Promise<RunHandle[]> {
    const found: RunHandle[] = [];
    for await (const child of this.#children.own(context))
      if (isMatch(child) || (await this.#findBelow(child.context, isMatch)).length > 0) found.push(child);
    return found;
  }

  /** A child that once made this call, or asked for this review, with any outcome. */
  async #findPast({ callId, runId }: CallCommand, context: Context): Promise<RunHandle[]> {
    for (const { event } of await readJournal(this.#store, this.#runId)) {
      if (event.type !== 'tool.suspended' || (runId ?? event.childRunId) !== event.childRunId) continue;
      const child = await this.#children.openOwn(context, event);
      const journal = child === undefined ? [] : await readJournal(this.#store, event.childRunId);
      const made = journal.flatMap(({ event: its }) => namesIn(its));
      if (child !== undefined && made.includes(callId)) return [child];
    }
    return [];
  }

  /** Whether an earlier call of this run with the same id was decided. */
  async #wasDecided(callId: string): Promise<boolean> {
    const entries = await readJournal(this.#store, this.#runId);
    return entries.some(
      ({ event }) => DECISIONS.includes(event.type) && 'callId' in event && event.callId === callId,
    );
  }
}

function isReview({ review }: Context, { callId }: CallCommand): boolean {
  return review?.id === callId;
}

/** What the event opens for decisions. */
function namesIn(event: RunEvent): string[] {
  if (event.type === 'review.requested') return [event.reviewId];
  return callsOf(event).map(({ callId }) => callId);
}
