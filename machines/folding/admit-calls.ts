// machines/folding: the larger cases of `fold`: new calls, decisions about them, edits, and what is kept of
// the last turn.

import type { QualifiedCall } from '../../protocol/event.ts';
import { findCall, openRound } from '../calls.ts';
import type { Call, Context } from '../context.ts';
import { limitsOf } from '../limits.ts';
import { rejection } from './decisions.ts';

/**
 * Opens a round of calls, each with the status that approvals, sticky rules and limits give it. With `refusal`, none of
 * them runs. A call of the current round stays as it is.
 */
export function admitCalls(context: Context, qualified: QualifiedCall[], refusal: string | null): Context {
  let { toolCalls, deniedCalls } = context;
  const limits = limitsOf(context);
  const calls = qualified.map((call): Call => {
    const known = findCall(context, call.callId);
    if (known !== undefined) return known;
    const rest = { ...call, attempt: 0 };
    const refusedCall = (output: string): Call => ({
      ...rest,
      status: 'settled',
      result: { output, isError: true },
    });
    if (refusal !== null) return refusedCall(refusal);
    if (call.error !== undefined) return refusedCall(call.error);
    const counts = call.executedBy === 'engine';
    if (counts && toolCalls >= limits.toolCalls) {
      deniedCalls += 1;
      return refusedCall(`Not run: the run's limit of ${limits.toolCalls} tool calls is reached.`);
    }
    if (counts) toolCalls += 1;
    const rule = call.gate ? context.sticky.find(({ tool }) => tool === call.name) : undefined;
    if (rule?.decision === 'reject') return refusedCall(rejection(rule.reason));
    if (call.gate && rule === undefined) return { ...rest, status: 'gated' };
    return { ...rest, status: call.executedBy === 'client' ? 'waiting' : 'ready' };
  });
  const failed = qualified.filter(call => refusal === null && call.error !== undefined);
  const counted = failed.reduce((state, { digest }) => countOutcome(state, digest, true), context);
  return openRound({ ...counted, toolCalls, deniedCalls }, calls);
}

/** Counts consecutive failures of a call, if the run has a limit on them. */
export function countOutcome(context: Context, digest: string, failed: boolean): Context {
  if (context.config.limits.repeatedFailures === undefined) return context;
  const { [digest]: before = 0, ...others } = context.failures;
  return { ...context, failures: failed ? { ...others, [digest]: before + 1 } : others };
}
