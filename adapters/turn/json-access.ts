import { cutDeep, isJsonObject, isTooDeep, type JsonObject, type JsonValue } from '../../protocol/json.ts';

/** Reads a value from outside without believing its shape: what is not there, or not of its type, is empty. */
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

/** `undefined` for what is not a string, and for the empty one. */
export function nonEmpty(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function integerIn(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) ? value : undefined;
}

/**
 * What the text is as JSON; `undefined` when it is not JSON. What is nested very deep is cut; see `cutDeep`.
 */
export function jsonIn(text: string): JsonValue | undefined {
  try {
    const value: JsonValue = JSON.parse(text);
    return isTooDeep(text) ? cutDeep(value) : value;
  } catch {
    return undefined;
  }
}

/** The text, cut to `length` characters and marked as cut. */
export function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
