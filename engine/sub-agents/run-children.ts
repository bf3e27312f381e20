import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import { isDriven, type Owner, type Store } from '../../protocol/store.ts';
import { loadLog } from '../driver/agent-chart.ts';
import type { Host } from '../driver/host.ts';
import { hasEnded, isAtRest, loadRun } from '../journal/load-run.ts';
import { readJournal } from '../journal/read-journal.ts';
import { boundCommand, RunBlobs } from '../journal/run-blobs.ts';
import {
  CANCEL_SLACK_MS,
  type Command,
  type CommandOptions,
  cancelRun,
  type MakeCommand,
  requestCancel,
} from '../run/command.ts';
import { describeSettled, listOpenCalls, type OpenCall, type Settled } from '../run/settled.ts';
import {
  answerOfChild,
  type ChildRuns,
  childIdsOf,
  isAwaitedBy,
  type RunHandle,
  type SoughtCall,
  type SuspendedCall,
  spentBy,
  suspendedCalls,
} from './child-runs.ts';

type Stored = { store: Store; host: Host };
type Cancelling = Stored & { isDead(owner: Owner): boolean; graceMs: number };
type Surroundings = Cancelling & { children: ChildRuns };

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

  /** The results of the children that have ended; drives none. */
  async collect(context: Context): Promise<Command[]> {
    const { store } = this.#surroundings;
    const suspended = suspendedCalls(context);
    const ended: SuspendedCall[] = [];
    for (const call of suspended)
      if ((await findEndedChild(store, [call.childRunId])) !== undefined) ended.push(call);
    const settling = ended.map(call => this.#settleOne(context, call));
    return (await Promise.all(settling)).filter(command => command !== undefined);
  }

  /**
   * The children with such an open call, or that have such a child: by its digest if there is one that
   * matches, else by its id. More than one means that the id alone does not tell.
   */
  async findWith(context: Context, sought: SoughtCall): Promise<RunHandle[]> {
    const alike = sought.digest === undefined ? [] : await this.#findAll(context, sought, true);
    return alike.length > 0 ? alike : await this.#findAll(context, sought, false);
  }

  /** Those right below that have such an open call, or have such a child. */
  async #findAll(context: Context, sought: SoughtCall, exactly: boolean): Promise<RunHandle[]> {
    const { callId, fitting, digest, runId } = sought;
    const found: RunHandle[] = [];
    for (const suspended of suspendedCalls(context)) {
      const child = await this.#openOwn(context, suspended);
      if (child === undefined) continue;
      const call = findCall(child.context, callId);
      const fits = call !== undefined && fitting.includes(call.status);
      const isIt = runId === undefined ? fits && (!exactly || call.digest === digest) : child.id === runId;
      if (isIt || (await this.#findAll(child.context, sought, exactly)).length > 0) found.push(child);
    }
    return found;
  }

  /** A child that once made this call, of whatever became of it. */
  async findPast(parentId: string, { callId, runId }: SoughtCall): Promise<RunHandle | undefined> {
    const { store, children } = this.#surroundings;
    for (const { event } of await readJournal(store, parentId)) {
      if (event.type !== 'tool.suspended' || (await store.get(event.childRunId)) === undefined) continue;
      if (runId !== undefined && runId !== event.childRunId) continue;
      const made = (await readJournal(store, event.childRunId)).some(
        ({ event: its }) => its.type === 'turn.completed' && its.calls.some(call => call.callId === callId),
      );
      if (made) return await children.open(event.childRunId).catch(ignoreStrangers);
    }
    return undefined;
  }

  /** The child, at any depth, that rests because it is paused. */
  async findPaused(context: Context): Promise<RunHandle | undefined> {
    for (const suspended of suspendedCalls(context)) {
      const child = await this.#openOwn(context, suspended);
      if (child?.context.paused === true) return child;
      const below = child && (await this.findPaused(child.context));
      if (below !== undefined) return below;
    }
    return undefined;
  }

  /** Ends the children of a run that was cancelled, and theirs. Needs no agent. */
  async cancel(context: Context): Promise<void> {
    const reason = `run ${context.runId}, which it worked for, was cancelled`;
    for (const childId of childIdsOf(context)) {
      await cancelStored(this.#surroundings, childId, context.runId, reason);
    }
  }

  async #settleOne(context: Context, call: SuspendedCall): Promise<Command | undefined> {
    const child = await this.#openOwn(context, call);
    if (child === undefined) return await this.#resultElsewhere(context, call);
    const settled = await child.settled();
    if (settled.status === 'waiting') return undefined;
    return await resultOf(this.#surroundings, context, call, child.context, settled);
  }

  /** What a child gave that this run must not drive: the fork of a parent reads how the other run's child ended. */
  async #resultElsewhere(context: Context, call: SuspendedCall): Promise<Command | undefined> {
    const { store } = this.#surroundings;
    if ((await findEndedChild(store, [call.childRunId])) === undefined) return undefined;
    const { state } = await loadRun(store, call.childRunId);
    const settled = describeSettled(state, text => text);
    if (settled === null || settled.status === 'waiting') return undefined;
    return await resultOf(this.#surroundings, context, call, state.context, settled);
  }

  /** A fork of the parent does not drive what belongs to the run it was forked from. */
  async #openOwn(context: Context, { childRunId }: SuspendedCall): Promise<RunHandle | undefined> {
    const { store, children } = this.#surroundings;
    if ((await store.get(childRunId)) === undefined) return undefined;
    const child = await children.open(childRunId).catch(ignoreStrangers);
    return child?.context.parent?.runId === context.runId ? child : undefined;
  }
}

/** One of these runs of sub-agents, which a run waits for, that has ended. */
export async function findEndedChild(store: Store, childIds: readonly string[]): Promise<string | undefined> {
  for (const childId of childIds) {
    const status = (await store.get(childId))?.status;
    if (status !== undefined && status !== 'running' && status !== 'waiting') return childId;
  }
  return undefined;
}

/** What a child's end is for the run that waits for it; an output too large for its journal is kept beside it. */
async function resultOf(
  { store, host }: Stored,
  parent: Context,
  { callId }: SuspendedCall,
  child: Context,
  settled: Exclude<Settled, { status: 'waiting' }>,
): Promise<Command> {
  const answer = answerOfChild(child.agent.name, settled);
  const said = { type: 'result.received', callId, ...answer, spent: spentBy(child, true) } as const;
  return await boundCommand(said, parent, new RunBlobs({ store, host, runId: parent.runId }));
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
  const log = await loadLog(where, parent.runId);
  const { context } = log.state;
  const call = suspendedCalls(context).find(({ callId }) => callId === parent.callId);
  if (call?.childRunId !== child.runId || hasEnded(log.state)) return false;
  const command = await resultOf(where, context, call, child, settled);
  return (await log.put([() => command])).accepted;
}

/** The command that ends a run: a request, where another process drives it and still has time to. */
export async function endRun(
  { store, host, isDead, graceMs }: Cancelling,
  runId: string,
  options: CommandOptions & { reason?: string },
): Promise<MakeCommand> {
  const record = await store.get(runId);
  const isElsewhere = record !== undefined && isDriven(record, host.now(), isDead);
  return state => {
    const deadline = state.context.cancelling?.deadline ?? host.now() + graceMs + CANCEL_SLACK_MS;
    const isAsked = isElsewhere && !isAtRest(state) && host.now() < deadline;
    return isAsked ? requestCancel(options, deadline) : cancelRun(state, options);
  };
}

/** Ends a child, and its own, whoever drives it. */
async function cancelStored(
  where: Cancelling,
  runId: string,
  parentId: string,
  reason: string,
): Promise<void> {
  if ((await where.store.get(runId)) === undefined) return;
  const end = await endRun(where, runId, { reason });
  const log = await loadLog(where, runId);
  if (log.state.context.parent?.runId !== parentId || !(await log.put([end])).accepted) return;
  for (const childId of childIdsOf(log.state.context)) await cancelStored(where, childId, runId, reason);
}

/** Why a child must not go on: a run above it has ended, or has its answer from elsewhere. */
export async function findOrphan(store: Store, { parent }: Context): Promise<string | null> {
  if (parent === null || (await store.get(parent.runId)) === undefined) return null;
  const { state } = await loadRun(store, parent.runId);
  if (hasEnded(state)) return `run ${parent.runId}, which it worked for, has ended`;
  if (!isAwaitedBy(state.context, parent.callId))
    return `run ${parent.runId}, which it worked for, does not wait for it any more`;
  return await findOrphan(store, state.context);
}

type Waiting = Extract<Settled, { status: 'waiting' }>;

/** What the run waits for, with what its children wait for, as the store has them. One that is paused pauses it too. */
export async function withChildren(store: Store, context: Context, settled: Waiting): Promise<Waiting> {
  const { approvals, results, doubts } = settled;
  const merged = { ...settled, approvals: [...approvals], results: [...results], doubts: [...doubts] };
  for (const { childRunId } of suspendedCalls(context)) {
    const state = await loadChild(store, childRunId, context.runId);
    if (state === undefined) continue;
    const own = describeSettled(state, text => text);
    if (own?.status !== 'waiting') continue;
    const child = await withChildren(store, state.context, own);
    merged.approvals.push(...child.approvals);
    merged.results.push(...child.results);
    merged.doubts.push(...child.doubts);
    merged.paused ||= child.paused;
    if (child.reason !== undefined) merged.reason ??= `run ${childRunId}: ${child.reason}`;
  }
  return merged;
}

/** The calls without a result in the children of a run that was cancelled. */
async function listUnsettledBelow(store: Store, context: Context): Promise<OpenCall[]> {
  const unsettled: OpenCall[] = [];
  for (const childId of childIdsOf(context)) {
    const state = await loadChild(store, childId, context.runId);
    if (state === undefined) continue;
    unsettled.push(...listOpenCalls(state.context), ...(await listUnsettledBelow(store, state.context)));
  }
  return unsettled;
}

/** A fork of the parent has nothing to say of the child. */
async function loadChild(store: Store, childId: string, parentId: string): Promise<ChartState | undefined> {
  if ((await store.get(childId)) === undefined) return undefined;
  const { state } = await loadRun(store, childId);
  return state.context.parent?.runId === parentId ? state : undefined;
}

/** As the run stands, with what its children wait for or have left. */
export async function addChildren(store: Store, context: Context, settled: Settled): Promise<Settled> {
  switch (settled.status) {
    case 'waiting':
      return await withChildren(store, context, settled);
    case 'cancelled':
      return {
        ...settled,
        unsettled: [...settled.unsettled, ...(await listUnsettledBelow(store, context))],
      };
    default:
      return settled;
  }
}

/** How the run stands by its store alone, its children's open calls among its own; `null` while it has something to do. */
export async function describeWithChildren(
  store: Store,
  state: ChartState,
  showText: (text: string) => string,
): Promise<Settled | null> {
  const settled = describeSettled(state, showText);
  return settled === null ? null : await addChildren(store, state.context, settled);
}
