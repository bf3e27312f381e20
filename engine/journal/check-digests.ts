import { findCall } from '../../machines/calls.ts';
import type { ChartState } from '../../machines/step.ts';
import { digestCall } from '../../protocol/content/digest.ts';
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
    default:
      return null;
  }
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
