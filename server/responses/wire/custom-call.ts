import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';

/** A call of a custom tool as an item. `arguments` is the JSON text of an object with the call's `input`. */
export function customCall(call: { id: string | null; callId: string; name: string; arguments: string }) {
  const { id, callId, name, arguments: written } = call;
  const input = readInput(written);
  return { id, type: 'custom_tool_call' as const, status: 'completed', call_id: callId, name, input };
}

function readInput(text: string): string {
  try {
    const value: JsonValue = JSON.parse(text);
    return isJsonObject(value) && typeof value.input === 'string' ? value.input : text;
  } catch {
    return text;
  }
}
