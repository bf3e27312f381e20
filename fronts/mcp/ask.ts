import type { ElicitRequestFormParams, InputRequest } from '@modelcontextprotocol/server';
import * as z from 'zod';
import type { Run } from '../../engine/run/run.ts';
import { type Answer, commandFor } from '../../protocol/open/answer.ts';
import type { OpenCall } from '../../protocol/run-view.ts';
import { describeCall, type OpenCalls } from '../served/open-calls.ts';

/*
 * Open calls as elicitation: one form for each. To accept the form approves the call, or answers it; to decline it
 * rejects the call; to cancel it decides nothing.
 */

type Form = ElicitRequestFormParams;

/** The longest input that the form of an approval offers for editing, in characters of its JSON. */
const EDITED_INPUT = 4_000;

/** The outcomes of form answers, by the ids of the calls for clients. */
export type Decided = {
  accepted: number;
  /** The calls that the person left open. */
  cancelled: ReadonlySet<string>;
  /** Why an answer could not be used, for calls that are still open. */
  faults: ReadonlyMap<string, string>;
  notes: readonly string[];
};

export const NOTHING_DECIDED: Decided = { accepted: 0, cancelled: new Set(), faults: new Map(), notes: [] };

/** The form that asks a person to decide a call. `fault`: why the previous answer could not be used. */
export function formFor(call: OpenCall, agent: string, fault: string | undefined): Form {
  const again = fault === undefined ? '' : `${fault}\n\n`;
  const asked = describeCall(call);
  switch (call.kind) {
    case 'approval':
      return form(`${again}${agent} asks to call ${asked}. Accept to allow it, decline to refuse it.`, {
        properties: editable(call.input),
      });
    case 'result':
      return form(`${again}${agent} asks for the result of ${asked}.`, {
        properties: { output: { type: 'string', title: 'Result', description: 'Text, or JSON.' } },
        required: ['output'],
      });
    case 'doubt':
      return form(`${again}It is unknown whether this call of ${agent} took effect: ${asked}. Did it?`, {
        properties: {
          outcome: {
            type: 'string',
            title: 'Outcome',
            enum: ['happened', 'failed', 'retry'],
            description: 'retry runs the call again.',
          },
          output: { type: 'string', title: 'Result, or reason of the failure' },
        },
        required: ['outcome'],
      });
  }
}

function form(message: string, schema: Pick<Form['requestedSchema'], 'properties' | 'required'>): Form {
  return { mode: 'form', message, requestedSchema: { type: 'object', ...schema } };
}

/** The input of a gated call as a field that a person may edit; none if it is too long. */
function editable(input: unknown): Form['requestedSchema']['properties'] {
  const json = JSON.stringify(input);
  if (json.length > EDITED_INPUT) return {};
  return {
    input: {
      type: 'string',
      title: 'Input',
      description: 'JSON. Change it to edit the call.',
      default: json,
    },
  };
}

export function formsFor(open: OpenCalls, agent: string, { faults }: Decided): Record<string, InputRequest> {
  return Object.fromEntries(
    [...open].map(([id, call]) => [
      id,
      { method: 'elicitation/create', params: formFor(call, agent, faults.get(id)) },
    ]),
  );
}

const replySchema = z.object({
  action: z.enum(['accept', 'decline', 'cancel']),
  content: z.record(z.string(), z.json()).nullish(),
});
type Reply = z.infer<typeof replySchema>;

/** `asked`: the digest of each call that was asked about. Replies about calls that were decided meanwhile get a note. */
export async function decide(
  run: Run,
  {
    open,
    asked,
    replies,
    by,
  }: {
    open: OpenCalls;
    asked: Readonly<Record<string, string>>;
    replies: Readonly<Record<string, unknown>>;
    by: string;
  },
): Promise<Decided> {
  const cancelled = new Set<string>();
  const faults = new Map<string, string>();
  const notes: string[] = [];
  let accepted = 0;
  for (const [id, given] of Object.entries(replies)) {
    if (!Object.hasOwn(asked, id)) continue;
    const reply = replySchema.safeParse(given);
    const call = open.get(id);
    if (!reply.success) faults.set(id, 'The reply is not a form answer.');
    else if (reply.data.action === 'cancel') cancelled.add(id);
    else if (call === undefined || call.digest !== asked[id])
      notes.push(`Call ${id} was already decided elsewhere; this answer changed nothing.`);
    else {
      const answer = readReply(call, reply.data);
      if (answer === null) cancelled.add(id);
      else if ('fault' in answer) faults.set(id, answer.fault);
      else {
        const result = await run.submit([commandFor(call, answer, { by })]);
        if (result.accepted) accepted += 1;
        else if (result.code === 'input-invalid') faults.set(id, result.message);
        else notes.push(result.message);
      }
    }
  }
  return { accepted, cancelled, faults, notes };
}

/** The answer in a reply that is not `cancel`; `null` if it has none. */
function readReply({ kind, input }: OpenCall, { action, content }: Reply): Answer | { fault: string } | null {
  const text = readField(content, 'output');
  if (kind === 'approval') {
    if (action === 'decline') return { type: 'reject', reason: 'Declined by the caller.' };
    const edit = readEdit(content?.input, input);
    return 'fault' in edit ? edit : { type: 'approve', ...edit };
  }
  if (kind === 'result') {
    if (action === 'decline')
      return { type: 'result', output: 'The caller declined to answer.', isError: true };
    const written = text ?? readOnly(content);
    if (written === undefined) return { fault: 'The field "output" is missing.' };
    return { type: 'result', output: readOutput(written) };
  }
  if (action === 'decline') return null;
  switch (content?.outcome) {
    case 'happened':
      return { type: 'happened', output: readOutput(text ?? 'null') };
    case 'failed':
      return { type: 'failed', reason: text ?? 'It failed.' };
    case 'retry':
      return { type: 'retry' };
    default:
      return { fault: 'The field "outcome" must be happened, failed or retry.' };
  }
}

function readField(content: Reply['content'], name: string): string | undefined {
  const value = content?.[name];
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
}

/** The only field of a form, for clients that name it differently. */
function readOnly(content: Reply['content']): string | undefined {
  const [name, second] = Object.keys(content ?? {});
  return name === undefined || second !== undefined ? undefined : readField(content, name);
}

/** The edited input of a call: nothing if the field is empty or unchanged. */
function readEdit(field: unknown, input: unknown): { input?: unknown } | { fault: string } {
  if (field === undefined || field === null) return {};
  if (typeof field !== 'string') return { fault: 'The field "input" is not text.' };
  if (field.trim() === '' || field === JSON.stringify(input)) return {};
  try {
    return { input: JSON.parse(field) };
  } catch {
    return { fault: 'The field "input" is not JSON.' };
  }
}

/** The result that a person wrote: JSON, else the text itself. */
function readOutput(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
