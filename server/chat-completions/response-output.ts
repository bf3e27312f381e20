import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';

/** Between the texts of two items, because a chat message has one content. */
export const BETWEEN_TEXTS = '\n\n';

/** A function call that a response hands over to the client. */
export type ClientCall = { callId: string; name: string; arguments: string };

/** The text of all messages of a response, or of all its reasoning: what its stream adds up to. */
export function textIn(response: JsonObject, type: 'message' | 'reasoning'): string {
  return itemsIn(response)
    .filter(item => item.type === type)
    .map(({ content, summary }) => partsIn(type === 'message' ? content : summary).join(''))
    .filter(text => text !== '')
    .join(BETWEEN_TEXTS);
}

/** The function calls of a response, in order. */
export function callsIn(response: JsonObject): ClientCall[] {
  return itemsIn(response).flatMap(item => clientCall(item) ?? []);
}

/** The call of an output item; `undefined` for another item, and for a call that a failed attempt left incomplete. */
export function clientCall({ type, status, call_id, name, arguments: written }: JsonObject) {
  if (type !== 'function_call' || status === 'incomplete') return undefined;
  return { callId: String(call_id), name: String(name), arguments: String(written) };
}

function itemsIn({ output }: JsonObject): JsonObject[] {
  return Array.isArray(output) ? output.filter(isJsonObject) : [];
}

function partsIn(parts: JsonValue | undefined): string[] {
  if (!Array.isArray(parts)) return [];
  return parts.flatMap(part => (isJsonObject(part) && typeof part.text === 'string' ? [part.text] : []));
}
