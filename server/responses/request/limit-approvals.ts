import { omitUndefined } from '../../../protocol/json.ts';
import type { ResponseSpec } from '../wire/response-spec.ts';
import type { Verdict } from './plan.ts';

type LimitedApprovals = {
  /** The verdicts, with rejections in place of the approvals over the limit. */
  limited: Verdict[];
  /** The calls over the limit. */
  overBudget?: string[];
  /** The number of calls that the response may still make. */
  left: number;
};

/** Applies a response's limit of tool calls to the calls that its request approves. */
export function limitApprovals(verdicts: readonly Verdict[], most: number): LimitedApprovals {
  const approved = verdicts.flatMap(verdict =>
    verdict.type === 'approval' && verdict.approve ? [verdict.callId] : [],
  );
  const over = approved.slice(most);
  const reason = `Not run: this response has reached its limit of ${most} tool calls.`;
  const limited = verdicts.map(verdict =>
    verdict.type === 'approval' && over.includes(verdict.callId)
      ? { ...verdict, approve: false, reason }
      : verdict,
  );
  const left = Math.max(0, most - approved.length);
  return { limited, left, ...omitUndefined({ overBudget: over.length > 0 ? over : undefined }) };
}

/** The decision to journal for a verdict: as the client made it, before the limit. Nothing for a call in doubt. */
export function decisionOf(verdict: Verdict): ResponseSpec['decisions'] {
  const { type, callId } = verdict;
  if (type === 'unknown') return [];
  return [type === 'approval' ? { type, callId, approve: verdict.approve } : { type, callId }];
}
