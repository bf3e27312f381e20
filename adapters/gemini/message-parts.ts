import type { MessageItem, ReasoningItem } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { mediaPart } from './media.ts';
import { keptBy, PROVIDER, signed, textParts } from './wire-part.ts';

/** Returns the parts of a user or system message. */
export function userParts({ content }: MessageItem): JsonObject[] {
  return content.flatMap(part => {
    if (part.type !== 'text') return [mediaPart(part)];
    return part.text === '' ? [] : [{ text: part.text }];
  });
}

/** Returns the parts of an assistant message. Images from other providers' models are omitted. */
export function modelParts(item: MessageItem): JsonObject[] {
  const { spans, thoughtSignature } = keptBy(item);
  return item.content.flatMap(part => {
    if (part.type === 'text') return textParts(part.text, spans);
    return item.opaque?.provider === PROVIDER ? [{ ...mediaPart(part), ...signed(thoughtSignature) }] : [];
  });
}

/** Returns the parts of a thought. Only signed thoughts are sent back. */
export function thoughtParts(item: ReasoningItem): JsonObject[] {
  const { spans } = keptBy(item);
  const parts = spans ? textParts(item.text, spans) : [];
  return parts.some(part => part.thoughtSignature !== undefined)
    ? parts.map(part => ({ ...part, thought: true }))
    : [];
}
