import type { LanguageModelV4File } from '@ai-sdk/provider';
import { toBase64 } from '../../protocol/content/content.ts';
import type { Part } from '../../protocol/item.ts';

/**
 * Converts a file that the model generated to a message part. Before specification v4, `data` has no wrapper
 * object.
 */
export function generatedFile({ mediaType, data }: LanguageModelV4File): Part {
  const url = urlOf(mediaType, data);
  return mediaType.startsWith('image/') ? { type: 'image', url } : { type: 'file', url, mediaType };
}

/** Returns data as base64 text. */
export function base64Of(data: string | Uint8Array): string {
  return typeof data === 'string' ? data : toBase64(data);
}

function urlOf(mediaType: string, data: string | Uint8Array | LanguageModelV4File['data']): string {
  if (typeof data === 'string' || data instanceof Uint8Array) return inline(mediaType, data);
  return data.type === 'url' ? String(data.url) : inline(mediaType, data.data);
}

function inline(mediaType: string, data: string | Uint8Array): string {
  return `data:${mediaType};base64,${base64Of(data)}`;
}
