import { DEEPEST_JSON, isJsonObject, isTooDeep, type JsonObject } from '../../protocol/json.ts';
import { jsonIn, shorten } from './json-access.ts';

export type ParsedArguments = { input: JsonObject } | { error: string };

/**
 * The arguments of a call from the text the model wrote. No text (`''`, `null`) means `{}`; anything
 * but a JSON object of at most 200 levels is an error for the model to read, which quotes at most 80 characters.
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
  const kind = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`;
  return { error: `The arguments must be a JSON object, but they are ${kind}: ${shorten(text, 80)}` };
}

/** The arguments of an old call for providers that take objects only; what is no object goes along as `invalid_arguments`. */
export function argumentsObject(text: string): JsonObject {
  const parsed = parseArguments(text);
  return 'input' in parsed ? parsed.input : { invalid_arguments: text };
}
