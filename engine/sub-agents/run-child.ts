import type { Call } from '../../machines/context.ts';
import type { Spent } from '../../protocol/event.ts';
import type { Settled } from '../run/settled.ts';
import { Cancelled, type ServiceScope, Stopped } from '../services/service.ts';
import {
  answerOfChild,
  type ChildAnswer,
  type ChildRuns,
  childRunIdOf,
  type RunHandle,
  shareLimits,
  spentBy,
} from './child-runs.ts';

/** A sub-agent's run has ended, or rests and will go on some other time. */
export type ChildOutcome =
  | { type: 'answered'; answer: ChildAnswer; spent: Spent }
  | { type: 'suspended'; childRunId: string }
  /** There may be a child that this store knows nothing of. */
  | { type: 'unknown'; reason: string };

/**
 * Drives the run of a sub-agent's call until it rests or has ended; `null` when there is nothing left that
 * it could spend. It outlives this process; it is cancelled only when the run that made the call is.
 */
export async function runChild(
  { signal, context }: ServiceScope,
  children: ChildRuns,
  { call, key, input }: { call: Call; key: string; input: unknown },
): Promise<ChildOutcome | null> {
  const parent = context();
  const runId = childRunIdOf(key, parent.runId);
  const found = await children.lookFor(runId, parent.runId);
  if (found === 'unknown' && call.attempt > 0) return { type: 'unknown', reason: ELSEWHERE };
  const share = shareLimits(parent, name => children.has(name));
  if (share === null && found !== 'there') return null;
  const limits = share ?? {};
  let isAwaited = true;
  try {
    const child = await children.begin(call.name, {
      ...{ runId, limits, stream: parent.stream },
      parent: { runId: parent.runId, callId: call.callId },
      input: taskOf(input),
      isAwaited: () => isAwaited && !signal.aborted,
    });
    const settled = await settleUnlessStopped(child, signal);
    if (settled.status === 'waiting') return { type: 'suspended', childRunId: runId };
    const answer = answerOfChild(child.context.agent.name, settled);
    return { type: 'answered', answer, spent: spentBy(child.context, false) };
  } finally {
    isAwaited = false;
  }
}

const ELSEWHERE =
  'It was started where this run was before, and what its own run did there is not known in this store.';

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
    if (signal.reason instanceof Cancelled)
      await child.cancel({ reason: 'the run it works for was cancelled' });
    throw new Stopped('This work is not wanted any more.');
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
