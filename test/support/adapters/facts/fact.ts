import type { JsonObject, JsonValue } from '../../../../protocol/json.ts';

/**
 * One fact of a request, independent of the dialect. `opaque` is data that must be sent byte for byte: a
 * signature, encrypted reasoning. `server` is a provider-run call or result, unchanged.
 */
export type Fact =
  | { type: 'instruction' | 'user' | 'text' | 'thought' | 'opaque'; text: string }
  | { type: 'call'; id: string; name: string; input: JsonValue }
  | { type: 'result'; id: string; output: JsonValue }
  | { type: 'server'; item: JsonObject };

/** The facts of one `type` with a text; empty without a text. */
export function textFacts(
  type: Extract<Fact, { text: string }>['type'],
  value: JsonValue | undefined,
): Fact[] {
  const text = textOf(value);
  return text === '' ? [] : [{ type, text }];
}

/** The text of a string, or of parts that have text. */
export function textOf(value: JsonValue | undefined): string {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return '';
  return value.map(part => (isObject(part) ? textOf(part.text) : '')).join('');
}

/** Arguments as parsed JSON if valid, else unchanged. */
export function inputOf(value: JsonValue | undefined): JsonValue {
  if (typeof value !== 'string') return value ?? {};
  try {
    return JSON.parse(value || '{}');
  } catch {
    return value;
  }
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
