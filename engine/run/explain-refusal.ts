import { findCall } from '../../machines/calls.ts';
import { type ChartState, next } from '../../machines/step.ts';
import type { EngineErrorCode } from '../../protocol/error.ts';
import type { ChartEvent, JournalEntry } from '../../protocol/event.ts';
import { given } from '../../protocol/json.ts';
import { hasEnded } from '../journal/load-run.ts';

/** `by` is who decided before, where somebody did. */
export type Refusal = { accepted: false; code: EngineErrorCode; message: string; by?: string };

export type CommandResult = { accepted: true } | Refusal;

/** `index`: which of the submitted commands is refused, from 0; none of them was taken. */
export type SubmitResult = { accepted: true } | (Refusal & { index: number });

export function withoutPlace(result: SubmitResult): CommandResult {
  if (result.accepted) return result;
  const { index: _, ...refusal } = result;
  return refusal;
}

export function refuse(code: EngineErrorCode, message: string, by?: string): Refusal {
  return { accepted: false, code, message, ...given({ by }) };
}

/** Why the chart does not take the first of these inputs that it does not take; `null` when it takes them all. */
export function findRefusal(
  state: ChartState,
  events: readonly ChartEvent[],
  journal: readonly JournalEntry[],
): (Refusal & { index: number }) | null {
  const known = [...journal];
  let before = state;
  for (const [index, event] of events.entries()) {
    const step = next(before, event);
    if (!step.handled) return { ...explainRefusal(before, event, known), index };
    before = step.state;
    known.push({ seq: known.length + 1, event });
  }
  return null;
}

/** Why the chart does not take an input now, for the person who gave it. */
function explainRefusal(state: ChartState, event: ChartEvent, journal: readonly JournalEntry[]): Refusal {
  const { runId } = state.context;
  if ('callId' in event) return explainCallRefusal(state, event, journal);
  if (hasEnded(state)) {
    return refuse('run-ended', `Run ${runId} has ended. Start a new run with { continues: '${runId}' }.`);
  }
  if (event.type === 'transcript.edited') {
    return refuse(
      'refused',
      `Run ${runId} does not take an edit now: it must rest between turns (pause it), and no call that was started may be left out.`,
    );
  }
  if (event.type === 'pause.requested') return refuse('refused', `Run ${runId} is paused already.`);
  if (event.type === 'run.unpaused') return refuse('refused', `Run ${runId} is not paused.`);
  return refuse('refused', `Run ${runId} does not take ${event.type} now.`);
}

type CallEvent = Extract<ChartEvent, { callId: string }>;

function explainCallRefusal(state: ChartState, event: CallEvent, journal: readonly JournalEntry[]): Refusal {
  const { callId } = event;
  const decided = findDecision(journal, event);
  if (decided !== undefined) {
    const who = decided.by ?? 'somebody';
    const when = new Date(decided.at).toISOString();
    return refuse('already-decided', `Call ${callId} was ${decided.what} by ${who} at ${when}.`, decided.by);
  }
  const call = findCall(state.context, callId);
  if (call === undefined && !wasCalled(journal, callId)) {
    return refuse('call-unknown', `Run ${state.context.runId} has no call ${callId}.`);
  }
  if (call?.status === 'gated' && event.type === 'approval.decided' && call.digest !== event.digest) {
    return refuse(
      'wrong-digest',
      `Call ${callId} has digest ${call.digest}: look at it again and decide anew.`,
    );
  }
  if (event.type === 'approval.decided' && hadExpired(journal, event))
    return refuse('expired', `The approval of call ${callId} has expired.`);
  if (hasEnded(state)) return refuse('run-ended', `Run ${state.context.runId} has ended.`);
  return refuse(
    'call-not-open',
    `Call ${callId} does not wait for this: it is ${call?.status ?? 'settled'}.`,
  );
}

/** The latest decision of the same kind: a doubt is resolved by itself, after the call was approved. */
function findDecision(journal: readonly JournalEntry[], { type, callId }: CallEvent) {
  for (const { event } of journal.toReversed()) {
    switch (event.type) {
      case 'approval.decided':
        if (event.callId === callId && type !== 'doubt.resolved')
          return { ...event, what: PAST_TENSE[event.decision.type] };
        break;
      case 'result.received':
        if (event.callId === callId && type !== 'doubt.resolved') return { ...event, what: 'answered' };
        break;
      case 'doubt.resolved':
        if (event.callId === callId && type === 'doubt.resolved') return { ...event, what: 'resolved' };
        break;
      default:
    }
  }
  return undefined;
}

const PAST_TENSE = { approve: 'approved', reject: 'rejected', answer: 'answered' } as const;

function wasCalled(journal: readonly JournalEntry[], callId: string): boolean {
  return journal.some(
    ({ event }) => event.type === 'turn.completed' && event.calls.some(call => call.callId === callId),
  );
}

/** Whether the time to decide about a call was over when the decision came, noticed or not. */
function hadExpired(
  journal: readonly JournalEntry[],
  { callId, at }: { callId: string; at: number },
): boolean {
  return journal.some(
    ({ event }) =>
      event.type === 'turn.completed' &&
      event.calls.some(
        call => call.callId === callId && call.expiresAt !== undefined && call.expiresAt <= at,
      ),
  );
}
