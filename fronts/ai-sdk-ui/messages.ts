import { readJournal } from '../../engine/journal/read-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import { readStory } from '../../engine/story/read-story.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { Item, Part } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import type { ContentChunk } from './chunk.ts';
import { foldMessage } from './fold-message.ts';
import type { UIMessage, UIMessagePart } from './ui-message.ts';
import { type DescribeError, describeSafely } from './ui-message.ts';
import { MessageWriter } from './write-messages.ts';

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
  { source: { store, textFilters } }: Run,
  record: RunRecord,
  describeError: DescribeError,
): Promise<UIMessage[]> {
  const { runId } = record;
  const messageId = await findMessageIds(store, record);
  /** By the number of the assistant message: the user messages before it, and its chunks. */
  const messages: { users: UIMessage[]; chunks: ContentChunk[] }[] = [];
  const writer = new MessageWriter({ runId, store, messageId, describeError }, ({ message, chunk }) =>
    messages[message - 1]?.chunks.push(chunk),
  );
  for (const event of await readStory(store, { runId, filters: textFilters })) {
    if (event.type === 'message') {
      const key = `${runId}.${messages.length === 0 ? 'input' : event.seq}`;
      messages.push({ users: userMessagesOf(event.items, key), chunks: [] });
    }
    await writer.take(event);
  }
  await writer.end();
  return messages.flatMap(({ users, chunks }, at) => [...users, foldMessage(messageId(at + 1), chunks)]);
}

/** The user messages among items. A message without an id gets one from `key`. */
function userMessagesOf(items: readonly Item[], key: string): UIMessage[] {
  const messages = items.flatMap(item => (item.type === 'message' && item.role === 'user' ? [item] : []));
  return messages.map(({ id, content }, index) => ({
    id: id ?? `${key}.${index}`,
    role: 'user',
    parts: content.map(toUIPart),
  }));
}

function toUIPart(part: Part): UIMessagePart {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return {
        type: 'file',
        mediaType: /^data:([^;,]{1,100})/.exec(part.url)?.[1] ?? 'image/*',
        url: part.url,
      };
    case 'file':
      return {
        type: 'file',
        mediaType: part.mediaType ?? 'application/octet-stream',
        url: part.url,
        ...omitUndefined({ filename: part.name }),
      };
  }
}

type MessageIds = (number: number) => string;

/** `RUN.NUMBER`. Messages that a fork copied keep the ids of the original run. */
export async function findMessageIds(
  store: Store,
  { runId, forkOf }: Pick<RunRecord, 'runId' | 'forkOf'>,
): Promise<MessageIds> {
  const own: MessageIds = number => `${runId}.${number}`;
  const origin = forkOf && (await store.get(forkOf.runId));
  if (forkOf === undefined || origin === undefined) return own;
  const entries = await readJournal(store, origin.runId);
  const copied = countMessages(entries.filter(({ seq }) => seq <= forkOf.at));
  const ofOrigin = await findMessageIds(store, origin);
  return number => (number <= copied ? ofOrigin(number) : own(number));
}

export function countMessages(entries: readonly JournalEntry[]): number {
  return entries.filter(({ event }) => event.type === 'message.received').length;
}
