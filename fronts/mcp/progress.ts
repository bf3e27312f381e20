import type { ServerContext } from '@modelcontextprotocol/server';
import type { Run, RunHappening } from '../../engine/run/run.ts';
import { findCall } from '../../machines/calls.ts';

/** Sends progress notifications about a run to a client that asked for them. Returns a function that stops. */
export function reportProgress(run: Run, { mcpReq }: ServerContext): () => void {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return () => {};
  const events = run.events({ after: run.durable.seq })[Symbol.asyncIterator]();
  const send = async () => {
    for (let next = await events.next(); next.done !== true; next = await events.next()) {
      const message = describe(run, next.value);
      if (message === null) continue;
      const params = { progressToken, message: message.text, progress: message.seq };
      await mcpReq.notify({ method: 'notifications/progress', params });
    }
  };
  send().catch(() => {});
  return () => void events.return?.().catch(() => {});
}

/** One line about an event, and its seq; `null` for events that say nothing to a caller. */
function describe(run: Run, event: RunHappening): { seq: number; text: string } | null {
  switch (event.type) {
    case 'turn.completed':
      return {
        seq: event.seq,
        text: event.calls.length > 0 ? 'The model calls tools.' : 'The model has answered.',
      };
    case 'tool.started':
      return {
        seq: event.seq,
        text: `${findCall(run.context, event.callId)?.name ?? event.callId} has started.`,
      };
    default:
      return null;
  }
}
