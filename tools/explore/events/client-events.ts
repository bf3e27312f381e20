import { digestCall } from '../../../engine/journal/digest.ts';
import type { Call, Context } from '../../../machines/context.ts';
import type { QualifiedCall } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { Environment } from '../environment/environment.ts';
import { makeTurn, saying, type Told, type ToldOf } from './make-events.ts';
import { nameCall } from './turn-reports.ts';

/** What people may want of any run. */
export function listClientEvents(context: Context, { mostUnread = 1 }: Environment): Told[] {
  const { inbox, paused, steps, turn, now, calls, cancelling } = context;
  const said = `message ${turn.number}, ${now}, ${inbox.length}`;
  const unsettled = calls.filter(({ status }) => status !== 'settled').map(({ callId }) => callId);
  if (cancelling !== null) return [{ type: 'run.cancelled', unsettled }];
  return [
    ...(inbox.length < mostUnread ? [saying(said)] : []),
    ...(inbox.length + 2 <= mostUnread ? [sayingTwice(said)] : []),
    { type: paused ? 'run.unpaused' : 'pause.requested' },
    ...(steps === 0 ? [{ type: 'step.requested' } as const] : []),
    { type: 'cancel.requested', deadline: now + 1000 },
    { type: 'run.cancelled', unsettled },
  ];
}

const sayingTwice = (text: string): Told => ({
  type: 'message.received',
  items: [userMessage(text), userMessage(`${text}, and more`)],
});

/** Edits are for runs at rest, and leave out no call that was handed over or may have happened. */
export function listEdits(place: string, context: Context): Told[] {
  const { calls, transcript, turns, lastTurn, edited } = context;
  const set: Told = { type: 'params.changed', params: { toolChoice: 'auto' } };
  if (edited || !place.startsWith('resting')) return [set];
  const says = userMessage(`edited ${turns}`);
  const answers: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'mine' }] };
  const known = nameCall(
    { name: 'look', input: {}, sideEffect: 'none', reconcilable: false, executedBy: 'engine', gate: false },
    `known_${turns}`,
    context,
  );
  const results = [{ callId: known.callId, output: 'known', isError: false }];
  const kept = calls.map(({ callId, name, input, digest, sideEffect, reconcilable, executedBy, gate }) => ({
    ...{ callId, name, input, digest, sideEffect, reconcilable, executedBy, gate },
  }));
  return [
    set,
    editing([says], []),
    ...(lastTurn === null ? [] : [editing([says, answers], [])]),
    { ...editing([...makeTurn({ calls: [known] }).items, says], [known]), results },
    ...(calls.length === 0 ? [] : [editing([...transcript, says], kept)]),
  ];
}

const editing = (items: Item[], calls: QualifiedCall[]): ToldOf<'transcript.edited'> => ({
  type: 'transcript.edited',
  items,
  calls,
});

/** What people and clients say about a call; what its status does not ask for only where strangers are let in. */
export function listDecisions(context: Context, call: Call, environment: Environment): Told[] {
  const { callId, status } = call;
  return [
    ...(status === 'gated'
      ? listApprovals(context, call, environment)
      : environment.unfit
        ? [approving(call)]
        : []),
    ...(status === 'waiting' || environment.unfit
      ? environment
          .outputs(call.name)
          .slice(0, status === 'waiting' ? undefined : 1)
          .map(output => receiving(callId, output))
      : []),
    ...(status === 'doubted' || environment.unfit ? [resolving(callId, { type: 'retry' })] : []),
    ...(status === 'waiting' ? [{ ...receiving(callId, 'it broke'), isError: true }] : []),
    ...(status === 'waiting' && call.childRunId !== undefined
      ? [{ ...receiving(callId, 'found out'), spent: SPENT }]
      : []),
    ...(status === 'doubted'
      ? [
          resolving(callId, { type: 'happened', output: 'it happened' }),
          resolving(callId, { type: 'failed', reason: 'it did not work' }),
        ]
      : []),
  ];
}

function listApprovals({ now, sticky }: Context, call: Call, environment: Environment): Told[] {
  const { callId, name, digest, expiresAt } = call;
  const input = environment.editedInput(call);
  const decided = { type: 'approval.decided', callId, digest } as const;
  const decisions: ToldOf<'approval.decided'>[] = [
    approving(call),
    { ...decided, decision: { type: 'reject', reason: 'no' } },
    { ...decided, decision: { type: 'answer', output: 'a person answered' } },
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
    ...(environment.unfit ? decisions.map(decision => ({ ...decision, digest: 'of something else' })) : []),
    ...(expiresAt === undefined ? [] : listLate(decisions, Math.max(expiresAt, now + 1), environment)),
  ];
}

/** Too late by the clock, for a call that nobody has taken back yet. */
function listLate(decisions: readonly Told[], at: number, { unfit }: Environment): Told[] {
  return decisions.slice(0, unfit ? undefined : 1).map(decision => ({ ...decision, at }));
}

export const approving = ({ callId, digest }: QualifiedCall): ToldOf<'approval.decided'> => ({
  type: 'approval.decided',
  callId,
  digest,
  decision: { type: 'approve' },
});

export const receiving = (callId: string, output: JsonValue): ToldOf<'result.received'> => ({
  type: 'result.received',
  callId,
  output,
  isError: false,
});

type Resolution = ToldOf<'doubt.resolved'>['resolution'];

export const resolving = (callId: string, resolution: Resolution): Told => ({
  type: 'doubt.resolved',
  callId,
  resolution,
});

export const QUARANTINED: Told = { type: 'run.quarantined', reason: 'five processes in a row ended here' };

/** What a sub-agent's run spends. */
const SPENT = { turns: 1, toolCalls: 1, usage: null, cost: 0, activeMs: 5 };
