import {
  DEEPEST_JSON,
  isJsonObject,
  isTooDeep,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import { jsonIn, shorten } from './json-access.ts';

type ParsedArguments = { input: JsonObject } | { error: string };

/**
 * Parses the arguments text of a call. No text (`''`, `null`) means `{}`. Anything but a JSON object of at
 * most 200 levels gives an error for the model to read, which quotes at most 80 characters of the text.
 */
export function parseArguments(text: string | null | undefined): ParsedArguments {
  if (text === null || text === undefined || text.trim() === '') return { input: {} };
  const value = jsonIn(text);
  if (value === undefined) {
    return {
      error: `The arguments must be a JSON object, but they are not valid JSON: ${shorten(text, 80)}`,
    };
  }
  if (isTooDeep(text)) {
    return {
      error: `The arguments are nested more than ${DEEPEST_JSON} levels deep. Nest them less: ${shorten(text, 80)}`,
    };
  }
  if (isJsonObject(value)) return { input: value };
  return {
    error: `The arguments must be a JSON object, but they are ${kindOf(value)}: ${shorten(text, 80)}`,
  };
}

/**
 * Returns the arguments of an earlier call as an object; text that is not an object becomes
 * `{invalid_arguments: text}`.
 */
export function argumentsObject(text: string): JsonObject {
  const parsed = parseArguments(text);
  return 'input' in parsed ? parsed.input : { invalid_arguments: text };
}

function kindOf(value: JsonValue): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`;
}
