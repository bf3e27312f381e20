import { findCall } from '../machines/calls.ts';
import type { ChartState } from '../machines/step.ts';
import type { QualifiedCall, RunEvent } from '../protocol/event.ts';
import type { JsonValue } from '../protocol/json.ts';
import { countRedactions } from '../protocol/redaction.ts';
import { digestCall } from './digest.ts';

/**
 * What is wrong with the digests of an event, given the state before it: those of calls have to be of the
 * inputs they stand beside, those of a decision of the call's journaled input, and of the edit if it has one.
 * Where an input was redacted its recorded digest stands for it. `null` when nothing is.
 */
export function checkDigests(state: ChartState | null, event: RunEvent): string | null {
  switch (event.type) {
    case 'turn.completed':
    case 'transcript.edited': {
      const changed = event.calls.find(call => !isOfInput(call));
      return changed === undefined
        ? null
        : `has call ${changed.callId} with a digest that is not of its input`;
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
    return `decides on call ${callId} with digest ${digest}, and its journaled input has ${journaled}`;
  if (decision.type !== 'approve' || decision.input === undefined) return null;
  const edited = digestCall(call.name, decision.input);
  if (decision.editDigest === edited || isRedacted(decision.input)) return null;
  return `edits call ${callId} with digest ${decision.editDigest ?? 'none'}, and the edited input has ${edited}`;
}

function isOfInput({ name, input, digest }: QualifiedCall): boolean {
  return digest === digestCall(name, input) || isRedacted(input);
}

function isRedacted(input: JsonValue): boolean {
  return countRedactions(input) > 0;
}
