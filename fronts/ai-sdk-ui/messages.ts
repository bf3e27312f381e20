import { readJournal } from '../../engine/journal/read-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { RunRecord } from '../../protocol/store.ts';
import type { UIMessage } from './chunk.ts';
import { type DescribeError, describeSafely } from './describe-error.ts';
import { FamilyFold } from './fold/child-calls.ts';
import { foldMessage } from './fold/fold-message.ts';
import { findMessageIds } from './read-journal.ts';

/** Options of `toUIMessages`. */
export type UIMessageOptions = {
  /** The text for a failure of the run or a tool. Default: what failed and the error code, without the message. */
  onError?: DescribeError;
};

export const UI_MESSAGE_NAMES: NamesOf<UIMessageOptions> = { onError: true };

/**
 * Returns the messages of a run and of all runs that it continues, oldest first, for `useChat({ messages })`. The last
 * message contains only journaled output: nothing of a turn in progress.
 *
 * @example
 * const messages = await toUIMessages(await agent.open(runId));
 */
export async function toUIMessages(run: Run, options: UIMessageOptions = {}): Promise<UIMessage[]> {
  refuseUnknownOptions('toUIMessages', options, UI_MESSAGE_NAMES, 'input-invalid');
  const { onError = describeSafely } = options;
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
  const family = new FamilyFold(store, { messageId, showText, describeError });
  for (const { seq, event } of await readJournal(store, record.runId))
    await family.take({ ...event, seq, runId: record.runId });
  await family.rest();
  return family.fold.drafts.map(draft => {
    if (draft.type === 'user') return draft.message;
    return foldMessage(
      draft.id,
      draft.chunks.map(({ chunk }) => chunk),
    );
  });
}
