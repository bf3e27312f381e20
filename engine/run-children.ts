import { findCall } from '../machines/calls.ts';
import type { Context } from '../machines/context.ts';
import { type ChartState, next } from '../machines/step.ts';
import { EngineError } from '../protocol/error.ts';
import type { Store } from '../protocol/store.ts';
import {
  answerOfChild,
  type ChildRuns,
  isAwaitedBy,
  type SoughtCall,
  type SuspendedCall,
  spentBy,
  suspendedCalls,
} from './child-runs.ts';
import { type Command, cancelRun, stampCommand } from './command.ts';
import type { Host } from './host.ts';
import { hasEnded, loadRun, statusOf } from './load-run.ts';
import type { Run } from './run.ts';
import { describeSettled, type Settled } from './settled.ts';

type Stored = { store: Store; host: Host };
type Surroundings = Stored & { children: ChildRuns };

/** The runs of sub-agents that a run's suspended calls wait for. */
export class RunChildren {
  readonly #surroundings: Surroundings;

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  /** Drives the children until they rest or have ended; the results of those that have. */
  async settle(context: Context): Promise<Command[]> {
    const settling = suspendedCalls(context).map(call => this.#settleOne(context, call));
    return (await Promise.all(settling)).filter(command => command !== undefined);
  }

  /** The child with such an open call, or that has such a child: by its digest if there is one, else the first. */
  async findWith(context: Context, sought: SoughtCall): Promise<Run | undefined> {
    const alike = sought.digest === undefined ? undefined : await this.#findFirst(context, sought, true);
    return alike ?? (await this.#findFirst(context, sought, false));
  }

  async #findFirst(context: Context, sought: SoughtCall, exactly: boolean): Promise<Run | undefined> {
    const { callId, fitting, digest, runId } = sought;
    for (const suspended of suspendedCalls(context)) {
      const child = await this.#openOwn(context, suspended);
      if (child === undefined) continue;
      const call = findCall(child.context, callId);
      const fits = call !== undefined && fitting.includes(call.status);
      const isIt = runId === undefined ? fits && (!exactly || call.digest === digest) : child.id === runId;
      if (isIt || (await this.#findFirst(child.context, sought, exactly)) !== undefined) return child;
    }
    return undefined;
  }

  /** A child that once made this call, of whatever became of it. */
  async findPast(runId: string, callId: string): Promise<Run | undefined> {
    const { store, children } = this.#surroundings;
    for (const { event } of await store.read(runId)) {
      if (event.type !== 'tool.suspended' || (await store.get(event.childRunId)) === undefined) continue;
      const made = (await store.read(event.childRunId)).some(
        ({ event: its }) => its.type === 'turn.completed' && its.calls.some(call => call.callId === callId),
      );
      if (made) return await children.open(event.childRunId).catch(ignoreStrangers);
    }
    return undefined;
  }

  /** Ends the children of a run that was cancelled, and theirs. Needs no agent. */
  async cancel(context: Context, reason: string): Promise<void> {
    for (const { childRunId } of suspendedCalls(context)) {
      await cancelStored(this.#surroundings, childRunId, context.runId, reason);
    }
  }

  async #settleOne(context: Context, call: SuspendedCall): Promise<Command | undefined> {
    const child = await this.#openOwn(context, call);
    if (child === undefined) return undefined;
    const settled = await child.settled();
    return settled.status === 'waiting' ? undefined : resultOf(call, child, settled);
  }

  /** A fork of the parent does not drive what belongs to the run it was forked from. */
  async #openOwn(context: Context, { childRunId }: SuspendedCall): Promise<Run | undefined> {
    const { store, children } = this.#surroundings;
    if ((await store.get(childRunId)) === undefined) return undefined;
    const child = await children.open(childRunId).catch(ignoreStrangers);
    return child?.context.parent?.runId === context.runId ? child : undefined;
  }
}

function resultOf(
  call: SuspendedCall,
  child: Run,
  settled: Exclude<Settled, { status: 'waiting' }>,
): Command {
  const { context } = child;
  const answer = answerOfChild(context.agent.name, settled);
  return { type: 'result.received', callId: call.callId, ...answer, spent: spentBy(context, true) };
}

/** An agent that is not here leaves its runs to others. */
function ignoreStrangers(error: unknown): undefined {
  if (error instanceof EngineError && error.code !== 'run-unknown') throw error;
  return undefined;
}

/**
 * Tells the run that waits for this child how it ended, from any process: an input like any other.
 * False when that run does not wait for it, or not yet.
 */
export async function deliverToParent(
  where: Stored,
  child: Context,
  settled: Exclude<Settled, { status: 'waiting' }>,
): Promise<boolean> {
  const { parent } = child;
  if (parent === null) return false;
  const delivered = await tellStored(where, parent.runId, ({ context }) => {
    const call = suspendedCalls(context).find(({ callId }) => callId === parent.callId);
    if (call?.childRunId !== child.runId) return null;
    const answer = answerOfChild(child.agent.name, settled);
    return { type: 'result.received', callId: call.callId, ...answer, spent: spentBy(child, true) };
  });
  return delivered !== null;
}

/** Ends a child, and its own, whoever drives it. */
async function cancelStored(where: Stored, runId: string, parentId: string, reason: string): Promise<void> {
  if ((await where.store.get(runId)) === undefined) return;
  const before = await tellStored(where, runId, state =>
    state.context.parent?.runId === parentId ? cancelRun(state, { reason }) : null,
  );
  if (before === null) return;
  for (const { childRunId } of suspendedCalls(before.context)) {
    await cancelStored(where, childRunId, runId, reason);
  }
}

/** Puts an input to a run of the store that nobody here holds. Gives the state it met; `null` if it was not taken. */
async function tellStored(
  { store, host }: Stored,
  runId: string,
  make: (state: ChartState) => Command | null,
): Promise<ChartState | null> {
  for (;;) {
    const { state, seq } = await loadRun(store, runId);
    const command = hasEnded(state) ? null : make(state);
    if (command === null) return null;
    const event = stampCommand(command, host.now());
    const step = next(state, event);
    if (!step.handled) return null;
    const guard = { after: seq, input: true } as const;
    host.reach?.('input.before');
    const { type } = await store.append(runId, guard, [event], statusOf(step.state));
    host.reach?.('input.after');
    if (type === 'appended') return state;
  }
}

/** Why a child must not go on: the run that made it has ended, or has its answer from elsewhere. */
export async function findOrphan(store: Store, { parent }: Context): Promise<string | null> {
  if (parent === null || (await store.get(parent.runId)) === undefined) return null;
  const { state } = await loadRun(store, parent.runId);
  if (hasEnded(state)) return `run ${parent.runId}, which it worked for, has ended`;
  if (isAwaitedBy(state.context, parent.callId)) return null;
  return `run ${parent.runId}, which it worked for, does not wait for it any more`;
}

type Waiting = Extract<Settled, { status: 'waiting' }>;

/** What the run waits for, with what its children wait for, as the store has them. */
export async function withChildren(store: Store, context: Context, settled: Waiting): Promise<Waiting> {
  const { approvals, results, doubts } = settled;
  const merged = { ...settled, approvals: [...approvals], results: [...results], doubts: [...doubts] };
  for (const { childRunId } of suspendedCalls(context)) {
    if ((await store.get(childRunId)) === undefined) continue;
    const { state } = await loadRun(store, childRunId);
    const own = describeSettled(state, text => text);
    if (own?.status !== 'waiting') continue;
    const child = await withChildren(store, state.context, own);
    merged.approvals.push(...child.approvals);
    merged.results.push(...child.results);
    merged.doubts.push(...child.doubts);
  }
  return merged;
}

/** How the run stands by its store alone, its children's open calls among its own; `null` while it has something to do. */
export async function describeWithChildren(
  store: Store,
  state: ChartState,
  showText: (text: string) => string,
): Promise<Settled | null> {
  const settled = describeSettled(state, showText);
  return settled?.status === 'waiting' ? await withChildren(store, state.context, settled) : settled;
}
