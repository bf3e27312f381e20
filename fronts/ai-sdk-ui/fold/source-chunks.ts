import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { ContentChunk } from '../chunk.ts';

/**
 * Returns the chunk for a provider's citation or source: `source-url` if it has an `http` URL, else `source-document`
 * if it has a title. Providers nest it in `url_citation` (OpenRouter), `web` or `retrievedContext` (Gemini).
 */
export function sourceOf(annotation: JsonValue, sourceId: string): ContentChunk[] {
  if (!isJsonObject(annotation)) return [];
  const nested = [annotation.url_citation, annotation.web, annotation.retrievedContext].find(isJsonObject);
  const cited = nested ?? annotation;
  const url = firstText(cited, ['url', 'uri', 'source']);
  const title = firstText(cited, ['title', 'document_title', 'filename', 'cited_text']);
  if (url !== undefined && /^https?:\/\//.test(url))
    return [{ type: 'source-url', sourceId, url, ...omitUndefined({ title }) }];
  if (title === undefined) return [];
  const filename = firstText(cited, ['filename']);
  const mediaType = firstText(cited, ['media_type', 'mediaType']) ?? 'text/plain';
  return [{ type: 'source-document', sourceId, mediaType, title, ...omitUndefined({ filename }) }];
}

/** Returns the first of these members that is a non-empty string. */
export function firstText(object: JsonObject, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = object[name];
    if (typeof value === 'string' && value !== '') return value;
  }
  return undefined;
}
