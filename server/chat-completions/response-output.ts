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

/** The words with which the provider refused; empty if it did not. */
export function refusalIn(response: JsonObject): string {
  return itemsIn(response)
    .map(({ content }) => partsIn(content, 'refusal').join(''))
    .filter(text => text !== '')
    .join(BETWEEN_TEXTS);
}

/** The citations of all messages of a response, in the format of a completion. */
export function citationsIn(response: JsonObject): JsonObject[] {
  let start = 0;
  return itemsIn(response).flatMap(item => {
    const length = item.type === 'message' ? partsIn(item.content).join('').length : 0;
    if (length === 0) return [];
    if (start > 0) start += BETWEEN_TEXTS.length;
    const citations = citationsOf(item, start);
    start += length;
    return citations;
  });
}

/** The citations of a message item whose text begins at `start` of the completion's content. */
export function citationsOf({ content }: JsonObject, start: number): JsonObject[] {
  const parts = Array.isArray(content) ? content.filter(isJsonObject) : [];
  return parts
    .flatMap(({ annotations }) => (Array.isArray(annotations) ? annotations.filter(isJsonObject) : []))
    .filter(({ type }) => type === 'url_citation')
    .map(({ url, title, start_index, end_index }) => ({
      type: 'url_citation',
      url_citation: {
        url: url ?? '',
        title: title ?? '',
        start_index: start + Number(start_index ?? 0),
        end_index: start + Number(end_index ?? 0),
      },
    }));
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

function partsIn(parts: JsonValue | undefined, field = 'text'): string[] {
  if (!Array.isArray(parts)) return [];
  return parts.flatMap(part => {
    const text = isJsonObject(part) ? part[field] : undefined;
    return typeof text === 'string' ? [text] : [];
  });
}
