import { EngineError } from '../error.ts';
import { omitUndefined } from '../json.ts';
import type { CallCommand, ContinueOptions } from '../run-command.ts';
import type { Open, OpenItem } from '../run-view.ts';

/* From what people, clients and clients of models say about an open thing to the command of the run. */

/** An answer to an open thing. `ANSWERS_TO` says which fit which kind. */
export type Answer =
  /**
   * Runs the call, with `input` if it is given, or gives the answer under review, or `answer` in its place: a text, or the
   * value of an output schema. `sticky`: also applies to later calls of the same tool.
   */
  | { type: 'approve'; input?: unknown; answer?: unknown; sticky?: boolean }
  /** An answer under review is sent back, and the questions of a tool are declined. `reason`: what the model reads. */
  | { type: 'reject'; reason?: string; sticky?: boolean }
  /** The call's result, JSON, or its error. A call that waits for approval then does not run. */
  | { type: 'result'; output: unknown; isError?: boolean }
  /** Values for questions of a tool, by their keys. Those without one stay open. */
  | { type: 'answers'; answers: Readonly<Record<string, unknown>> }
  /** The call in doubt happened, with this result. */
  | { type: 'happened'; output: unknown }
  /** The call in doubt did not happen. `reason`: what the model reads. */
  | { type: 'failed'; reason: string }
  /** Runs the call in doubt again. `force`: even if an earlier attempt may still act. */
  | { type: 'retry'; force?: boolean }
  /** A person has signed in at the tool server. */
  | { type: 'signed-in' }
  | { type: 'continue' }
  /** Continues with one model call or round of tool calls, then pauses again. */
  | { type: 'step' };

/** The answers that fit each kind. */
const ANSWERS_TO: Readonly<Record<Open['kind'], readonly Answer['type'][]>> = {
  approval: ['approve', 'reject', 'result'],
  result: ['result'],
  doubt: ['happened', 'failed', 'retry'],
  question: ['answers', 'reject'],
  review: ['approve', 'reject'],
  'sign-in': ['signed-in'],
  pause: ['continue', 'step'],
};

/** What an answer needs of an open thing. Without `digest`, it is about the call as it is then. */
export type OpenReference =
  | { kind: OpenItem['kind']; callId: string; runId?: string; digest?: string }
  | { kind: 'sign-in'; server: string; runId?: string }
  | { kind: 'pause'; runId?: string };

export type AnswerCommand =
  | Exclude<CallCommand, { type: 'edit-call' }>
  | ({ type: 'sign-in'; server: string } & ContinueOptions)
  | ({ type: 'unpause' | 'step' } & ContinueOptions);

/**
 * Returns the command that gives an answer to an open thing, for its run or one above it. Decisions and results name the
 * call's digest. `by`: who answers. Throws `input-invalid` for an answer that does not fit.
 */
export function commandFor(
  open: OpenReference,
  answer: Answer,
  { by }: { by?: string | undefined } = {},
): AnswerCommand {
  const from = omitUndefined({ runId: open.runId, by });
  if (!ANSWERS_TO[open.kind].includes(answer.type)) throw unfit(open, answer);
  if (open.kind === 'sign-in' || answer.type === 'signed-in')
    return { type: 'sign-in', server: 'server' in open ? open.server : '', ...from };
  if (open.kind === 'pause' || answer.type === 'continue' || answer.type === 'step')
    return { type: answer.type === 'step' ? 'step' : 'unpause', ...from };
  return decisionCommand(open, answer, by);
}

/** The answers about a call or a review. */
export type DecisionAnswer = Exclude<Answer, { type: 'signed-in' | 'continue' | 'step' }>;

/** `commandFor` with a decision that fits its call or review, which is not checked. */
export function decisionCommand(
  open: Extract<OpenReference, { callId: string }>,
  answer: DecisionAnswer,
  by?: string,
): Exclude<CallCommand, { type: 'edit-call' }> {
  const call = { callId: open.callId, ...omitUndefined({ runId: open.runId, by }) };
  const seen = omitUndefined({ digest: open.digest });
  switch (answer.type) {
    case 'approve': {
      const { input, answer: changed, sticky } = answer;
      return { type: 'approve', ...call, ...seen, ...omitUndefined({ input, answer: changed, sticky }) };
    }
    case 'reject': {
      const { reason, sticky } = answer;
      const to = open.kind === 'question' ? ('question' as const) : undefined;
      return { type: 'reject', ...call, ...seen, ...omitUndefined({ reason, sticky, to }) };
    }
    case 'result': {
      const { output, isError } = answer;
      return { type: 'answer', ...call, ...seen, output, ...(isError === true && { isError }) };
    }
    case 'answers':
      return { type: 'answer', ...call, ...seen, answers: answer.answers };
    case 'happened':
      return { type: 'resolve', ...call, happened: true, output: answer.output };
    case 'failed':
      return { type: 'resolve', ...call, failed: answer.reason };
    case 'retry':
      return { type: 'resolve', ...call, retry: true, ...(answer.force === true && { force: true }) };
  }
}

function unfit(open: OpenReference, { type }: Answer): EngineError {
  const what = 'callId' in open ? `The ${nameOpen(open)} (${open.kind})` : WITHOUT_CALL[open.kind];
  const fitting = ANSWERS_TO[open.kind].join(', ');
  return new EngineError(
    'input-invalid',
    `${what} does not take the answer "${type}". Give one of: ${fitting}.`,
  );
}

const WITHOUT_CALL = { pause: 'A paused run', 'sign-in': 'A sign-in' } as const;

/** `call c1` or `review r1`, for messages. */
export function nameOpen(open: Pick<OpenItem, 'kind' | 'callId'>): string {
  return `${open.kind === 'review' ? 'review' : 'call'} ${open.callId}`;
}

/** For clients of the run `ownId`. A sub-agent's call has its run in front: models of two runs may use the same ids. */
export function callIdFor(ownId: string, { runId, callId }: { runId: string; callId: string }): string {
  return runId === ownId ? callId : `${runId}/${callId}`;
}
