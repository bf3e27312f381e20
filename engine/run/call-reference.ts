import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { OpenCall } from '../../protocol/run-view.ts';

/**
 * The call that a decision is about: its id, or the open call itself. With the call, the types of `input` and `output`
 * are those of its tool, and the decision names the call's run and digest.
 */
export type CallReference<Input = unknown, Output = unknown> = string | OpenCall<string, Input, Output>;

/**
 * Returns the members of a command that name its call. A sub-agent's call is found by its digest alone. Throws
 * `input-invalid` for what names no call.
 */
export function referTo(call: CallReference): { callId: string; runId?: string; digest?: string } {
  if (typeof call === 'string') return { callId: call };
  if (typeof call !== 'object' || call === null || typeof call.callId !== 'string')
    throw new EngineError(
      'input-invalid',
      `Expected an open call or its id, got ${JSON.stringify(call)}. The open calls of a run are in settled.approvals, settled.results and settled.doubts.`,
    );
  const { callId, runId, digest, waitsFor } = call;
  return { callId, digest, ...omitUndefined({ runId: waitsFor === undefined ? runId : undefined }) };
}
