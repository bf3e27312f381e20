import type { ElicitRequestFormParams, ServerContext } from '@modelcontextprotocol/server';
import type { Run } from '../../engine/run/run.ts';
import type { OpenCall } from '../../protocol/run-view.ts';

/** How long a person may take to answer a form, in ms: a day. */
const FORM_MS = 24 * 60 * 60 * 1_000;

const DECISIONS: readonly string[] = ['approval.decided', 'result.received', 'doubt.resolved'];

/**
 * Sends forms to a client of revision 2025-11-25 or earlier, whose tool call is open meanwhile. Returns the replies by
 * id. A form that fails, or whose call is decided elsewhere in the meantime, is withdrawn and counts as cancelled.
 */
export async function askOpenCall(
  run: Run,
  forms: readonly { id: string; call: OpenCall; form: ElicitRequestFormParams }[],
  { mcpReq }: ServerContext,
): Promise<Record<string, unknown>> {
  const withdrawals = new Map(forms.map(({ call }) => [call.callId, new AbortController()]));
  const stopWatching = watchDecisions(run, callId => withdrawals.get(callId)?.abort());
  try {
    const replies = forms.map(async ({ id, call, form }) => {
      const withdrawn = withdrawals.get(call.callId)?.signal ?? mcpReq.signal;
      const options = { timeout: FORM_MS, signal: AbortSignal.any([mcpReq.signal, withdrawn]) };
      const asked = mcpReq.send({ method: 'elicitation/create', params: form }, options);
      return [id, await asked.catch(() => ({ action: 'cancel' }))] as const;
    });
    return Object.fromEntries(await Promise.all(replies));
  } finally {
    stopWatching();
  }
}

/** Calls `decided` with the id of each call of the run that is decided from now on, by any process. */
function watchDecisions(run: Run, decided: (callId: string) => void): () => void {
  const events = run.events({ after: run.durable.seq, follow: true })[Symbol.asyncIterator]();
  const watch = async () => {
    for (let next = await events.next(); next.done !== true; next = await events.next()) {
      const event = next.value;
      if (DECISIONS.includes(event.type) && 'callId' in event) decided(String(event.callId));
    }
  };
  watch().catch(() => {});
  return () => void events.return?.().catch(() => {});
}
