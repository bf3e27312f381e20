import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { invalidAt } from './message-body.ts';

/**
 * The parts of an input message or a result that a content block stands for. Throws a `ResponsesError` with the path of
 * the problem. `cache_control` is ignored here.
 */
export function readContent(block: JsonValue, path: string): JsonObject[] {
  if (!isJsonObject(block)) throw invalidAt(path, 'expected a content block');
  switch (block.type) {
    case 'text': {
      const text = textIn(block, 'text', path);
      return text === '' ? [] : [{ type: 'input_text', text }];
    }
    case 'image':
      return [readImage(block, path)];
    case 'document':
      return readDocument(block, path);
    default:
      throw unsupported(block, path);
  }
}

/** A string field of a block. Throws if it is not a string. */
export function textIn(block: JsonObject, field: string, path: string): string {
  const value = block[field];
  if (typeof value === 'string') return value;
  throw invalidAt(`${path}.${field}`, value === undefined ? 'Field required' : 'expected a string');
}

/** The error for a block that this server does not support in this place. */
export function unsupported({ type }: JsonObject, path: string) {
  return invalidAt(`${path}.type`, `Blocks of type ${JSON.stringify(type ?? null)} are not supported here.`);
}

function readImage(block: JsonObject, path: string): JsonObject {
  const { source, place } = sourceOf(block, path);
  return { type: 'input_image', image_url: urlOf(source, place) };
}

/** A document and the context it comes with. Citations are refused, because most providers have none. */
function readDocument(block: JsonObject, path: string): JsonObject[] {
  const { context, title, citations } = block;
  if (isJsonObject(citations) && citations.enabled === true)
    throw invalidAt(`${path}.citations`, 'Citations are not supported.');
  const { source, place } = sourceOf(block, path);
  const about = typeof context === 'string' ? [{ type: 'input_text', text: context }] : [];
  if (source.type === 'content') return [...about, ...readInline(source.content, `${place}.content`)];
  const url = urlOf(source, place);
  const where = url.startsWith('data:') ? { file_data: url } : { file_url: url };
  const filename = typeof title === 'string' ? title : undefined;
  return [...about, { type: 'input_file', ...where, ...omitUndefined({ filename }) }];
}

function readInline(content: JsonValue | undefined, path: string): JsonObject[] {
  if (typeof content === 'string') return [{ type: 'input_text', text: content }];
  if (!Array.isArray(content)) throw invalidAt(path, 'expected a string or a list of content blocks');
  return content.flatMap((block, at) => readContent(block, `${path}.${at}`));
}

function sourceOf(block: JsonObject, path: string): { source: JsonObject; place: string } {
  const place = `${path}.source`;
  if (!isJsonObject(block.source)) throw invalidAt(place, 'Field required');
  return { source: block.source, place };
}

function urlOf(source: JsonObject, place: string): string {
  switch (source.type) {
    case 'base64':
      return `data:${textIn(source, 'media_type', place)};base64,${textIn(source, 'data', place)}`;
    case 'text': {
      const data = Buffer.from(textIn(source, 'data', place)).toString('base64');
      return `data:text/plain;base64,${data}`;
    }
    case 'url': {
      const url = textIn(source, 'url', place);
      if (/^https?:\/\//i.test(url)) return url;
      throw invalidAt(`${place}.url`, 'expected an http or https URL');
    }
    default:
      throw invalidAt(
        `${place}.type`,
        `Sources of type ${JSON.stringify(source.type ?? null)} are not supported. Use "base64", "url" or "text".`,
      );
  }
}
