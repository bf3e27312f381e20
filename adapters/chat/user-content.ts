import type { Part } from '../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { readDataURL } from '../turn/data-url.ts';
import type { ChatDialect } from './dialect.ts';

type FilePart = Extract<Part, { type: 'file' }>;

/**
 * Converts user content: a single text to a string, anything else to parts. Returns `undefined` if it is
 * empty.
 */
export function userContent(parts: readonly Part[], dialect: ChatDialect): JsonValue | undefined {
  const [first, ...more] = parts;
  if (!first) return undefined;
  return first.type === 'text' && more.length === 0
    ? first.text
    : parts.map(part => inputPart(part, dialect));
}

function inputPart(part: Part, dialect: ChatDialect): JsonObject {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return imagePart(part.url);
    case 'file':
      return isImage(part)
        ? imagePart(part.url)
        : (audioPart(part) ?? (dialect.filePart ?? openaiFile)(part));
  }
}

function imagePart(url: string): JsonObject {
  return { type: 'image_url', image_url: { url } };
}

function isImage({ url, mediaType }: FilePart): boolean {
  return /^image\//.test(mediaType ?? '') || url.startsWith('data:image/');
}

/** Audio is only sent inline, as WAV or MP3. */
function audioPart({ url }: FilePart): JsonObject | undefined {
  const content = readDataURL(url);
  const kind = /^audio\/(?:x-)?(wav|mp3|mpeg)$/.exec(content?.mediaType ?? '')?.[1];
  if (content === undefined || kind === undefined) return undefined;
  return {
    type: 'input_audio',
    input_audio: { data: content.base64, format: kind === 'wav' ? 'wav' : 'mp3' },
  };
}

function openaiFile({ url, name }: FilePart): JsonObject {
  return { type: 'file', file: { filename: name ?? 'file', file_data: url } };
}
