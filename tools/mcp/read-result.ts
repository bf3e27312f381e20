import type { CallToolResult } from '@modelcontextprotocol/client';
import { messageOf } from '../../protocol/error.ts';
import { type JsonValue, toBoundedJson } from '../../protocol/json.ts';

/**
 * Returns the part of an MCP result that the engine records:
 * - text parts only: the texts, joined by newlines;
 * - other parts too (images, audio, resources): all parts as the server sent them;
 * - no parts: `structuredContent`, or an empty text.
 * If a result has both, the parts are used: the server wrote them for a model, and the protocol requires both
 * to agree. Throws an `Error` with the redacted text when the result has `isError`.
 */
export function readResult(
  name: string,
  result: CallToolResult,
  redact: (text: string) => string,
): JsonValue {
  const { content, structuredContent, isError } = result;
  if (isError) throw new Error(redact(readText(name, content)) || `"${name}" failed without a message`);
  if (content.length === 0 && structuredContent !== undefined) return copy(name, structuredContent);
  return content.every(part => part.type === 'text') ? readText(name, content) : copy(name, content);
}

/** Throws an `Error` with a message for the model if the value is nested too deep. */
function copy(name: string, value: unknown): JsonValue {
  try {
    return toBoundedJson(value);
  } catch (error) {
    throw new Error(`"${name}" ran, but its result cannot be recorded: ${messageOf(error)}`);
  }
}

function readText(name: string, content: CallToolResult['content']): string {
  const texts = content.map(part => (part.type === 'text' ? part.text : JSON.stringify(copy(name, part))));
  return texts.join('\n');
}
