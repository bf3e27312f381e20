import type { Item, MessageItem, Part } from './item.ts';
import { isJsonObject, omitUndefined } from './json.ts';

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

type Outcome = { callId: string; name: string; runId?: string; isError: boolean; rest?: string };

/** The outcome of background work as a message. `rest`: words about what the content lacks, if it is cut. */
export function outcomeMessage(
  { callId, name, runId, isError, rest }: Outcome,
  content: readonly Part[],
): MessageItem {
  const about = `The background work of call ${callId} (${name}) has ${isError ? 'failed' : 'ended'}.`;
  const more = rest === undefined ? '' : ` ${rest}`;
  return {
    type: 'message',
    role: 'user',
    outcomeOf: { callId, ...omitUndefined({ runId }), ...(isError && { isError }) },
    content: [
      { type: 'text', text: `${about}${more} ${isError ? "The tool's error" : 'The tool returned'}:\n` },
      ...content,
    ],
  };
}

const AFTER_CALL =
  /^[\w-]{1,64}\) has (?:ended|failed)\.(?: Run \S{1,200} has all of it\.)? The tool(?: returned|'s error):\n$/;

/** Whether the part has only the words that `outcomeMessage` puts before the outcome of this call. */
export function isOutcomeWords(part: Part | undefined, callId: string): boolean {
  const before = `The background work of call ${callId} (`;
  if (part?.type !== 'text' || !part.text.startsWith(before)) return false;
  return AFTER_CALL.test(part.text.slice(before.length));
}

/** Whether the item is the outcome of background work: the model reads it as a message, and no person wrote it. */
export function isOutcome(item: Item): boolean {
  return item.type === 'message' && item.outcomeOf !== undefined;
}

/** Returns the words with which a provider refused after the text of a message, apart from that text; else ''. */
export function refusalOf(item: Item): string {
  const data = item.type === 'message' ? item.opaque?.data : undefined;
  return isJsonObject(data) && typeof data.refusal === 'string' ? data.refusal : '';
}
