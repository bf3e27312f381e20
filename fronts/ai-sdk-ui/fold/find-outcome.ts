import type { Context } from '../../../machines/context.ts';
import { findResult } from '../../../machines/tool-results.ts';
import type { JsonValue } from '../../../protocol/json.ts';

/** The result of a call. */
export type Outcome = { output: JsonValue; isError: boolean };

/** Returns the result of a settled call. A call that an edit removed counts as an error. */
export function findOutcome(context: Context, callId: string): Outcome {
  try {
    return findResult(context, callId);
  } catch {
    return { output: 'The call has no result.', isError: true };
  }
}
