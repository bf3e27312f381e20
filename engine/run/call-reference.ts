import { omitUndefined } from '../../protocol/json.ts';
import type { OpenCall } from '../../protocol/run-view.ts';

/**
 * The call that a decision is about: its id, or the open call itself. With the call, the types of `input` and `output`
 * are those of its tool, and the decision names the call's run and digest.
 */
export type CallReference<Input = unknown, Output = unknown> = string | OpenCall<string, Input, Output>;

/** Returns the members of a command that name its call. A sub-agent's call is found by its digest alone. */
export function referTo(call: CallReference): { callId: string; runId?: string; digest?: string } {
  if (typeof call === 'string') return { callId: call };
  const { callId, runId, digest, waitsFor } = call;
  return { callId, digest, ...omitUndefined({ runId: waitsFor === undefined ? runId : undefined }) };
}
