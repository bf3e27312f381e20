import { omitUndefined } from '../../../protocol/json.ts';
import type { ResponseSpec } from '../wire/response-spec.ts';
import type { CallAnswer } from './plan.ts';

type LimitedApprovals = {
  /** The answers, with errors as results in place of the approvals over the limit. */
  limited: CallAnswer[];
  /** The calls over the limit. */
  overBudget?: string[];
  /** The number of calls that the response may still make. */
  left: number;
};

/** Applies a response's limit of tool calls to the calls that its request approves. */
export function limitApprovals(callAnswers: readonly CallAnswer[], most: number): LimitedApprovals {
  const approved = callAnswers.flatMap(callAnswer =>
    callAnswer.type === 'approval' && callAnswer.approve ? [callAnswer.callId] : [],
  );
  const over = approved.slice(most);
  const output = `Not run: the call was approved, but the response's limit of ${most} tool calls is reached.`;
  const limited = callAnswers.map((callAnswer): CallAnswer => {
    const { callId } = callAnswer;
    return over.includes(callId) ? { type: 'output', callId, output, isError: true } : callAnswer;
  });
  const left = Math.max(0, most - approved.length);
  return { limited, left, ...omitUndefined({ overBudget: over.length > 0 ? over : undefined }) };
}

/** The decision to journal for an answer: as the client made it, before the limit. Nothing for a call in doubt. */
export function decisionOf(callAnswer: CallAnswer): ResponseSpec['decisions'] {
  const { type, callId } = callAnswer;
  if (type === 'unknown') return [];
  return [type === 'approval' ? { type, callId, approve: callAnswer.approve } : { type, callId }];
}
