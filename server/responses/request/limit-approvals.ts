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
  const approved = callAnswers.flatMap(({ open, answer }) =>
    answer.type === 'approve' ? [open.callId] : [],
  );
  const over = approved.slice(most);
  const output = `Not run: the call was approved, but the response's limit of ${most} tool calls is reached.`;
  const limited = callAnswers.map(({ open, answer }): CallAnswer => {
    const isOver = over.includes(open.callId);
    return { open, answer: isOver ? { type: 'result', output, isError: true } : answer };
  });
  const left = Math.max(0, most - approved.length);
  return { limited, left, ...omitUndefined({ overBudget: over.length > 0 ? over : undefined }) };
}

/** The decision to journal for an answer: as the client made it, before the limit. Nothing for a call in doubt. */
export function decisionOf({ open: { kind, callId }, answer }: CallAnswer): ResponseSpec['decisions'] {
  if (kind === 'doubt') return [];
  if (kind === 'result') return [{ type: 'output', callId }];
  return [{ type: 'approval', callId, approve: answer.type === 'approve' }];
}
