import * as z from 'zod';
import type { Part as ItemPart, MessageItem } from '../../protocol/item.ts';
import { isJsonObject, omitUndefined } from '../../protocol/json.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { Question } from '../served/questions.ts';
import { A2aError } from './a2a-error.ts';
import type { GivenPart } from './wire.ts';

/** The media type of a part without one. */
const ANY_TYPE = 'application/octet-stream';

/** A message as an item of the transcript. Throws `invalid-params` for a part that is not one of the four kinds. */
export function readItem(parts: readonly GivenPart[]): MessageItem {
  return { type: 'message', role: 'user', content: parts.map(readPart) };
}

function readPart({ text, data, raw, url, filename, mediaType }: GivenPart): ItemPart {
  const given = [text, data, raw, url].filter(each => each !== undefined);
  if (given.length !== 1)
    throw new A2aError('invalid-params', 'Each part must have exactly one of text, data, raw and url.');
  if (text !== undefined) return { type: 'text', text };
  if (data !== undefined) return { type: 'text', text: JSON.stringify(data) };
  const source = url ?? `data:${mediaType ?? ANY_TYPE};base64,${raw}`;
  if (mediaType?.startsWith('image/') === true) return { type: 'image', url: source };
  return { type: 'file', url: source, ...omitUndefined({ name: filename, mediaType }) };
}

const decisionSchema = z.looseObject({
  callId: z.exactOptional(z.string()),
  approved: z.exactOptional(z.boolean()),
  input: z.exactOptional(z.json()),
  reason: z.exactOptional(z.string()),
  output: z.exactOptional(z.json()),
  isError: z.exactOptional(z.boolean()),
  happened: z.exactOptional(z.literal(true)),
  failed: z.exactOptional(z.string()),
  retry: z.exactOptional(z.literal(true)),
});
type Decision = z.infer<typeof decisionSchema>;

/** The members that make a data part a decision. */
const DECISIONS = ['approved', 'output', 'happened', 'failed', 'retry'] as const;

/**
 * Converts a message to a waiting run's task to commands: data parts decide calls, and text continues the run.
 * If one call alone waits, a text answers a client tool, and the texts `approve` and `reject` decide an approval.
 * Throws `invalid-params` for a decision about a call that is not open, and for a decision that does not fit the call.
 */
export function readCommands(
  parts: readonly GivenPart[],
  questions: readonly Question[],
  by: string,
): RunCommand[] {
  const read = parts.map(part => ({ part, found: readDecision(part) }));
  const decisions = read.flatMap(({ found }) => found);
  const others = read.filter(({ found }) => found.length === 0).map(({ part }) => part);
  const commands = decisions.map(decision => ({ ...commandFor(decision, questions), by }));
  if (others.length === 0) return commands;
  const [only, second] = questions;
  if (commands.length === 0 && only !== undefined && second === undefined) {
    const decision = decisionOfText(others, only);
    if (decision !== null) return [{ ...commandFor(decision, questions), by }];
  }
  return [...commands, { type: 'send', message: [readItem(others)], by }];
}

/** Throws `invalid-params` for data for a decision that is malformed or ambiguous. */
function readDecision({ data }: GivenPart): Decision[] {
  if (!isJsonObject(data)) return [];
  const given = DECISIONS.filter(decision => data[decision] !== undefined);
  if (given.length === 0) return [];
  const decision = decisionSchema.safeParse(data);
  if (!decision.success) {
    const [issue] = decision.error.issues;
    const problem = `${issue?.path.join('.')}: ${issue?.message}`;
    throw new A2aError('invalid-params', `The decision is invalid: ${problem}.`);
  }
  // The output of a call that happened belongs to that decision.
  const kinds = given.filter(kind => kind !== 'output' || data.happened === undefined);
  if (kinds.length > 1)
    throw new A2aError('invalid-params', `A decision says one thing; this says ${kinds.join(' and ')}.`);
  return [decision.data];
}

/** The decision in a message of text about the only open call. */
function decisionOfText(parts: readonly GivenPart[], { call: { kind } }: Question): Decision | null {
  const text = parts.map(part => part.text ?? '').join('\n');
  if (parts.some(part => part.text === undefined)) return null;
  if (kind === 'result') return { output: text };
  const word = text.trim().toLowerCase();
  if (kind !== 'approval' || (word !== 'approve' && word !== 'reject')) return null;
  return { approved: word === 'approve' };
}

function commandFor(decision: Decision, questions: readonly Question[]): RunCommand {
  const { key, call } = find(decision, questions);
  const { approved, input, reason, output, isError, happened, failed, retry } = decision;
  const { kind, callId, runId, digest } = call;
  if (kind === 'approval' && approved === true)
    return { type: 'approve', callId, runId, digest, ...omitUndefined({ input }) };
  if (kind === 'approval' && approved === false)
    return { type: 'reject', callId, runId, digest, ...omitUndefined({ reason }) };
  if (kind !== 'doubt' && output !== undefined)
    return { type: 'answer', callId, runId, output, ...(isError === true && { isError }) };
  if (kind === 'doubt' && happened)
    return { type: 'resolve', callId, runId, happened, output: output ?? null };
  if (kind === 'doubt' && failed !== undefined) return { type: 'resolve', callId, runId, failed };
  if (kind === 'doubt' && retry) return { type: 'resolve', callId, runId, retry };
  throw new A2aError('invalid-params', `Call ${key} takes other answers: see the data of the task's status.`);
}

function find({ callId }: Decision, questions: readonly Question[]): Question {
  const [only, second] = questions;
  const found =
    callId === undefined && second === undefined ? only : questions.find(({ key }) => key === callId);
  if (found !== undefined) return found;
  const keys = questions.map(({ key }) => key).join(', ') || 'none';
  throw new A2aError('invalid-params', `"callId" must be that of a call that waits for a decision: ${keys}.`);
}
