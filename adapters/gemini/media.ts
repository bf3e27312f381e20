import type { Part } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { readDataURL } from '../turn/data-url.ts';

/** Converts an image or file to a part: `data:` URLs inline, all others by reference. */
export function mediaPart(part: Exclude<Part, { type: 'text' }>): JsonObject {
  const named = part.type === 'file' ? part.mediaType : undefined;
  const inline = readDataURL(part.url);
  if (inline !== undefined) {
    return { inlineData: { mimeType: named ?? (inline.mediaType || 'text/plain'), data: inline.base64 } };
  }
  const mimeType =
    named ?? typeByExtension(part.url) ?? (part.type === 'file' ? typeByExtension(part.name) : undefined);
  return { fileData: { ...omitUndefined({ mimeType }), fileUri: part.url } };
}

/** Whether Gemini reads this media type: https://ai.google.dev/gemini-api/docs/file-input-methods#supported-content-types */
export function readsMedia(mediaType: string): boolean {
  return (
    /^image\/(?:png|jpeg|webp|heic|heif|\*)$/.test(mediaType) ||
    /^(?:text|audio|video)\//.test(mediaType) ||
    /^(?:application\/(?:pdf|json))?$/.test(mediaType)
  );
}

/** Whether a function's response can have this media type inside, from Gemini 3 on. */
export function isResponseMedia(mediaType: string): boolean {
  return /^(?:image\/(?:png|jpeg|webp|\*)|application\/pdf|text\/plain|)$/.test(mediaType);
}

/** Returns inline data as a `data:` URL if it is an image. */
export function imageURL({ mimeType, data }: JsonObject): string | undefined {
  if (typeof mimeType !== 'string' || typeof data !== 'string') return undefined;
  return mimeType.startsWith('image/') ? `data:${mimeType};base64,${data}` : undefined;
}

const TYPES: ReadonlyMap<string, string> = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['webp', 'image/webp'],
  ['heic', 'image/heic'],
  ['heif', 'image/heif'],
  ['pdf', 'application/pdf'],
  ['txt', 'text/plain'],
  ['md', 'text/md'],
  ['html', 'text/html'],
  ['csv', 'text/csv'],
  ['mp3', 'audio/mp3'],
  ['wav', 'audio/wav'],
  ['mp4', 'video/mp4'],
  ['mov', 'video/mov'],
]);

function typeByExtension(name: string | undefined): string | undefined {
  const [path = ''] = (name ?? '').split(/[?#]/, 1);
  return TYPES.get(path.slice(path.lastIndexOf('.') + 1).toLowerCase());
}
