import type { Part } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { readDataURL } from '../turn/data-url.ts';

/** The parts of a user message as content blocks. Empty texts are refused, so they are left out. */
export function userContent(parts: readonly Part[]): JsonObject[] {
  return parts.filter(part => part.type !== 'text' || part.text !== '').map(userBlock);
}

function userBlock(part: Part): JsonObject {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return { type: 'image', source: binarySource(readURL(part.url)) };
    case 'file':
      return fileBlock(part);
  }
}

/** PDFs go as they are, text as text; what else there is the API refuses by name. */
function fileBlock(part: Extract<Part, { type: 'file' }>): JsonObject {
  const file = readURL(part.url, part.mediaType);
  if (file.mediaType.startsWith('image/')) return { type: 'image', source: binarySource(file) };
  const source: JsonObject =
    file.base64 !== undefined && isText(file.mediaType)
      ? { type: 'text', media_type: 'text/plain', data: Buffer.from(file.base64, 'base64').toString('utf8') }
      : binarySource(file);
  return { type: 'document', source, ...(part.name === undefined ? {} : { title: part.name }) };
}

/** `base64` is there for `data:` URLs only. */
type Referenced = { url: string; mediaType: string; base64?: string };

function readURL(url: string, mediaType = ''): Referenced {
  const data = readDataURL(url);
  if (data === undefined) return { url, mediaType };
  return { url, mediaType: mediaType || data.mediaType || 'text/plain', base64: data.base64 };
}

function binarySource({ url, mediaType, base64 }: Referenced): JsonObject {
  return base64 === undefined
    ? { type: 'url', url }
    : { type: 'base64', media_type: mediaType, data: base64 };
}

function isText(mediaType: string): boolean {
  return /^text\/|^application\/(?:json|xml|yaml|x-yaml)\b|\+(?:json|xml)\b/.test(mediaType);
}
