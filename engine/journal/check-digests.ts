import { findCall } from '../../machines/calls.ts';
import type { ChartState } from '../../machines/step.ts';
import { digestCall, digestOf } from '../../protocol/content/digest.ts';
import { callsOf, type QualifiedCall, type RunEvent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { countRedactions } from '../../protocol/redaction.ts';

/** The first digest of a call or decision that does not match its input, worded to follow "entry n". Redacted ones pass. */
export function checkDigests(state: ChartState | null, event: RunEvent): string | null {
  switch (event.type) {
    case 'turn.completed':
    case 'turn.edited':
    case 'call.edited':
    case 'transcript.edited': {
      const changed = callsOf(event).find(call => !isOfInput(call));
      return changed === undefined
        ? null
        : `has call ${changed.callId} with a digest that does not match its input`;
    }
    case 'approval.decided':
      return checkDecision(state, event);
    case 'review.requested':
    case 'review.decided':
      return checkReview(state, event);
    default:
      return null;
  }
}

/** A review that is no longer open is not compared. */
function checkReview(
  state: ChartState | null,
  event: Extract<RunEvent, { type: 'review.requested' | 'review.decided' }>,
): string | null {
  const { answer, review } = state?.context ?? {};
  const before = answer?.text ?? '';
  const isRequest = event.type === 'review.requested';
  const reviewed = isRequest ? (event.text ?? before) : before;
  if (!isRequest && review?.id !== event.reviewId) return null;
  if (event.digest !== digestOf(reviewed) && !isRedacted(reviewed))
    return `has review ${event.reviewId} with a digest that does not match the answer`;
  if (isRequest || event.decision.type !== 'approve') return null;
  const { text, editDigest } = event.decision;
  if (text === undefined || editDigest === digestOf(text) || isRedacted(text)) return null;
  return `changes the answer of review ${event.reviewId} with a digest that does not match it`;
}

type Decided = Extract<RunEvent, { type: 'approval.decided' }>;

function checkDecision(state: ChartState | null, { callId, digest, decision }: Decided): string | null {
  const call = state === null ? undefined : findCall(state.context, callId);
  if (call === undefined) return null;
  const journaled = isOfInput(call) ? call.digest : digestCall(call.name, call.input);
  if (digest !== journaled)
    return `decides on call ${callId} with digest ${digest}, but its journaled input has digest ${journaled}`;
  if (decision.type !== 'approve' || decision.input === undefined) return null;
  const edited = digestCall(call.name, decision.input);
  if (decision.editDigest === edited || isRedacted(decision.input)) return null;
  return `edits call ${callId} with digest ${decision.editDigest ?? 'none'}, but the edited input has digest ${edited}`;
}

function isOfInput({ name, input, digest }: QualifiedCall): boolean {
  return digest === digestCall(name, input) || isRedacted(input);
}

function isRedacted(input: JsonValue): boolean {
  return countRedactions(input) > 0;
}
