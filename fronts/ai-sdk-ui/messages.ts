import { readJournal } from '../../engine/journal/read-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import { readStory } from '../../engine/story/read-story.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { Item, Part } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { type ContentChunk, isToolChunk, type ToolChunk } from './chunk.ts';
import {
  type DescribeError,
  describeSafely,
  type OthersFor,
  type ToolPart,
  type UIMessage,
  type UIMessagePart,
} from './ui-message.ts';
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
  return await readChatMessages(run, { describeError: options.onError ?? describeSafely });
}

type Shown = { describeError: DescribeError; othersFor?: OthersFor };

/** The messages as they are for a caller who may not decide everything. */
export async function readChatMessages(run: Run, shown: Shown): Promise<UIMessage[]> {
  const messages: UIMessage[] = [];
  for (const { runId } of await run.source.store.chain(run.id))
    messages.push(...(await messagesOf(run, runId, shown)));
  return messages;
}

async function messagesOf(
  { source: { store, textFilters } }: Run,
  runId: string,
  shown: Shown,
): Promise<UIMessage[]> {
  const messageId = await findMessageIds(store, (await store.get(runId)) ?? { runId });
  /** By the number of the assistant message: the user messages before it, and its chunks. */
  const messages: { users: UIMessage[]; chunks: ContentChunk[] }[] = [];
  const writer = new MessageWriter({ runId, store, messageId, ...shown }, ({ message, chunk }) =>
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
  return entries.filter(({ event }) => event.type === 'message.received' && event.from === undefined).length;
}

/** Folds the chunks of journaled turns into a message, as `useChat` does. Each text comes in one piece. @internal */
export function foldMessage(id: string, chunks: readonly ContentChunk[]): UIMessage {
  const parts: UIMessagePart[] = [];
  for (const chunk of chunks) {
    if (isToolChunk(chunk)) foldTool(parts, chunk);
    else
      switch (chunk.type) {
        case 'start-step':
          parts.push({ type: 'step-start' });
          break;
        case 'reset-step':
          parts.splice(lastStepAt(parts));
          break;
        case 'text-start':
          parts.push({ type: 'text', text: '', state: 'done' });
          break;
        case 'reasoning-start':
          parts.push({ type: 'reasoning', id: chunk.id, text: '', state: 'done' });
          break;
        case 'text-delta':
        case 'reasoning-delta': {
          const last = parts.at(-1);
          if (last !== undefined && 'text' in last) last.text += chunk.delta;
          break;
        }
        case 'source-url':
        case 'source-document':
        case 'file':
          parts.push({ ...chunk });
          break;
        case 'data-run': {
          const known = parts.find(part => part.type === 'data-run');
          if (known) known.data = chunk.data;
          else parts.push({ type: 'data-run', id: 'run', data: chunk.data });
          break;
        }
        case 'data-question': {
          const { type, data } = chunk;
          const id = data.toolCallId;
          const known = parts.find(part => part.type === type && part.id === id);
          if (known?.type === type) known.data = data;
          else parts.push({ type, id, data });
          break;
        }
        case 'text-end':
        case 'reasoning-end':
        case 'finish-step':
        case 'data-progress':
      }
  }
  return { id, role: 'assistant', parts };
}

export function lastStepAt(parts: readonly { type: string }[]): number {
  return parts.findLastIndex(({ type }) => type === 'step-start') + 1;
}

function foldTool(parts: UIMessagePart[], chunk: ToolChunk): void {
  const at = parts.findLastIndex(part => 'toolCallId' in part && part.toolCallId === chunk.toolCallId);
  const found = parts[at];
  const part = nextPart(found !== undefined && 'toolCallId' in found ? found : undefined, chunk);
  if (part === undefined) return;
  if (at < ('toolName' in chunk ? lastStepAt(parts) : 0)) parts.push(part);
  else parts[at] = part;
}

function nextPart(found: ToolPart | undefined, chunk: ToolChunk): ToolPart | undefined {
  if ('toolName' in chunk) {
    if (chunk.type === 'tool-input-start') return undefined;
    const { toolCallId, toolName, input, providerExecuted } = chunk;
    const call = { type: `tool-${toolName}`, toolCallId } as const;
    if (chunk.type === 'tool-input-error')
      return { ...call, state: 'output-error', input, errorText: chunk.errorText };
    return { ...call, state: 'input-available', input, ...omitUndefined({ providerExecuted }) };
  }
  if (found === undefined) return undefined;
  const { type, toolCallId, input, providerExecuted, approval } = found;
  const facts = { input, ...omitUndefined({ providerExecuted }) };
  const granted = omitUndefined({ approval: approval?.approved === true ? approval : undefined });
  switch (chunk.type) {
    case 'tool-approval-request': {
      const request = { id: chunk.approvalId, ...omitUndefined({ requestReason: chunk.reason }) };
      return { type, toolCallId, state: 'approval-requested', ...facts, approval: request };
    }
    case 'tool-approval-response': {
      if (approval === undefined) return found;
      const { id, requestReason } = approval;
      const { approved, reason } = chunk;
      const decision = { id, ...omitUndefined({ requestReason }), approved, ...omitUndefined({ reason }) };
      return { type, toolCallId, state: 'approval-responded', ...facts, approval: decision };
    }
    case 'tool-output-available':
      return { type, toolCallId, state: 'output-available', ...facts, ...granted, output: chunk.output };
    case 'tool-output-error':
      return { type, toolCallId, state: 'output-error', ...facts, ...granted, errorText: chunk.errorText };
    case 'tool-output-denied':
      if (approval?.approved !== false) return found;
      return { type, toolCallId, state: 'output-denied', ...facts, approval };
    case 'tool-input-delta':
      return found;
  }
}
