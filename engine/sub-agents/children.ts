/* The children of a run that rest: their results, and their end with their parent. */
import type { CallResult, Context } from '../../machines/context.ts';
import { describeWaiting, partsOf } from '../../machines/settled.ts';
import { hasEnded, isAtRest, statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import { findResult } from '../../machines/tool-results.ts';
import { readContent } from '../../protocol/content/read-content.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Part } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { outcomeMessage } from '../../protocol/message.ts';
import type { CancelOptions } from '../../protocol/run-command.ts';
import { isDriven, type Owner, type Store } from '../../protocol/store.ts';
import { cutText, MODEL_READS_BYTES, utf8Length } from '../../text/cut-text.ts';
import { type DriveWatcher, watchEnd } from '../events/watch-drive.ts';
import type { Host } from '../host/host.ts';
import { loadRun } from '../journal/load-run.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import {
  addItemIds,
  boundCommand,
  type Command,
  cancelRun,
  type MakeCommand,
  requestCancel,
} from '../log/command.ts';
import { loadLog } from '../log/run-log.ts';
import { describeSettled, listUnsettled, type Settled } from '../log/settled.ts';
import {
  answerFor,
  answerOfChild,
  childIdsOf,
  isAwaitedBy,
  type RunHandle,
  type SubAgentRuns,
  type SuspendedCall,
  spentBy,
  suspendedCalls,
  waitsForOriginal,
} from './sub-agent-runs.ts';

type Stored = { store: Store; host: Host };
type Cancelling = Stored & {
  isDead(owner: Owner): boolean;
  graceMs: number;
  watchers?(): readonly DriveWatcher[];
};
type Environment = Cancelling & { subAgents: SubAgentRuns };

