import * as z from 'zod';
import type { Part as ItemPart, MessageItem } from '../../protocol/item.ts';
import { isJsonObject, omitUndefined } from '../../protocol/json.ts';
import { answerCommand } from '../../protocol/open/answer-form.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { OpenCallKind } from '../../protocol/run-view.ts';
import type { OpenCalls } from '../served/open-calls.ts';
import { A2aError } from './a2a-error.ts';
import type { GivenPart } from './wire.ts';

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

const decisionSchema = z.object({
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

const DECISIONS = ['approved', 'output', 'happened', 'failed', 'retry'] as const;

/** With one open call, a text answers a client tool, and `approve` and `reject` decide an approval. Throws `invalid-params`. */
export function readCommands(parts: readonly GivenPart[], open: OpenCalls, by?: string): RunCommand[] {
  const read = parts.map(part => ({ part, found: readDecision(part) }));
  const decisions = read.flatMap(({ found }) => found);
  const others = read.filter(({ found }) => found.length === 0).map(({ part }) => part);
  const commands: RunCommand[] = decisions.map(decision => decide(decision, open, by));
  if (others.length === 0) return commands;
  const [only] = open.values();
  if (commands.length === 0 && only !== undefined && open.size === 1) {
    const decision = decisionOfText(others, only.kind);
    if (decision !== null) return [decide(decision, open, by)];
  }
  return [...commands, { type: 'send', message: [readItem(others)], ...omitUndefined({ by }) }];
}

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

function decisionOfText(parts: readonly GivenPart[], kind: OpenCallKind): Decision | null {
  const text = parts.map(part => part.text ?? '').join('\n');
  if (parts.some(part => part.text === undefined)) return null;
  if (kind === 'result') return { output: text };
  const word = text.trim().toLowerCase();
  if (kind !== 'approval' || (word !== 'approve' && word !== 'reject')) return null;
  return { approved: word === 'approve' };
}

function decide({ callId, ...answer }: Decision, open: OpenCalls, by?: string): RunCommand {
  const [only] = open.keys();
  const id = callId ?? (open.size === 1 ? only : undefined);
  const call = id === undefined ? undefined : open.get(id);
  if (call === undefined) {
    const ids = [...open.keys()].join(', ') || 'none';
    throw new A2aError(
      'invalid-params',
      `"callId" must be that of a call that waits for a decision: ${ids}.`,
    );
  }
  return answerCommand(call, answer, { by });
}
