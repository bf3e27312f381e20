import type { JsonObject, JsonValue } from '../../../../protocol/json.ts';

/**
 * One thing a request says, whatever the dialect says it in. `opaque` is what must be there byte for
 * byte: a signature, encrypted reasoning. `server` is something the provider ran, as it came.
 */
export type Fact =
  | { type: 'instruction' | 'user' | 'text' | 'thought' | 'opaque'; text: string }
  | { type: 'call'; id: string; name: string; input: JsonValue }
  | { type: 'result'; id: string; output: JsonValue }
  | { type: 'server'; item: JsonObject };

/** The facts of one `type` with a text; none where there is no text. */
export function said(type: Extract<Fact, { text: string }>['type'], value: JsonValue | undefined): Fact[] {
  const text = textOf(value);
  return text === '' ? [] : [{ type, text }];
}

/** The text of a string, or of parts that have one. */
export function textOf(value: JsonValue | undefined): string {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) return '';
  return value.map(part => (isObject(part) ? textOf(part.text) : '')).join('');
}

/** Arguments as JSON where they are, else as they stand. */
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