export class Children {
  readonly #environment: Environment;

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  /** Drives the children until they rest or have ended; returns the results of those that have ended. */
  async settle(context: Context, calls = suspendedCalls(context)): Promise<Command[]> {
    const settling = calls.map(call => this.#settleOne(context, call));
    return (await Promise.all(settling)).filter(command => command !== undefined);
  }

  /** Returns the results of the children that have ended, without driving any. */
  async collect(context: Context): Promise<Command[]> {
    return await this.settle(context, await this.#findEnded(context));
  }

  /** Whether all that the run, a fork, can do is wait: it needs the children of its original, and none has ended. */
  async onlyWaits(context: Context): Promise<boolean> {
    return waitsForOriginal(context) && (await this.#findEnded(context)).length === 0;
  }

  async #findEnded(context: Context): Promise<SuspendedCall[]> {
    const ended: SuspendedCall[] = [];
    for (const call of suspendedCalls(context))
      if (await isOver(this.#environment.store, call.childRunId)) ended.push(call);
    return ended;
  }

  /** The children of a run's open calls that this process can open. */
  async *own(context: Context): AsyncGenerator<RunHandle, void> {
    for (const suspended of suspendedCalls(context)) {
      const child = await this.openOwn(context, suspended);
      if (child !== undefined) yield child;
    }
  }

  /** Cancels the children of a run that has ended or is being cancelled, at any depth. Needs no agent. */
  async cancel({ value, context }: ChartState): Promise<void> {
    const hasEndedItself = value === 'finished' || value === 'failed';
    const reason = `its parent run ${context.runId} ${hasEndedItself ? 'has ended' : 'was cancelled'}`;
    for (const childId of childIdsOf(context))
      await cancelStored(this.#environment, childId, context.runId, reason);
  }

  async #settleOne(context: Context, call: SuspendedCall): Promise<Command | undefined> {
    const child = await this.openOwn(context, call);
    if (child === undefined) return await this.#resultElsewhere(context, call);
    const settled = await child.settled();
    if (settled.status === 'waiting') return undefined;
    return await resultOf(this.#environment, context, call, child.context, settled);
  }

  /** The result of a child that this run must not drive: a fork reads how the child of its original ended. */
  async #resultElsewhere(context: Context, call: SuspendedCall): Promise<Command | undefined> {
    const { store } = this.#environment;
    if (!(await isOver(store, call.childRunId))) return undefined;
    const { state } = await loadRun(store, call.childRunId);
    const settled = describeSettled(state, text => text);
    if (settled === null || settled.status === 'waiting') return undefined;
    return await resultOf(this.#environment, context, call, state.context, settled);
  }

  /** Opens a child of this run; a fork must not drive the children of its original. */
  async openOwn(context: Context, { childRunId }: { childRunId: string }): Promise<RunHandle | undefined> {
    const { store, subAgents } = this.#environment;
    if ((await store.get(childRunId)) === undefined) return undefined;
    const child = await subAgents.open(childRunId).catch(ignoreUnknown);
    return child?.context.parent?.runId === context.runId ? child : undefined;
  }
}

async function isOver(store: Store, runId: string): Promise<boolean> {
  const status = (await store.get(runId))?.status;
  return status !== undefined && status !== 'running' && status !== 'waiting';
}

/** Returns the result of a child for its parent; an output too large for the parent's journal is stored as a blob. */
async function resultOf(
  { store, host }: Stored,
  parent: Context,
  call: SuspendedCall,
  child: Context,
  settled: Exclude<Settled, { status: 'waiting' }>,
): Promise<Command> {
  if (call.inBackground) return outcomeOf(host, call, child, settled);
  const { callId, childRunId, answers } = call;
  const answer = answerFor(omitUndefined({ answers }), child, settled);
  const spent = spentBy(child);
  const command = { type: 'result.received', callId, childRunId, ...answer, spent } as const;
  // As long as the answer that the run takes from it.
  if (answer.answered !== undefined) return command;
  return await boundCommand(command, parent, new RunBlobs({ store, host, runId: parent.runId }));
}

/** The message with the outcome of background work. A long one is cut: the child's journal has all of it. */
function outcomeOf(host: Host, call: SuspendedCall, child: Context, settled: EndOfRun): Command {
  const { callId, name, childRunId: runId } = call;
  const { output, isError, shown, blob } = outputOf(child, settled);
  const whole = typeof output === 'string' ? output : JSON.stringify(output);
  const parts = readContent(output)?.parts ?? [{ type: 'text' as const, text: shown ?? whole }];
  const content = cutParts(parts);
  const isCut = blob !== undefined || shown !== undefined || content.some((part, at) => part !== parts[at]);
  const rest = isCut ? { rest: `Run ${runId} has all of it.` } : {};
  const item = outcomeMessage({ callId, name, runId, isError, ...rest }, content);
  const from = { callId, runId };
  return { type: 'message.received', items: addItemIds([item], host), from, spent: spentBy(child) };
}

/** What the work of a run that has ended gives: the result of its one call, or what an agent answered. */
function outputOf(child: Context, settled: EndOfRun): CallResult {
  const result = child.onlyCall === undefined ? undefined : findResult(child, child.onlyCall);
  const isAnswer = result === undefined || settled.status !== 'finished';
  if (!isAnswer) return result;
  const [item] = child.transcript;
  const tool = item?.type === 'tool_call' ? item.name : '';
  return answerOfChild(child.onlyCall === undefined ? child.agent.name : `The call of ${tool}`, settled);
}

/** The parts with as much text as a model reads. */
function cutParts(parts: readonly Part[]): Part[] {
  let left = MODEL_READS_BYTES;
  return parts.map(part => {
    if (part.type !== 'text') return part;
    const text = cutText(part.text, left);
    left = Math.max(0, left - utf8Length(text));
    return text === part.text ? part : { ...part, text };
  });
}

/** What background work gave, as its run has it; `undefined` if the run is gone or has not ended. */
export async function loadOutcome(
  where: Stored,
  runId: string,
): Promise<{ output: JsonValue; wholeOutput(): Promise<JsonValue> } | undefined> {
  const { store } = where;
  if (!(await isOver(store, runId))) return undefined;
  const { state } = await loadRun(store, runId);
  const settled = describeSettled(state, text => text);
  if (settled === null || settled.status === 'waiting') return undefined;
  const { output, blob } = outputOf(state.context, settled);
  const blobs = new RunBlobs({ ...where, runId });
  return { output, wholeOutput: async () => (blob === undefined ? output : await blobs.load(blob)) };
}

type EndOfRun = Exclude<Settled, { status: 'waiting' }>;

/** Runs of an unknown agent are left to other processes. */
function ignoreUnknown(error: unknown): undefined {
  if (error instanceof EngineError && error.code !== 'run-unknown') throw error;
  return undefined;
}

/** Delivers the result of a child to its parent's journal. `early`: the parent is about to say that it waits for it. */
export async function deliverToParent(
  where: Stored,
  child: Context,
  settled: Exclude<Settled, { status: 'waiting' }>,
): Promise<'delivered' | 'early' | 'unwanted'> {
  const { parent } = child;
  if (parent === null) return 'unwanted';
  const log = await loadLog(where, parent.runId);
  const { context } = log.state;
  if (hasEnded(log.state)) return 'unwanted';
  const call = suspendedCalls(context).find(({ childRunId }) => childRunId === child.runId);
  if (call === undefined) return isAwaitedBy(context, parent.callId) ? 'early' : 'unwanted';
  const command = await resultOf(where, context, call, child, settled);
  return (await log.put([() => command])).accepted ? 'delivered' : 'unwanted';
}

/** Returns the command that cancels a run: a request, if another process drives it and has time left to handle it. */
export async function endRun(
  { store, host, isDead, graceMs }: Cancelling,
  runId: string,
  options: CancelOptions,
): Promise<MakeCommand> {
  const record = await store.get(runId);
  const isDrivenElsewhere = record !== undefined && isDriven(record, host.now(), isDead);
  return state => {
    const now = host.now();
    const isOverdue = now >= (state.context.cancelling?.deadline ?? Number.POSITIVE_INFINITY);
    const leavesToDriver = isDrivenElsewhere && !isAtRest(state) && !isOverdue;
    return leavesToDriver ? requestCancel(options, { now, graceMs }) : cancelRun(state, options);
  };
}

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
  if (hasEnded(log.state)) await watchEnd(where.watchers?.() ?? [], { runId, store: where.store });
  for (const childId of childIdsOf(log.state.context)) await cancelStored(where, childId, runId, reason);
}

/** Returns why a child must not continue: a run above it has ended or no longer waits for it. Otherwise `null`. */
export async function findOrphan(store: Store, { parent }: Context): Promise<string | null> {
  if (parent === null || (await store.get(parent.runId)) === undefined) return null;
  const { state } = await loadRun(store, parent.runId);
  if (hasEnded(state)) return `its parent run ${parent.runId} has ended`;
  if (!isAwaitedBy(state.context, parent.callId))
    return `its parent run ${parent.runId} no longer waits for it`;
  return await findOrphan(store, state.context);
}

/** Children as stored, at any depth, each before its own; `idsIn` chooses. Those of a run that this one forks are not its. */
export async function* childrenBelow(
  store: Store,
  state: ChartState,
  idsIn: (state: ChartState) => string[] = ({ context }) => childIdsOf(context),
): AsyncGenerator<ChartState, void> {
  for (const childId of idsIn(state)) {
    if ((await store.get(childId)) === undefined) continue;
    const { state: child } = await loadRun(store, childId);
    if (child.context.parent?.runId !== state.context.runId) continue;
    yield child;
    yield* childrenBelow(store, child, idsIn);
  }
}

/** Adds what the children wait for, or their unsettled calls if the run was cancelled. A paused child pauses it. */
export async function addChildren(store: Store, state: ChartState, settled: Settled): Promise<Settled> {
  if (settled.status === 'waiting') {
    if (suspendedCalls(state.context).length === 0) return settled;
    const awaitedBy = (above: ChartState) =>
      statusOf(above) === 'waiting' ? suspendedCalls(above.context).map(call => call.childRunId) : [];
    const open = [...settled.open];
    for await (const child of childrenBelow(store, state, awaitedBy))
      if (statusOf(child) === 'waiting') open.push(...describeWaiting(child.context).open);
    return { ...settled, ...partsOf(open), paused: open.some(({ kind }) => kind === 'pause') };
  }
  if (settled.status !== 'cancelled') return settled;
  const unsettled = [...settled.unsettled];
  for await (const { context } of childrenBelow(store, state)) unsettled.push(...listUnsettled(context));
  return { ...settled, unsettled };
}

/** Describes a stored run, including the open calls of its children; returns `null` if the run still has work to do. */
export async function describeWithChildren(
  store: Store,
  state: ChartState,
  showText: (text: string) => string,
): Promise<Settled | null> {
  const settled = describeSettled(state, showText);
  return settled === null ? null : await addChildren(store, state, settled);
}
