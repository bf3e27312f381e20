import type { Item, MessageItem, Part } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { UIMessage, UIMessagePart } from '../chunk.ts';

/** The user messages among items. A message without an id gets one from `id`. */
export function userMessagesOf(items: readonly Item[], id: string): UIMessage[] {
  const messages = items.filter(
    (item): item is MessageItem => item.type === 'message' && item.role === 'user',
  );
  return messages.map((item, index) => ({
    id: item.id ?? `${id}.${index}`,
    role: 'user',
    parts: item.content.map(toUIPart),
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
