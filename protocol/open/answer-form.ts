import { EngineError } from '../error.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../json.ts';
import type { Open } from '../run-view.ts';
import { type Answer, type AnswerCommand, commandFor, nameOpen, type OpenReference } from './answer.ts';

/* Answers as JSON, as clients of protocols without a form of their own give them. */

const VALUE = { description: 'Any JSON value.' };

/** The JSON Schemas of the answers to each kind. */
export const ANSWER_SCHEMAS = {
  approval: {
    type: 'object',
    properties: {
      approved: { type: 'boolean' },
      input: { type: 'object', description: 'Replaces all arguments of the call.' },
      reason: { type: 'string', description: 'Why it is not approved; the model reads it.' },
      output: { ...VALUE, description: 'The result of the call; the call then does not run.' },
      sticky: { type: 'boolean', description: 'Also applies to later calls of the tool.' },
    },
    required: ['approved'],
  },
  result: {
    type: 'object',
    properties: { output: VALUE, isError: { type: 'boolean' } },
    required: ['output'],
  },
  doubt: {
    oneOf: [
      {
        type: 'object',
        properties: { happened: { const: true }, output: VALUE },
        required: ['happened', 'output'],
      },
      { type: 'object', properties: { failed: { type: 'string' } }, required: ['failed'] },
      { type: 'object', properties: { retry: { const: true } }, required: ['retry'] },
    ],
  },
  question: {
    type: 'object',
    properties: {
      answers: { type: 'object', description: 'A value for each question, by its key.' },
      approved: { const: false, description: 'Declines to answer.' },
      reason: { type: 'string', description: 'Why; the model reads it.' },
    },
  },
  review: {
    type: 'object',
    properties: {
      approved: { type: 'boolean' },
      answer: { description: 'Replaces the answer: a text, or the value of an output schema.' },
      reason: { type: 'string', description: 'Why it is sent back; the model reads it.' },
    },
    required: ['approved'],
  },
  'sign-in': { type: 'object', properties: { approved: { const: true } }, required: ['approved'] },
  pause: { type: 'object', properties: { approved: { type: 'boolean' } }, required: ['approved'] },
} satisfies Readonly<Record<Open['kind'], JsonObject>>;

/** The JSON Schema of the answers to what is open. */
export function answerSchemaOf(open: Open): JsonObject {
  if (open.kind !== 'question') return ANSWER_SCHEMAS[open.kind];
  const { properties, ...schema } = ANSWER_SCHEMAS.question;
  const answers = {
    type: 'object',
    properties: Object.fromEntries(
      open.questions.map(({ key, message, schema: of }) => [key, { description: message, ...of }]),
    ),
    additionalProperties: false,
  };
  return { ...schema, properties: { ...properties, answers } };
}

/** The answers to each kind, as examples. A word in capitals stands for a value. */
export const ANSWER_EXAMPLES: Readonly<Record<Open['kind'], readonly JsonObject[]>> = {
  approval: [
    { approved: true },
    { approved: true, input: 'EDITED INPUT' },
    { approved: false, reason: 'TEXT' },
  ],
  result: [{ output: 'JSON' }],
  doubt: [{ happened: true, output: 'JSON' }, { failed: 'TEXT' }, { retry: true }],
  question: [{ answers: { KEY: 'VALUE' } }, { approved: false, reason: 'TEXT' }],
  review: [
    { approved: true },
    { approved: true, answer: 'CHANGED ANSWER' },
    { approved: false, reason: 'TEXT' },
  ],
  'sign-in': [{ approved: true }],
  pause: [{ approved: true }],
};

/** Ignores unknown members; `null` without an answer that fits. Leaving a run paused is not an answer. */
export function readAnswer(kind: Open['kind'], value: JsonValue | undefined): Answer | null {
  if (!isJsonObject(value)) return null;
  const { approved, input, answer, output, reason, failed } = value;
  const sticky = value.sticky === true ? ({ sticky: true } as const) : {};
  const result = { type: 'result', ...(value.isError === true && { isError: true }) } as const;
  // What a call or a review does not have is refused with the command, not left out.
  const approve = { type: 'approve', ...omitUndefined({ input, answer }), ...sticky } as const;
  switch (kind) {
    case 'approval':
      if (approved === false)
        return { type: 'reject', ...(typeof reason === 'string' && { reason }), ...sticky };
      if (approved !== undefined && approved !== true) return null;
      if (output !== undefined) return { ...result, output };
      return approved === true ? approve : null;
    case 'result':
      return output === undefined ? null : { ...result, output };
    case 'doubt':
      if (value.retry === true) return { type: 'retry' };
      if (typeof failed === 'string') return { type: 'failed', reason: failed };
      return value.happened === true ? { type: 'happened', output: output ?? null } : null;
    case 'question':
      if (isJsonObject(value.answers)) return { type: 'answers', answers: value.answers };
      return approved === false ? { type: 'reject', ...(typeof reason === 'string' && { reason }) } : null;
    case 'review':
      if (approved === true) return approve;
      return approved === false
        ? { type: 'reject', ...(typeof reason === 'string' && { reason }), ...sticky }
        : null;
    case 'sign-in':
      return approved === true ? { type: 'signed-in' } : null;
    case 'pause':
      return approved === true ? { type: 'continue' } : null;
  }
}

/** The command of an answer. Throws `input-invalid`, with examples, for a value that has no answer that fits. */
export function answerCommand(
  open: OpenReference,
  value: JsonValue | undefined,
  { by }: { by?: string | undefined } = {},
): AnswerCommand {
  const given = readAnswer(open.kind, value);
  if (given !== null) return commandFor(open, given, { by });
  const examples = ANSWER_EXAMPLES[open.kind].map(one => JSON.stringify(one)).join(' or ');
  const what = 'callId' in open ? `${nameOpen(open)} (${open.kind})` : `a ${open.kind}`;
  throw new EngineError('input-invalid', `This is not an answer to ${what}. Expected ${examples}.`);
}
