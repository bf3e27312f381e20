import type { Item, MessageItem } from './item.ts';

/** Returns a user message with one text part, as `start('…')` and `send('…')` create it from a string. */
export function userMessage(text: string): MessageItem {
  return { type: 'message', role: 'user', content: [{ type: 'text', text }] };
}

/** Returns the joined text parts of a message; an empty string for every other item. */
export function textOf(item: Item): string {
  if (item.type !== 'message') return '';
  let text = '';
  for (const part of item.content) if (part.type === 'text') text += part.text;
  return text;
}
