import type { Call } from '../../../machines/context.ts';
import { hasEnded, isAtRest } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import { hidesTools, type ResponseSpec } from './response-spec.ts';

/**
 * Whether the run has nothing more to do for the request: it has ended, or it rests and has accepted everything in the
 * request. A paused run still has work to do.
 */
export function isAnswered(state: ChartState, { decisions, messages }: ResponseSpec): boolean {
  if (hasEnded(state)) return true;
  if (!isAtRest(state) || state.context.paused) return false;
  const { calls, transcript, inbox } = state.context;
  const isUndecided = ({ callId, status }: Call) =>
    (status === 'gated' || status === 'waiting') && decisions.some(decision => decision.callId === callId);
  if (calls.some(isUndecided)) return false;
  if (messages.length === 0) return true;
  const known = new Set([...inbox, ...transcript].map(({ id }) => id));
  return messages.every(id => known.has(id));
}

/**
 * The end of a response by the reason why it is incomplete. As at OpenAI, the tool call limit leaves it `completed`; any
 * other reason makes it `incomplete`.
 */
export function endingFor(reason: string | undefined) {
  switch (reason) {
    case undefined:
      return { status: 'completed' } as const;
    case 'toolCalls':
      return { status: 'completed', incompleteReason: 'max_tool_calls' } as const;
    case 'length':
      return { status: 'incomplete', incompleteReason: 'max_output_tokens' } as const;
    case 'outcome':
      return { status: 'incomplete', incompleteReason: 'tool_outcome_unknown' } as const;
    case 'turns':
      return { status: 'incomplete', incompleteReason: 'max_turns' } as const;
    default:
      return { status: 'incomplete', incompleteReason: reason } as const;
  }
}

/**
 * The error of a failed response. Replaces messages that only the operator may see: advice on the server's set-up, and
 * quotes of hidden tools.
 */
export function publicError(failure: { code: string; message: string }, { exposed }: ResponseSpec) {
  const { code } = failure;
  let { message } = failure;
  if (OPERATOR_CODES.has(code))
    message = `The server cannot use the model provider (${code}). See its log for the cause.`;
  else if (hidesTools(exposed))
    message = `The response failed (${code}). See the server's log for the cause.`;
  return { code: wireCode(code), message };
}

/** The codes of failures that the operator has to fix. Their messages name addresses and environment variables. */
const OPERATOR_CODES: ReadonlySet<string> = new Set([
  'authentication',
  'permission',
  'not-found',
  'network',
  'redirect-refused',
]);

function wireCode(code: string): string {
  switch (code) {
    case 'rate-limit':
    case 'quota':
      return 'rate_limit_exceeded';
    case 'invalid-request':
    case 'context-too-long':
      return 'invalid_prompt';
    default:
      return 'server_error';
  }
}
