import { messageOf } from '../../protocol/error.ts';
import { type JsonValue, toBoundedText } from '../../protocol/json.ts';
import { describeNonJson, findNonJson, isPlain, type NonJson } from './find-non-json.ts';

/**
 * Converts a tool's return value to JSON; returns it with its text, or a fault that says what to return instead. Nested
 * objects with a `toJSON` method, such as dates, are replaced by its result.
 */
export function readOutput(output: unknown): { value: JsonValue; text: string } | { fault: string } {
  try {
    const foreign = findNonJson(output, isLost);
    if (foreign !== undefined) return { fault: describeFault(describePart(foreign)) };
    const text = toBoundedText(output);
    return { value: JSON.parse(text), text };
  } catch (error) {
    return { fault: describeFault(messageOf(error)) };
  }
}

/** Whether JSON would empty or distort an object. Node's buffers become a list of numbers. */
function isLost({ path, value }: NonJson): boolean {
  if (typeof value !== 'object' || value === null || isPlain(value)) return false;
  if (path === '' && value instanceof Date) return true;
  return !('toJSON' in value) || typeof value.toJSON !== 'function' || ArrayBuffer.isView(value);
}

function describePart({ path, value }: NonJson): string {
  return `${path === '' ? 'the value' : `"${path}"`} is ${describeNonJson(value)}`;
}

function describeFault(reason: string): string {
  return `The tool ran, but its result could not be recorded: ${reason}`;
}
