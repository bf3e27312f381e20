import type { Call } from '../../machines/context.ts';
import type { Spent } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Settled } from '../log/settled.ts';
import {
  answerOfChild,
  type ChildAnswer,
  childRunIdOf,
  type RunHandle,
  type SubAgentRuns,
  shareLimits,
  spentBy,
} from '../sub-agents/sub-agent-runs.ts';
import { Cancelled, type ServiceScope, Stopped, Yielding } from './service.ts';

/** The outcome of driving a child run: it has ended, or it rests and resumes later. */
export type ChildOutcome =
  | { type: 'answered'; answer: ChildAnswer; spent: Spent }
  | { type: 'suspended'; childRunId: string }
  /** The child run may exist in another store. */
  | { type: 'unknown'; reason: string }
  /** A limit of its parent leaves nothing for it, so no run was started. */
  | { type: 'refused'; reason: string };

/**
 * Drives the child run of a call until it rests or has ended. The child run survives this process; it is cancelled only if its parent is cancelled, and given up with its parent.
 */
export async function driveChild(
  { stop, yielding, context }: ServiceScope,
  subAgents: SubAgentRuns,
  { call, key, input }: { call: Call; key: string; input: unknown },
): Promise<ChildOutcome> {
  const signal = AbortSignal.any([stop.signal, yielding]);
  const parent = context();
  const runId = childRunIdOf(key, parent.runId);
  const found = await subAgents.lookFor(runId, parent.runId);
  if (found === 'unknown' && call.attempt > 0) return { type: 'unknown', reason: IN_ANOTHER_STORE };
  const share = shareLimits(parent, name => subAgents.has(name));
  if (share.type === 'spent' && found !== 'there') return { type: 'refused', reason: share.reason };
  const limits = share.type === 'spent' ? {} : share.limits;
  let isAwaited = true;
  try {
    const child = await subAgents.begin(call.name, {
      runId,
      limits,
      stream: parent.stream,
      runContext: parent.runContext,
      parent: { runId: parent.runId, callId: call.callId },
      input: taskOf(input),
      isAwaited: () => isAwaited && !signal.aborted,
      ...omitUndefined({ inheritedLabels: parent.labels }),
    });
    const settled = await settleUnlessStopped(child, signal);
    if (settled.status === 'waiting') return { type: 'suspended', childRunId: runId };
    const answer = answerOfChild(child.context.agent.name, settled);
    // The parent's clock counts the time of its batch, so the child's time must not count again.
    return { type: 'answered', answer, spent: { ...spentBy(child.context), activeMs: 0 } };
  } finally {
    isAwaited = false;
  }
}

const IN_ANOTHER_STORE =
  'It was started when this run was in another store, and this store has no record of its child run.';

function taskOf(input: unknown): string {
  return typeof input === 'object' && input !== null && 'input' in input ? String(input.input) : '';
}

async function settleUnlessStopped(child: RunHandle, signal: AbortSignal): Promise<Settled> {
  let stop = () => {};
  const stopped = new Promise<'stopped'>(resolve => {
    stop = () => resolve('stopped');
  });
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const settled = await Promise.race([child.settled(), stopped]);
    if (settled !== 'stopped') return settled;
    if (signal.reason instanceof Cancelled) await child.cancel({ reason: 'its parent run was cancelled' });
    if (signal.reason instanceof Yielding) await child.yield(signal.reason);
    throw new Stopped('The call is no longer needed.');
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
