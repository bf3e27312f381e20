import type { Part } from '../item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../json.ts';

export type Media = Exclude<Part, { type: 'text' }>;

/** A result of texts, images and files, as `content` creates it. No model reads `data`. */
export type ContentOutput = { type: 'content'; parts: Part[]; data?: JsonValue };

export function isMediaURL(url: unknown): url is string {
  return typeof url === 'string' && /^(?:https?|data|gs):/i.test(url);
}

/** Returns `undefined` for other JSON. A list of the Responses API's parts (`input_text`, …) is content too. */
export function readContent(output: JsonValue): ContentOutput | undefined {
  if (Array.isArray(output)) return output.length === 0 ? undefined : readParts(output, readResponsesPart);
  if (!isJsonObject(output) || output.type !== 'content' || !Array.isArray(output.parts)) return undefined;
  const content = readParts(output.parts, readPart);
  return content && { ...content, ...omitUndefined({ data: output.data }) };
}

function readParts(
  values: readonly JsonValue[],
  read: (value: JsonObject) => Part | undefined,
): ContentOutput | undefined {
  const parts: Part[] = [];
  for (const value of values) {
    const part = isJsonObject(value) ? read(value) : undefined;
    if (part === undefined) return undefined;
    parts.push(part);
  }
  return { type: 'content', parts };
}

function readPart({ type, text, url, detail, name, mediaType }: JsonObject): Part | undefined {
  if (type === 'text' && typeof text === 'string') return { type, text };
  if (!isMediaURL(url)) return undefined;
  if (type === 'image') return { type, url, ...omitUndefined({ detail: textOrNone(detail) }) };
  if (type !== 'file') return undefined;
  return { type, url, ...omitUndefined({ name: textOrNone(name), mediaType: textOrNone(mediaType) }) };
}

function readResponsesPart(part: JsonObject): Part | undefined {
  const { type, text, image_url, detail, file_url, file_data, filename } = part;
  const file = file_url ?? file_data;
  if (type === 'input_text' && typeof text === 'string') return { type: 'text', text };
  if (type === 'input_image' && typeof image_url === 'string')
    return { type: 'image', url: image_url, ...omitUndefined({ detail: textOrNone(detail) }) };
  if (type === 'input_file' && typeof file === 'string')
    return { type: 'file', url: file, ...omitUndefined({ name: textOrNone(filename) }) };
  return undefined;
}

function textOrNone(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

export function textOfParts(parts: readonly Part[]): string {
  return parts.flatMap(part => (part.type === 'text' && part.text !== '' ? [part.text] : [])).join('\n');
}

/** The media type in lower case, without parameters; `image/*` or an empty string for none. */
export function mediaTypeOf(part: Media): string {
  const named = part.type === 'file' ? part.mediaType : undefined;
  const found = named || /^data:([^;,]*)/i.exec(part.url)?.[1];
  return found?.split(';')[0]?.trim().toLowerCase() || (part.type === 'image' ? 'image/*' : '');
}

/** An output for people: descriptions of the images and files of content, a text as it is, other values as JSON. */
export function describeOutput(output: JsonValue): string {
  const content = readContent(output);
  if (content === undefined) return typeof output === 'string' ? output : JSON.stringify(output);
  return content.parts
    .map(part => (part.type === 'text' ? part.text : `[${describeMedia(part)}]`))
    .join('\n');
}

/** An image or a file in a few words: `image/png image, 12 KiB`, `application/pdf file "paper.pdf", 3.4 MiB`. */
export function describeMedia(part: Media): string {
  const type = mediaTypeOf(part);
  const name =
    part.type === 'file' && part.name !== undefined ? ` "${part.name.slice(0, LONGEST_NAME)}"` : '';
  return [`${type === '' || type === 'image/*' ? '' : `${type} `}${part.type}${name}`, placeOf(part)].join(
    ', ',
  );
}

const LONGEST_NAME = 200;

function placeOf({ url }: Media): string {
  if (!/^data:/i.test(url)) return url.slice(0, LONGEST_NAME);
  const length = url.length - url.indexOf(',') - 1;
  return describeBytes(/;base64,/i.test(url.slice(0, LONGEST_NAME)) ? Math.floor(length * 0.75) : length);
}

/** A number of bytes for people: `12 KiB`, `3.4 MiB`. */
export function describeBytes(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
