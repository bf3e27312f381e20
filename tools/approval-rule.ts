import { EngineError } from '../protocol/error.ts';
import { type Approval, type CallView, readApproval } from '../protocol/tool.ts';

/** When a call needs a person's approval: always, never, or as a function of the call decides. */
export type ApprovalRule<Input> = Approval | ((call: CallView<Input>) => Approval | Promise<Approval>);

/**
 * What the rule says of this call. Rejects when a rule's function gives something else than a boolean
 * or `{ required }`: a forgotten `return` must not let a call through.
 */
export async function applyApprovalRule<Input>(
  rule: ApprovalRule<Input>,
  call: CallView<Input>,
): Promise<Approval> {
  const given: unknown = typeof rule === 'function' ? await rule(call) : rule;
  const approval = readApproval(given);
  if (approval !== undefined) return approval;
  throw new EngineError(
    'agent-invalid',
    `tool "${call.name}": expected its approval function to return a boolean or { required, reason?, expiresInMs? }, got ${describe(given)}.`,
  );
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}
