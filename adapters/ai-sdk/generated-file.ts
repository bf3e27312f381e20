import type { LanguageModelV4File } from '@ai-sdk/provider';
import type { Part } from '../../protocol/item.ts';

/** A file the model made, as a part of its answer. Before specification 4, data stood for itself. */
export function generatedFile({ mediaType, data }: LanguageModelV4File): Part {
  const given: string | Uint8Array | LanguageModelV4File['data'] = data;
  const url =
    typeof given === 'string' || given instanceof Uint8Array
      ? inline(mediaType, given)
      : given.type === 'url'
        ? String(given.url)
        : inline(mediaType, given.data);
  return mediaType.startsWith('image/') ? { type: 'image', url } : { type: 'file', url, mediaType };
}

export function base64Of(data: string | Uint8Array): string {
  return typeof data === 'string' ? data : Buffer.from(data).toString('base64');
}

function inline(mediaType: string, data: string | Uint8Array): string {
  return `data:${mediaType};base64,${base64Of(data)}`;
}
