import { EngineError, messageOf } from '../protocol/error.ts';
import type { JsonValue } from '../protocol/json.ts';

/** The value of an option that takes JSON; throws `input-invalid`, naming the option. */
export function parseJson(text: string, option: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new EngineError(
      'input-invalid',
      `${option} takes JSON, and ${JSON.stringify(text)} is not: ${messageOf(cause)}. Quote it for your shell, such as ${option} '{"ok": true}'.`,
      null,
      { cause },
    );
  }
}
