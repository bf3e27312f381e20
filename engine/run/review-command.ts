import type { Context } from '../../machines/context.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type CallCommand, deciderOf } from '../../protocol/run-command.ts';
import { fitsBytes, utf8Length } from '../../text/cut-text.ts';
import { type Command, readJson } from '../log/command.ts';
import { type Refusal, refuse } from '../log/refusal.ts';
import { checkOutput, LONGEST_ANSWER_BYTES } from '../services/answer-check.ts';
import type { OutputContract } from '../services/definition.ts';

type Decision = Exclude<CallCommand, { type: 'edit-call' }>;

/** The decision about the answer under review. An answer in its place must fit the output schema. */
export async function makeReviewDecision(
  command: Decision,
  { review, answer }: Context,
  output: OutputContract | undefined,
): Promise<Command | Refusal> {
  const { callId: reviewId } = command;
  const unfit = (why: string) =>
    refuse(
      'input-invalid',
      `Review ${reviewId} is about an answer${why}. Approve it, with { answer } in its place if need be, or reject it.`,
    );
  if (command.type === 'answer' || command.type === 'resolve') return unfit('');
  if (command.type === 'reject' && command.to === 'question')
    return refuse(
      'not-allowed',
      `Review ${reviewId} asks nothing, and you may not decide it. It waits for someone who may.`,
    );
  const { digest = review?.digest ?? '', sticky } = command;
  if (sticky === true) return unfit(', so a decision cannot apply to others');
  const decided = { type: 'review.decided', reviewId, digest, ...deciderOf(command) } as const;
  if (command.type === 'reject')
    return { ...decided, decision: { type: 'reject', ...omitUndefined({ reason: command.reason }) } };
  if (command.input !== undefined) return unfit(', which has no input');
  if (command.answer === undefined) return { ...decided, decision: { type: 'approve' } };
  const edit = await readAnswer(command.answer, output, answer?.output !== undefined);
  return 'accepted' in edit ? edit : { ...decided, decision: { type: 'approve', ...edit } };
}

type EditedAnswer = { text: string; editDigest: string; output?: JsonValue };

/** `hadOutput`: the answer in its place had a value by the output schema. */
async function readAnswer(
  given: unknown,
  output: OutputContract | undefined,
  hadOutput: boolean,
): Promise<EditedAnswer | Refusal> {
  const read = readJson(given);
  if ('accepted' in read) return read;
  const { json } = read;
  if (typeof json !== 'string' && output === undefined && !hadOutput)
    return refuse('input-invalid', 'Expected the answer to be a text: the agent has no output schema.');
  const text = typeof json === 'string' ? json : JSON.stringify(json);
  if (!fitsBytes(text, LONGEST_ANSWER_BYTES))
    return refuse(
      'input-invalid',
      `Expected an answer of at most ${LONGEST_ANSWER_BYTES} bytes; got ${utf8Length(text)}. Shorten it.`,
    );
  const edit = { text, editDigest: digestOf(text) };
  if (output === undefined && !hadOutput) return edit;
  if (output === undefined)
    return refuse(
      'input-invalid',
      'Cannot validate the answer: this agent has no output schema. Approve it as it is, or reject it.',
    );
  const checked = await checkOutput(output, text);
  if ('output' in checked) return { ...edit, output: checked.output };
  return refuse('input-invalid', `The answer in its place is not valid: ${checked.fault}`);
}
