import type { Part } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { textOfBase64 } from '../turn/base64.ts';
import { readDataURL } from '../turn/data-url.ts';

/**
 * Converts the parts of a user message to content blocks. Empty texts are omitted, because the API refuses
 * them.
 */
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

/** Text files are sent as text, PDFs as binary. The API refuses other types with an error that names them. */
function fileBlock(part: Extract<Part, { type: 'file' }>): JsonObject {
  const file = readURL(part.url, part.mediaType);
  if (file.mediaType.startsWith('image/')) return { type: 'image', source: binarySource(file) };
  const source: JsonObject =
    file.base64 !== undefined && isText(file.mediaType)
      ? { type: 'text', media_type: 'text/plain', data: textOfBase64(file.base64) }
      : binarySource(file);
  return { type: 'document', source, ...omitUndefined({ title: part.name }) };
}

/** A referenced file. Only `data:` URLs have `base64`. */
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

/** Whether the API takes this media type: https://docs.claude.com/en/docs/build-with-claude/vision and …/pdf-support. */
export function readsMedia(mediaType: string): boolean {
  return (
    /^image\/(?:jpeg|png|gif|webp|\*)$/.test(mediaType) ||
    mediaType === 'application/pdf' ||
    mediaType === '' ||
    isText(mediaType)
  );
}

function isText(mediaType: string): boolean {
  return /^text\/|^application\/(?:json|xml|yaml|x-yaml)\b|\+(?:json|xml)\b/.test(mediaType);
}
