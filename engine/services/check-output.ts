import { messageOf } from '../../protocol/error.ts';
import { type JsonValue, toJson } from '../../protocol/json.ts';
import type { OutputContract } from '../definition.ts';

/** The value an answer is, or what is wrong with it, told to the model. */
export type CheckedOutput = { output: JsonValue } | { fault: string };

/** Reads the answer as JSON, which may stand in a code fence, and validates it. Never rejects. */
export async function checkOutput({ validate }: OutputContract, text: string): Promise<CheckedOutput> {
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

const FENCED = /^```(?:json)?\s*\n([\s\S]*?)\n?```$/i;

function parseAnswer(text: string): JsonValue | undefined {
  const trimmed = text.trim();
  try {
    return JSON.parse(FENCED.exec(trimmed)?.[1] ?? trimmed);
  } catch {
    return undefined;
  }
}
