import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';

/** Between the texts of two items, because a chat message has one content. */
export const BETWEEN_TEXTS = '\n\n';

/** A call that a response hands over to the client. `written` is the JSON text of the arguments, or a custom tool's input. */
export type ClientCall = { type: 'function' | 'custom'; callId: string; name: string; written: string };

/** The text of all messages of a response, or of all its reasoning: what its stream adds up to. */
export function textIn(response: JsonObject, type: 'message' | 'reasoning'): string {
  return itemsIn(response)
    .filter(item => item.type === type)
    .map(({ content, summary }) => partsIn(type === 'message' ? content : summary).join(''))
    .filter(text => text !== '')
    .join(BETWEEN_TEXTS);
}

/** The calls of a response for the client, in order. */
export function callsIn(response: JsonObject): ClientCall[] {
  return itemsIn(response).flatMap(item => clientCall(item) ?? []);
}

/** The call of an output item; `undefined` for another item, and for a call that a failed attempt left incomplete. */
export function clientCall(item: JsonObject): ClientCall | undefined {
  if (item.status === 'incomplete') return undefined;
  const call = { callId: String(item.call_id), name: String(item.name) };
  if (item.type === 'function_call') return { ...call, type: 'function', written: String(item.arguments) };
  if (item.type === 'custom_tool_call') return { ...call, type: 'custom', written: String(item.input) };
  return undefined;
}

function itemsIn({ output }: JsonObject): JsonObject[] {
  return Array.isArray(output) ? output.filter(isJsonObject) : [];
}

function partsIn(parts: JsonValue | undefined): string[] {
  if (!Array.isArray(parts)) return [];
  return parts.flatMap(part => (isJsonObject(part) && typeof part.text === 'string' ? [part.text] : []));
}
