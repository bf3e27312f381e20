import { EngineError } from '../../protocol/error.ts';
import type { OpenCall } from '../../protocol/run-view.ts';

/**
 * The call that a decision is about: its id, or the open call itself. With the call, the types of `input` and `output`
 * are those of its tool, or of its tools if it can be of several, and the decision names the call's run and digest.
 */
export type CallReference = string | OpenCall;

/** The input of a referenced call. */
export type InputOf<Call extends CallReference> =
  Call extends OpenCall<string, infer Input> ? Input : unknown;

/** What can be given as the result of a referenced call. */
export type AnswerOf<Call extends CallReference> =
  Call extends OpenCall<string, unknown, infer Answer> ? Answer : unknown;

/** Returns the members of a command that name its call. Throws `input-invalid` for what names no call. */
export function referTo(call: CallReference): { callId: string; runId?: string; digest?: string } {
  if (typeof call === 'string') return { callId: call };
  if (typeof call !== 'object' || call === null || typeof call.callId !== 'string')
    throw new EngineError(
      'input-invalid',
      `Expected an open call or its id, got ${JSON.stringify(call)}. The open calls of a run are in settled.open.`,
    );
  const { callId, runId, digest } = call;
  return { callId, runId, digest };
}
