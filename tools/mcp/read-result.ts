import type { CallToolResult, InputRequiredResult } from '@modelcontextprotocol/client';
import { content } from '../../protocol/content/content.ts';
import { textOfParts } from '../../protocol/content/read-content.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Part } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined, toBoundedJson } from '../../protocol/json.ts';
import { quoteServerText } from './redact-secrets.ts';

/** Characters of the question of a server that are part of an error. */
const MAX_QUESTION = 300;

function describeQuestion(
  name: string,
  { inputRequests = {} }: InputRequiredResult,
  redact: (text: string) => string,
): string {
  const [first] = Object.values(inputRequests);
  const { message } = { message: undefined, ...first?.params };
  const asked = typeof message === 'string' ? `: ${quoteServerText(message, MAX_QUESTION, redact)}` : '';
  return `"${name}" asks for input, which this call cannot get${asked}`;
}

export function isInputRequired(result: object): result is InputRequiredResult {
  return 'resultType' in result && result.resultType === 'input_required';
}

type Block = CallToolResult['content'][number];

/**
 * Returns the part of an MCP result that the engine records:
 * - texts only, also those of resources: the texts, joined by newlines;
 * - images, sounds or binary resources too: content, with `structuredContent` as its `data`;
 * - nothing: `structuredContent`, or an empty text.
 * If a result has both texts and `structuredContent`, the texts are used: the server wrote them for a model, and the
 * protocol requires both to agree. Throws an `Error` with the redacted text when the result has `isError`, or when the
 * server asks for input in place of a result.
 * @internal
 */
export function readResult(
  name: string,
  result: CallToolResult | InputRequiredResult,
  redact: (text: string) => string,
): JsonValue {
  if (isInputRequired(result)) throw new Error(describeQuestion(name, result, redact));
  const { content: blocks, structuredContent, isError } = result;
  const parts = blocks.map(block => readBlock(name, block));
  const text = textOfParts(parts);
  if (isError) throw new Error(redact(text) || `"${name}" failed without a message`);
  if (blocks.length === 0 && structuredContent !== undefined) return copy(name, structuredContent);
  if (parts.every(part => part.type === 'text')) return text;
  const data = structuredContent === undefined ? undefined : copy(name, structuredContent);
  return content(parts, omitUndefined({ data }));
}

function copy(name: string, value: unknown): JsonValue {
  try {
    return toBoundedJson(value);
  } catch (error) {
    throw new Error(`"${name}" ran, but its result cannot be recorded: ${messageOf(error)}`);
  }
}

export function readBlock(name: string, block: Block): Part {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'image':
    case 'audio':
      return readBinary(block.data, block.mimeType);
    case 'resource': {
      const { resource } = block;
      if ('text' in resource) return { type: 'text', text: resource.text };
      return readBinary(resource.blob, resource.mimeType, resource.uri);
    }
    case 'resource_link': {
      const { name: title, uri, mimeType, description } = block;
      const facts = [uri, mimeType, description].filter(fact => fact !== undefined);
      return { type: 'text', text: `[resource ${title}: ${facts.join(', ')}]` };
    }
    default:
      return { type: 'text', text: JSON.stringify(copy(name, block)) };
  }
}

function readBinary(data: string, mimeType = '', uri = ''): Part {
  const mediaType = /^[\w.+-]+\/[\w.+-]+$/.test(mimeType) ? mimeType : 'application/octet-stream';
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data))
    return { type: 'text', text: `[The server sent a part of type ${mediaType} that is not base64.]` };
  const url = `data:${mediaType};base64,${data}`;
  if (mediaType.startsWith('image/')) return { type: 'image', url };
  const file = uri.slice(uri.lastIndexOf('/') + 1);
  return { type: 'file', url, mediaType, ...omitUndefined({ name: file || undefined }) };
}
