import { readJournal } from '../../engine/journal/read-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import type { RunRecord } from '../../protocol/store.ts';
import type { UIMessage } from './chunk.ts';
import { type DescribeError, describeSafely } from './describe-error.ts';
import { childRunsIn, chunksOfChild } from './fold/child-calls.ts';
import { foldMessage } from './fold/fold-message.ts';
import { RunFold } from './fold/fold-run.ts';
import { findMessageIds } from './read-journal.ts';

/** Options of `toUIMessages` and `toUIMessageResponse`. */
export type UIMessageOptions = {
  /** The text for a failure of the run or a tool. Default: what failed and its code, without the message. */
  onError?: DescribeError;
};

/**
 * The messages of a run and of all runs that it continues, oldest first, for `useChat({ messages })`. The last one has
 * what is in the journal: of a turn in progress, nothing.
 *
 * @example
 * const messages = await toUIMessages(await agent.open(runId));
 */
export async function toUIMessages(
  run: Run,
  { onError = describeSafely }: UIMessageOptions = {},
): Promise<UIMessage[]> {
  const messages: UIMessage[] = [];
  for (const record of await run.source.store.chain(run.id))
    messages.push(...(await messagesOf(run, record, onError)));
  return messages;
}

async function messagesOf(
  { source: { store, showText } }: Run,
  record: RunRecord,
  describeError: DescribeError,
): Promise<UIMessage[]> {
  const messageId = await findMessageIds(store, record);
  const fold = new RunFold({ messageId, showText, describeError });
  const entries = await readJournal(store, record.runId);
  for (const { seq, event } of entries) fold.take({ ...event, seq, runId: record.runId });
  fold.rest();
  const below = { messageId: messageId(fold.current), showText, describeError };
  const children = childRunsIn(entries.map(({ event }) => event));
  const late = (await Promise.all(children.map(id => chunksOfChild(store, id, below)))).flat();
  return fold.drafts.map(draft => {
    if (draft.type === 'user') return draft.message;
    const own = draft.chunks.map(({ chunk }) => chunk);
    return foldMessage(draft.id, draft.number === fold.current ? [...own, ...late] : own);
  });
}
