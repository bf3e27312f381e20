import { EngineError } from '../protocol/error.ts';
import type { Approval, CallView } from '../protocol/tool.ts';

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
  const approval: unknown = typeof rule === 'function' ? await rule(call) : rule;
  if (isApproval(approval)) return approval;
  throw new EngineError(
    'agent-invalid',
    `tool "${call.name}": expected its approval function to return a boolean or { required, reason?, expiresInMs? }, got ${describe(approval)}.`,
  );
}

/** Whether a value is a boolean or `{ required: boolean, reason?: string, expiresInMs?: number above 0 }`. */
export function isApproval(value: unknown): value is Approval {
  if (typeof value === 'boolean') return true;
  if (typeof value !== 'object' || value === null) return false;
  const { required, reason, expiresInMs } = value as Record<string, unknown>;
  return (
    typeof required === 'boolean' &&
    (reason === undefined || typeof reason === 'string') &&
    (expiresInMs === undefined ||
      (typeof expiresInMs === 'number' && expiresInMs > 0 && Number.isFinite(expiresInMs)))
  );
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}
