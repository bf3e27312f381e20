import { callsWith } from '../../machines/calls.ts';
import type { Call, Context } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import { toolResults } from '../../machines/tool-results.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { OpenCall, Settled } from '../../protocol/run-view.ts';
import type { Host } from '../driver/host.ts';
import { isAtRest, statusOf } from '../journal/load-run.ts';

export type { OpenCall, Settled };

/** What `settled()` returns in this state; `null` while the run is running. `showText` filters the answer's text. */
export function describeSettled(state: ChartState, showText: (text: string) => string): Settled | null {
  const { context } = state;
  const spent = { usage: context.usage, turns: context.turns };
  switch (statusOf(state)) {
    case 'running':
      return null;
    case 'finished':
      return { ...spent, status: 'finished', ...describeAnswer(context, showText) };
    case 'failed':
      return { ...spent, status: 'failed', error: describeError(context) };
    case 'cancelled':
      return { ...spent, status: 'cancelled', unsettled: listOpenCalls(context) };
    case 'waiting':
      return {
        ...spent,
        status: 'waiting',
        approvals: callsWith(context, 'gated').map(call => openCall(context, call)),
        results: callsWith(context, 'waiting').map(call => openCall(context, call)),
        doubts: callsWith(context, 'doubted').map(call => openCall(context, call)),
        paused: context.paused,
        ...omitUndefined({ reason: context.quarantined ?? undefined }),
      };
  }
}

/** Like `describeSettled`, but also `null` if the timer of a resting run is due. */
export function describeNow(
  state: ChartState,
  { host, showText }: { host: Pick<Host, 'now'>; showText(text: string): string },
): Settled | null {
  const { timer } = state.context;
  if (isAtRest(state) && timer !== null && timer <= host.now()) return null;
  return describeSettled(state, showText);
}

function describeAnswer(context: Context, showText: (text: string) => string) {
  const { answer, next, inbox } = context;
  const reason = next?.type === 'finish' ? next.reason : undefined;
  return {
    text: showText(answer?.text ?? ''),
    results: toolResults(context),
    unread: inbox,
    ...omitUndefined({ output: answer?.output, incomplete: reason === undefined ? undefined : { reason } }),
  };
}

function describeError({ next }: Context): { code: string; message: string } {
  if (next?.type !== 'fail') throw new Error('expected the next action of a failed run to be "fail"');
  return { code: next.code, message: next.message };
}

/** The calls of the open round that have no result. */
export function listOpenCalls(context: Context): OpenCall[] {
  return context.calls.filter(call => call.status !== 'settled').map(call => openCall(context, call));
}

function openCall(context: Context, call: Call): OpenCall {
  const reason = call.doubt ?? call.reason;
  return {
    callId: call.callId,
    runId: call.childRunId ?? context.runId,
    name: call.name,
    input: call.input,
    digest: call.digest,
    sideEffect: call.sideEffect,
    status: call.status === 'settled' ? 'ready' : call.status,
    ...omitUndefined({ waitsFor: call.childRunId, reason, expiresAt: call.expiresAt }),
  };
}
