import type { CallToolResult } from '@modelcontextprotocol/client';
import { messageOf } from '../../protocol/error.ts';
import { type JsonValue, toBoundedJson } from '../../protocol/json.ts';

/**
 * What the engine records of an MCP result. Only text: the texts, one after the other on their own lines.
 * Anything else among it (images, audio, resources): the parts as the server sent them. No parts at all:
 * `structuredContent`, or an empty text. Where both are there, the parts win: they are what the server
 * wrote for a model, and by the protocol they say the same.
 * Throws an `Error` with the text, redacted, when the result says `isError`.
 */
export function readResult(
  name: string,
  result: CallToolResult,
  redact: (text: string) => string,
): JsonValue {
  const { content, structuredContent, isError } = result;
  if (isError) throw new Error(redact(readText(name, content)) || `"${name}" failed and did not say why`);
  if (content.length === 0 && structuredContent !== undefined) return copy(name, structuredContent);
  return content.every(part => part.type === 'text') ? readText(name, content) : copy(name, content);
}

/** Rejects what is nested too deep, in words for the model. */
function copy(name: string, value: unknown): JsonValue {
  try {
    return toBoundedJson(value);
  } catch (error) {
    throw new Error(`"${name}" has run, but its result cannot be recorded: ${messageOf(error)}`);
  }
}

function readText(name: string, content: CallToolResult['content']): string {
  const texts = content.map(part => (part.type === 'text' ? part.text : JSON.stringify(copy(name, part))));
  return texts.join('\n');
}
