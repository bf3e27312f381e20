import type { Run } from '../../../engine/run/run.ts';
import { openCallsOf } from '../../../machines/settled.ts';
import { type Answer, commandFor } from '../../../protocol/open/answer.ts';
import type { ToolPart, UIMessage } from '../chunk.ts';
import { approvalIdOf } from '../fold/fold-calls.ts';
import { toolPartsOf } from '../fold/fold-message.ts';

/**
 * Applies the approvals and results that a page has posted, one by one. An earlier decision stays, and the response
 * shows its outcome. `messageIds` are the ids of the run's assistant messages: an approval counts only for a request in
 * one of these messages.
 */
export async function applyAnswers(
  run: Run,
  messages: readonly UIMessage[],
  messageIds: readonly string[],
  by: string | undefined,
): Promise<void> {
  const ofPage = new Map(openCallsOf(run.context, 'result').map(open => [open.callId, open]));
  for (const { role, parts } of messages) {
    if (role !== 'assistant') continue;
    for (const part of toolPartsOf(parts)) {
      const decision = decisionOf(part, messageIds);
      const open =
        decision === null
          ? ofPage.get(part.toolCallId)
          : { kind: 'approval' as const, ...(await findCall(run, part.toolCallId)) };
      const answer = decision ?? resultOf(part);
      if (open !== undefined && answer !== null) await run.submit([commandFor(open, answer, { by })]);
    }
  }
}

/** The page's answer to an approval request of this run; `null` without one. */
function decisionOf({ approval, state, toolCallId }: ToolPart, messageIds: readonly string[]): Answer | null {
  if (state !== 'approval-responded' || typeof approval?.approved !== 'boolean') return null;
  if (!messageIds.some(id => approvalIdOf(id, toolCallId) === approval.id)) return null;
  const { approved, reason } = approval;
  if (approved) return { type: 'approve' };
  return { type: 'reject', ...(typeof reason === 'string' && { reason }) };
}

/** The result that the page gives for its tool's call; `null` without one. */
function resultOf({ state, output, errorText = 'The call failed.' }: ToolPart): Answer | null {
  if (state === 'output-available') return { type: 'result', output: output ?? null };
  return state === 'output-error' ? { type: 'result', output: String(errorText), isError: true } : null;
}

/** Returns the call of a part: a call of the run or, with the id `RUN/CALL`, of a sub-agent's run. */
async function findCall(run: Run, toolCallId: string): Promise<{ callId: string; runId: string }> {
  const at = toolCallId.indexOf('/');
  const runId = toolCallId.slice(0, Math.max(at, 0));
  const isBelow = at > 0 && (await run.source.store.get(runId))?.parent !== undefined;
  return isBelow ? { callId: toolCallId.slice(at + 1), runId } : { callId: toolCallId, runId: run.id };
}
