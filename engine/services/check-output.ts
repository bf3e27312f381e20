import { messageOf } from '../../protocol/error.ts';
import { DEEPEST_JSON, isTooDeep, type JsonValue, toJson } from '../../protocol/json.ts';
import type { OutputContract } from './definition.ts';

/** The validated value of an answer, or the feedback for the model. */
type CheckedOutput = { output: JsonValue } | { fault: string };

/** Parses the answer as JSON, optionally in a code fence, and validates it. Never rejects. */
export async function checkOutput({ validate }: OutputContract, text: string): Promise<CheckedOutput> {
  if (isTooDeep(text)) {
    return { fault: `The answer is nested more than ${DEEPEST_JSON} levels deep. Answer again, with less.` };
  }
  const value = parseAnswer(text);
  if (value === undefined) {
    return { fault: 'The answer is not valid JSON. Answer again with the JSON object alone: no other text.' };
  }
  try {
    const validation = await validate(value);
    if (validation.valid) return { output: toJson(validation.value) };
    return { fault: `The answer does not follow the schema: ${validation.message}. Answer again.` };
  } catch (error) {
    return { fault: `The answer could not be checked: ${messageOf(error)}` };
  }
}

const FENCE = '```';
const OPENING = /^```(?:json)?$/i;

function parseAnswer(text: string): JsonValue | undefined {
  try {
    return JSON.parse(withoutFence(text.trim()));
  } catch {
    return undefined;
  }
}

function withoutFence(text: string): string {
  const firstLine = text.indexOf('\n');
  if (firstLine === -1 || !text.endsWith(FENCE) || !OPENING.test(text.slice(0, firstLine).trimEnd())) {
    return text;
  }
  return text.slice(firstLine + 1, -FENCE.length);
}
