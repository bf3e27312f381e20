import { findCall } from '../../machines/calls.ts';
import type { Call, CallResult } from '../../machines/context.ts';
import { readContent, textOfParts } from '../../protocol/content/read-content.ts';
import { messageOf } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { cutText, fitsBytes, MODEL_READS_BYTES } from '../../text/cut-text.ts';
import { maxResultBytesOf } from '../journal/run-blobs.ts';
import type { ChildOutcome } from './drive-child.ts';
import { readOutput } from './read-output.ts';
import type { ServiceScope } from './service.ts';

/**
 * The end of one attempt of a tool's function. `lost`: it is unknown whether the side effect happened; unless
 * `returned`, the function may still be running.
 */
export type Outcome =
  | { type: 'returned'; output: unknown }
  | ChildOutcome
  | { type: 'threw'; error: unknown }
  | { type: 'lost'; reason: string; returned: boolean };

/** A result before shortening; `text` is the JSON of its output. */
export type FullResult = { output: JsonValue; isError: boolean; text: string };

type Ended = Extract<Outcome, { type: 'returned' | 'threw' | 'lost' }>;

/** Whether the function has returned or thrown, so it can have no further side effect. */
export function hasReturned(outcome: Outcome): outcome is Ended {
  return (
    outcome.type === 'returned' || outcome.type === 'threw' || (outcome.type === 'lost' && outcome.returned)
  );
}

/** Returns the result of an attempt that ended late. */
export function describeLate(outcome: Ended): FullResult {
  if (outcome.type !== 'returned') {
    const output = outcome.type === 'threw' ? messageOf(outcome.error) : outcome.reason;
    return { output, isError: true, text: JSON.stringify(output) };
  }
  const read = readOutput(outcome.output);
  if ('fault' in read) return { output: read.fault, isError: false, text: JSON.stringify(read.fault) };
  return { output: read.value, isError: false, text: read.text };
}

/**
 * Returns the result for the journal, shortened if necessary, with the text for the model. `unchecked`: a note for the
 * model about the parts of the input that could not be checked.
 */
export async function boundResult(
  scope: Pick<ServiceScope, 'context' | 'blobs'>,
  { callId, input }: Call,
  { output, isError, text }: FullResult,
  unchecked: string | undefined,
): Promise<CallResult> {
  const { blobs } = scope;
  const context = scope.context();
  const maxBytes = maxResultBytesOf(context, callId);
  const isLarge = blobs !== null && !fitsBytes(text, maxBytes);
  const bound = isLarge ? await blobs.put(output, readText(output, text), maxBytes) : { output };
  const read = readText(bound.output, text);
  const edited = findCall(context, callId)?.edited === true;
  if (!edited && unchecked === undefined && (isLarge || fitsBytes(read, MODEL_READS_BYTES)))
    return { ...bound, isError };
  const note =
    (unchecked === undefined ? '' : `[${unchecked}]\n`) +
    (edited ? `[A person changed the input to ${JSON.stringify(input)}.]\n` : '');
  return { ...bound, isError, shown: note + cutText(read, Math.min(maxBytes, MODEL_READS_BYTES)) };
}

/** The text that the model reads of an output, whose JSON is `text`. */
function readText(output: JsonValue, text: string): string {
  const content = readContent(output);
  if (content !== undefined) return textOfParts(content.parts);
  return typeof output === 'string' ? output : text;
}
