import { EngineError } from '../protocol/error.ts';
import { type Approval, type CallView, readApproval } from '../protocol/tool.ts';

/** Whether a call needs a person's approval: a fixed answer, or a function of the call and the run's context. */
export type ApprovalRule<Input, RunContext = unknown> =
  | Approval
  | ((call: CallView<Input, RunContext>) => Approval | Promise<Approval>);

/**
 * Evaluates the rule for one call. Rejects with an `EngineError` `agent-invalid` when the rule's function
 * returns anything but a boolean or `{ required }`: a forgotten `return` must not let a call through.
 */
export async function applyApprovalRule<Input, RunContext>(
  rule: ApprovalRule<Input, RunContext>,
  call: CallView<Input, RunContext>,
): Promise<Approval> {
  const answer: unknown = typeof rule === 'function' ? await rule(call) : rule;
  const approval = readApproval(answer);
  if (approval !== undefined) return approval;
  throw new EngineError(
    'agent-invalid',
    `tool "${call.name}": expected its approval function to return a boolean or { required, reason?, expiresInMs? }, got ${describe(answer)}.`,
  );
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}
