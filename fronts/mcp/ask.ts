import type { ElicitRequestFormParams, InputRequest } from '@modelcontextprotocol/server';
import * as z from 'zod';
import type { Run } from '../../engine/run/run.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { WaitingRun } from '../../protocol/run-view.ts';
import { describeCall, listQuestions, type Question } from '../served/questions.ts';

/*
 * Open calls as elicitation: one form for each. To accept the form approves the call, or answers it; to decline it
 * rejects the call; to cancel it decides nothing.
 */

type Form = ElicitRequestFormParams;

/** The longest input that the form of an approval offers for editing, in characters of its JSON. */
const EDITED_INPUT = 4_000;

/** The outcomes of form answers, by question key. */
export type Decided = {
  /** Decisions that were accepted. */
  accepted: number;
  /** The questions that the person left open. */
  cancelled: ReadonlySet<string>;
  /** Why an answer could not be used, for questions that are still open. */
  faults: ReadonlyMap<string, string>;
  /** Notes for the caller, such as who decided a call first. */
  notes: readonly string[];
};

export const NOTHING_DECIDED: Decided = { accepted: 0, cancelled: new Set(), faults: new Map(), notes: [] };

/** The form that asks a person to decide a call. `fault`: why the previous answer could not be used. */
export function formFor({ call }: Question, agent: string, fault: string | undefined): Form {
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

/** The forms of a waiting run's questions, by key. */
export function formsFor(
  questions: readonly Question[],
  agent: string,
  { faults }: Decided,
): Record<string, InputRequest> {
  return Object.fromEntries(
    questions.map(question => [
      question.key,
      { method: 'elicitation/create', params: formFor(question, agent, faults.get(question.key)) },
    ]),
  );
}

const answerSchema = z.object({
  action: z.enum(['accept', 'decline', 'cancel']),
  content: z.record(z.string(), z.json()).nullish(),
});
type Answer = z.infer<typeof answerSchema>;

/**
 * Gives the answers to a run as decisions. `asked`: the digest of each call that was asked about, by key; other answers
 * are ignored. An answer for a call that was decided in the meantime is ignored with a note.
 */
export async function decide(
  run: Run,
  {
    waiting,
    asked,
    answers,
    by,
  }: {
    /** The run's open calls; `null` if it does not wait. */
    waiting: WaitingRun | null;
    asked: Readonly<Record<string, string>>;
    answers: Readonly<Record<string, unknown>>;
    by: string;
  },
): Promise<Decided> {
  const open = waiting === null ? [] : listQuestions(run.id, waiting);
  const cancelled = new Set<string>();
  const faults = new Map<string, string>();
  const notes: string[] = [];
  let accepted = 0;
  for (const [key, given] of Object.entries(answers)) {
    if (!Object.hasOwn(asked, key)) continue;
    const answer = answerSchema.safeParse(given);
    const question = open.find(each => each.key === key && each.call.digest === asked[key]);
    if (!answer.success) faults.set(key, 'The reply is not a form answer.');
    else if (answer.data.action === 'cancel') cancelled.add(key);
    else if (question === undefined)
      notes.push(`Call ${key} was already decided elsewhere; this answer changed nothing.`);
    else {
      const command = commandFor(question, answer.data);
      if (command === null) cancelled.add(key);
      else if ('fault' in command) faults.set(key, command.fault);
      else {
        const result = await run.submit([{ ...command, by }]);
        if (result.accepted) accepted += 1;
        else if (result.code === 'input-invalid') faults.set(key, result.message);
        else notes.push(result.message);
      }
    }
  }
  return { accepted, cancelled, faults, notes };
}

/** The decision in an answer that is not `cancel`; `null` if it decides nothing. */
function commandFor({ call }: Question, { action, content }: Answer): RunCommand | { fault: string } | null {
  const { kind, callId, runId, digest } = call;
  const text = readField(content, 'output');
  if (kind === 'approval') {
    if (action === 'decline')
      return { type: 'reject', callId, runId, digest, reason: 'Declined by the caller.' };
    const input = readEdit(content?.input, call.input);
    return 'fault' in input ? input : { type: 'approve', callId, runId, digest, ...input };
  }
  if (kind === 'result') {
    if (action === 'decline')
      return { type: 'answer', callId, runId, output: 'The caller declined to answer.', isError: true };
    const written = text ?? readOnly(content);
    if (written === undefined) return { fault: 'The field "output" is missing.' };
    return { type: 'answer', callId, runId, output: readOutput(written) };
  }
  if (action === 'decline') return null;
  switch (content?.outcome) {
    case 'happened':
      return { type: 'resolve', callId, runId, happened: true, output: readOutput(text ?? 'null') };
    case 'failed':
      return { type: 'resolve', callId, runId, failed: text ?? 'It failed.' };
    case 'retry':
      return { type: 'resolve', callId, runId, retry: true };
    default:
      return { fault: 'The field "outcome" must be happened, failed or retry.' };
  }
}

function readField(content: Answer['content'], name: string): string | undefined {
  const value = content?.[name];
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
}

/** The only field of a form, for clients that name it differently. */
function readOnly(content: Answer['content']): string | undefined {
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
