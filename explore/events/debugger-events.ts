import type { Call, Context } from '../../machines/context.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import type { Breakpoint } from '../../protocol/debugger/breakpoint.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import type { Environment } from '../environment/environment.ts';
import { makeTurn, type UntimedEvent, type UntimedOf } from './make-events.ts';

/** Returns edits of the latest turn: its calls are dropped, or the first is changed. */
export function listTurnEdits(place: string, context: Context, environment: Environment): UntimedEvent[] {
  const { calls, turn, lastTurn } = context;
  if (!place.startsWith('resting') || lastTurn === null) return [];
  const [first, ...others] = calls;
  const changed = first === undefined ? [] : [editedCall(first, environment), ...others.map(qualifiedOf)];
  return [
    editingTurn(turn.number, []),
    ...(first === undefined ? [] : [editingTurn(turn.number, changed)]),
    ...(environment.invalidEvents ? [editingTurn(turn.number + 1, [])] : []),
  ];
}

function editingTurn(turn: number, calls: QualifiedCall[]): UntimedOf<'turn.edited'> {
  const { items, text } = makeTurn({ calls, text: 'mine' });
  return { type: 'turn.edited', turn, text, items, calls };
}

/** Returns edits of the calls, also of those that have started, whose edits must be ignored. */
export function listCallEdits({ calls }: Context, environment: Environment): UntimedEvent[] {
  return calls.flatMap(call => {
    const edit: UntimedOf<'call.edited'> = {
      type: 'call.edited',
      callId: call.callId,
      digest: call.digest,
      call: editedCall(call, environment),
    };
    return [edit, ...(environment.invalidEvents ? [{ ...edit, digest: 'of something else' }] : [])];
  });
}

function editedCall(call: Call, environment: Environment): QualifiedCall {
  const input = environment.editedInput(call);
  return { ...qualifiedOf(call), input, digest: digestCall(call.name, input) };
}

function qualifiedOf(call: Call): QualifiedCall {
  const { status, attempt, key, edited, doubt, childRunId, result, ...qualified } = call;
  return qualified;
}

const BREAKPOINTS: readonly Breakpoint[] = [
  { id: 'spending' },
  { id: 'once', next: 'executeTools', once: true },
  { id: 'approval', next: 'interruptForApproval' },
];

/** Returns one breakpoint at a time, and their removal. */
export function listBreakpoints({ breakpoints }: Context): UntimedEvent[] {
  if (breakpoints.length > 0) return [{ type: 'breakpoints.set', breakpoints: [] }];
  return BREAKPOINTS.map(one => ({ type: 'breakpoints.set', breakpoints: [one] }));
}
