import type { Run } from '../../../engine/run/run.ts';
import type { JsonValue } from '../../../protocol/json.ts';
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
  const author = by === undefined ? {} : { by };
  const ofPage = new Set(
    run.context.calls.flatMap(({ callId, status, executedBy }) =>
      status === 'waiting' && executedBy === 'client' ? [callId] : [],
    ),
  );
  for (const { role, parts } of messages) {
    if (role !== 'assistant') continue;
    for (const part of toolPartsOf(parts)) {
      const approved = approvalOf(part, messageIds);
      if (approved !== undefined) {
        const { callId, runId } = await findCall(run, part.toolCallId);
        const { reason } = part.approval ?? {};
        const options = { runId, ...author };
        if (approved) await run.approve(callId, options);
        else await run.reject(callId, { ...options, ...(typeof reason === 'string' && { reason }) });
      } else if (ofPage.has(part.toolCallId)) await answer(run, part, author);
    }
  }
}

/** Returns the page's answer to an approval request of this run; `undefined` without one. */
function approvalOf(part: ToolPart, messageIds: readonly string[]): boolean | undefined {
  const { approval, state, toolCallId } = part;
  if (state !== 'approval-responded' || typeof approval?.approved !== 'boolean') return undefined;
  return messageIds.some(id => approvalIdOf(id, toolCallId) === approval.id) ? approval.approved : undefined;
}

/** Returns the call of a part: a call of the run or, with the id `RUN/CALL`, of a sub-agent's run. */
async function findCall(run: Run, toolCallId: string): Promise<{ callId: string; runId: string }> {
  const at = toolCallId.indexOf('/');
  const runId = toolCallId.slice(0, Math.max(at, 0));
  const isBelow = at > 0 && (await run.source.store.get(runId))?.parent !== undefined;
  return isBelow ? { callId: toolCallId.slice(at + 1), runId } : { callId: toolCallId, runId: run.id };
}

async function answer(run: Run, part: ToolPart, author: { by?: string }): Promise<void> {
  const { toolCallId, state, output, errorText = 'The call failed.' } = part;
  const given = { runId: run.id, ...author };
  if (state === 'output-available')
    await run.answer(toolCallId, { output: (output ?? null) as JsonValue, ...given });
  if (state === 'output-error')
    await run.answer(toolCallId, { output: String(errorText), isError: true, ...given });
}
