import type { Call, Context } from '../../machines/context.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import type { Environment } from '../environment/environment.ts';
import { makeTurn, saying, type UntimedEvent, type UntimedOf } from './make-events.ts';
import { nameCall } from './turn-reports.ts';

/** Returns what people may do in any state: send, pause, step, cancel. */
export function listClientEvents(context: Context, { mostUnread = 1 }: Environment): UntimedEvent[] {
  const { inbox, paused, steps, turn, now, calls, cancelling } = context;
  const text = `message ${turn.number}, ${now}, ${inbox.length}`;
  const unsettled = calls.filter(({ status }) => status !== 'settled').map(({ callId }) => callId);
  if (cancelling !== null) return [{ type: 'run.cancelled', unsettled }];
  return [
    ...(inbox.length < mostUnread ? [saying(text)] : []),
    ...(inbox.length + 2 <= mostUnread ? [sayingTwice(text)] : []),
    { type: paused ? 'run.unpaused' : 'pause.requested' },
    ...(steps === 0 ? [{ type: 'step.requested' } as const] : []),
    { type: 'cancel.requested', deadline: now + 1000 },
    { type: 'run.cancelled', unsettled },
  ];
}

const sayingTwice = (text: string): UntimedEvent => ({
  type: 'message.received',
  items: [userMessage(text), userMessage(`${text}, and more`)],
});

/** Returns edits of the transcript and the parameters. A transcript is edited at rest, and keeps every call that may have run. */
export function listEdits(place: string, context: Context): UntimedEvent[] {
  const { calls, transcript, turns, lastTurn, edited } = context;
  const set: UntimedEvent = { type: 'params.changed', params: { toolChoice: 'auto' } };
  if (edited || !place.startsWith('resting')) return [set];
  const message = userMessage(`edited ${turns}`);
  const answer: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'mine' }] };
  const known = nameCall(
    { name: 'look', input: {}, sideEffect: 'none', reconcilable: false, executedBy: 'engine', gate: false },
    `known_${turns}`,
    context,
  );
  const results = [{ callId: known.callId, output: 'known', isError: false }];
  const kept = calls.map(({ callId, name, input, digest, sideEffect, reconcilable, executedBy, gate }) => ({
    callId,
    name,
    input,
    digest,
    sideEffect,
    reconcilable,
    executedBy,
    gate,
  }));
  return [
    set,
    editing([message], []),
    ...(lastTurn === null ? [] : [editing([message, answer], [])]),
    { ...editing([...makeTurn({ calls: [known] }).items, message], [known]), results },
    ...(calls.length === 0 ? [] : [editing([...transcript, message], kept)]),
  ];
}

const editing = (items: Item[], calls: QualifiedCall[]): UntimedOf<'transcript.edited'> => ({
  type: 'transcript.edited',
  items,
  calls,
});

/** Returns the decisions about a call. Decisions that its status does not allow become invalid events. */
export function listDecisions(context: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, status, childRunId } = call;
  const isClients = status === 'waiting' && childRunId === undefined;
  return [
    ...(status === 'gated' ? listApprovals(context, call, environment) : []),
    ...(status !== 'gated' && environment.invalidEvents ? [approving(call)] : []),
    ...(isClients || environment.invalidEvents
      ? environment
          .outputs(call.name)
          .slice(0, isClients ? undefined : 1)
          .map(output => receiving(callId, output))
      : []),
    ...(status === 'doubted' || environment.invalidEvents ? [resolving(callId, { type: 'retry' })] : []),
    ...(isClients ? [{ ...receiving(callId, 'it broke'), isError: true }] : []),
    ...(status === 'waiting' && childRunId !== undefined
      ? [
          { ...receiving(callId, 'found out'), childRunId, spent: SPENT },
          { ...receiving(callId, 'it failed'), childRunId, spent: SPENT, isError: true },
        ]
      : []),
    ...(status === 'doubted'
      ? [
          resolving(callId, { type: 'happened', output: 'it happened' }),
          resolving(callId, { type: 'failed', reason: 'it did not work' }),
        ]
      : []),
  ];
}

function listApprovals({ now, sticky }: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, name, digest, expiresAt } = call;
  const input = environment.editedInput(call);
  const decided = { type: 'approval.decided', callId, digest } as const;
  const refusals: UntimedOf<'approval.decided'>[] = [
    { ...decided, decision: { type: 'reject', reason: 'no' } },
    { ...decided, decision: { type: 'answer', output: 'a person answered' } },
  ];
  if (environment.approvals === false) return refusals;
  const decisions: UntimedOf<'approval.decided'>[] = [
    approving(call),
    ...refusals,
    { ...decided, decision: { type: 'approve', input, editDigest: digestCall(name, input) } },
  ];
  return [
    ...decisions,
    ...(environment.sticky && sticky.length === 0
      ? [
          { ...approving(call), sticky: true },
          { ...approving(call), decision: { type: 'reject' as const }, sticky: true },
        ]
      : []),
    ...(environment.invalidEvents
      ? decisions.map(decision => ({ ...decision, digest: 'of something else' }))
      : []),
    ...(expiresAt === undefined ? [] : listLate(decisions, Math.max(expiresAt, now + 1), environment)),
  ];
}

/** Decisions after the expiry of a call whose timer has not fired yet. */
function listLate(
  decisions: readonly UntimedEvent[],
  at: number,
  { invalidEvents }: Environment,
): UntimedEvent[] {
  return decisions.slice(0, invalidEvents ? undefined : 1).map(decision => ({ ...decision, at }));
}

const approving = ({ callId, digest }: QualifiedCall): UntimedOf<'approval.decided'> => ({
  type: 'approval.decided',
  callId,
  digest,
  decision: { type: 'approve' },
});

/** Returns the result that a client sends for its call. */
export const receiving = (callId: string, output: JsonValue): UntimedOf<'result.received'> => ({
  type: 'result.received',
  callId,
  output,
  isError: false,
});

type Resolution = UntimedOf<'doubt.resolved'>['resolution'];

/** Returns what a person decides about a call in doubt. */
export const resolving = (callId: string, resolution: Resolution): UntimedEvent => ({
  type: 'doubt.resolved',
  callId,
  resolution,
});

export const QUARANTINED: UntimedEvent = {
  type: 'run.quarantined',
  reason: 'five processes in a row ended here',
};

/** What the run of a sub-agent spends. */
const SPENT = { turns: 1, toolCalls: 1, usage: null, cost: 0, activeMs: 5 };
