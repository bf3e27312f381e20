import type { MessageItem, ReasoningItem } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { mediaPart } from './media.ts';
import { keptBy, PROVIDER, signed, textParts } from './wire-part.ts';

/** The parts of a message of the user, or of what is put to the model as one. */
export function userParts({ content }: MessageItem): JsonObject[] {
  return content.flatMap(part => {
    if (part.type !== 'text') return [mediaPart(part)];
    return part.text === '' ? [] : [{ text: part.text }];
  });
}

/** The parts of a message of the model. Pictures of other providers' models are left out. */
export function modelParts(item: MessageItem): JsonObject[] {
  const { spans, thoughtSignature } = keptBy(item);
  return item.content.flatMap(part => {
    if (part.type === 'text') return textParts(part.text, spans);
    return item.opaque?.provider === PROVIDER ? [{ ...mediaPart(part), ...signed(thoughtSignature) }] : [];
  });
}

/** A thought goes back only signed, and as a thought. */
export function thoughtParts(item: ReasoningItem): JsonObject[] {
  const { spans } = keptBy(item);
  const parts = spans ? textParts(item.text, spans) : [];
  return parts.some(part => part.thoughtSignature !== undefined)
    ? parts.map(part => ({ ...part, thought: true }))
    : [];
}
