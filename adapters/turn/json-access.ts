import { cutDeep, isJsonObject, isTooDeep, type JsonObject, type JsonValue } from '../../protocol/json.ts';

/** Returns the value if it is an object, else an empty object. For external data of uncertain shape. */
export function objectOf(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

export function arrayOf(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : [];
}

export function objectsOf(value: JsonValue | undefined): JsonObject[] {
  return arrayOf(value).filter(isJsonObject);
}

export function textIn(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}

export function nonEmpty(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function integerIn(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) ? value : undefined;
}

/** Parses JSON text; `undefined` if it is not valid. Values nested too deep are cut (see `cutDeep`). */
export function jsonIn(text: string): JsonValue | undefined {
  try {
    const value: JsonValue = JSON.parse(text);
    return isTooDeep(text) ? cutDeep(value) : value;
  } catch {
    return undefined;
  }
}

/** Cuts the text to `length` characters, the last of which is then `…`. */
export function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

export function pick(value: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)));
}

/** Lists that are concatenated, so that options can add provider tools to the agent's tools. */
const APPENDED = new Set(['tools', 'include']);

/** Objects are merged, `tools` and `include` appended, all other members replaced. */
export function mergeOptions(body: JsonObject, options: JsonObject | undefined): JsonObject {
  const merged = { ...body };
  for (const [key, value] of Object.entries(options ?? {})) {
    const present = merged[key];
    if (isJsonObject(present) && isJsonObject(value)) merged[key] = mergeOptions(present, value);
    else if (APPENDED.has(key) && Array.isArray(present) && Array.isArray(value)) {
      merged[key] = [...present, ...value];
    } else merged[key] = value;
  }
  return merged;
}
