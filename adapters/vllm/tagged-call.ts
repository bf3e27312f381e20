import { isJsonObject, isTooDeep, type JsonObject, type JsonValue } from '../../protocol/json.ts';

/** A call as the model wrote it. `arguments` is text that may be invalid JSON. */
export type TaggedCall = { name: string; arguments: string };

/**
 * Reads the content of `<tool_call>`: a JSON object with `name` and `arguments`. Of anything else, returns
 * the name if there is one, and the rest as arguments, whose error the model then reads.
 */
export function readTaggedCall(text: string): TaggedCall {
  const call = isTooDeep(text) ? undefined : objectIn(text);
  if (typeof call?.name === 'string') {
    const { name, arguments: input = call.parameters ?? {} } = call;
    return { name, arguments: typeof input === 'string' ? input : JSON.stringify(input) };
  }
  const name = /"name"\s*:\s*"([^"\\]*)"/.exec(text)?.[1] ?? 'unknown';
  const at = text.indexOf('"arguments"');
  return {
    name,
    arguments:
      at === -1
        ? text.trim()
        : text
            .slice(at + '"arguments"'.length)
            .replace(/^\s*:/, '')
            .trim(),
  };
}

function objectIn(text: string): JsonObject | undefined {
  try {
    const value: JsonValue = JSON.parse(text);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
