import type { Item, MessageItem } from './item.ts';

/** A user message with one text part: what `start('…')` and `send('…')` make of a string. */
export function userMessage(text: string): MessageItem {
  return { type: 'message', role: 'user', content: [{ type: 'text', text }] };
}

/** The text parts of a message, joined; empty for every other item. */
export function textOf(item: Item): string {
  if (item.type !== 'message') return '';
  let text = '';
  for (const part of item.content) if (part.type === 'text') text += part.text;
  return text;
}
