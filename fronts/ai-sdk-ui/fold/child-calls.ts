import { readJournal } from '../../../engine/journal/read-journal.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';
import { isToolChunk, type ToolChunk } from '../chunk.ts';
import { type FoldOptions, RunFold } from './fold-run.ts';

/** The runs of sub-agents whose calls a journal waited for, in order. */
export function childRunsIn(events: readonly RunEvent[]): string[] {
  return [...new Set(events.flatMap(event => (event.type === 'tool.suspended' ? [event.childRunId] : [])))];
}

/**
 * The calls of a sub-agent's run that people decide, as chunks for a message of the run above it. A call's id there is
 * `RUN/CALL`. `messageId` is that of the message.
 */
export async function chunksOfChild(
  store: Store,
  childRunId: string,
  { messageId, ...options }: Omit<FoldOptions, 'messageId'> & { messageId: string },
): Promise<ToolChunk[]> {
  const fold = new RunFold({ ...options, messageId: () => messageId, callPrefix: `${childRunId}/` });
  const entries = await readJournal(store, childRunId);
  for (const { seq, event } of entries) fold.take({ ...event, seq, runId: childRunId });
  const chunks = fold.drafts.flatMap(draft =>
    draft.type === 'assistant' ? draft.chunks.map(({ chunk }) => chunk).filter(isToolChunk) : [],
  );
  const asked = new Set(
    chunks.flatMap(chunk => (chunk.type === 'tool-approval-request' ? [chunk.toolCallId] : [])),
  );
  const own = chunks.filter(({ toolCallId }) => asked.has(toolCallId));
  const below = await Promise.all(
    childRunsIn(entries.map(({ event }) => event)).map(id =>
      chunksOfChild(store, id, { messageId, ...options }),
    ),
  );
  return [...own, ...below.flat()];
}
