import type { Part, ToolResultItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';

/** An image or a file in a result. */
type Media = Exclude<Part, { type: 'text' }>;

/** What a model reads of a result: its text and, where the API takes them, its images and files. */
type ResultContent = { text: string; media: Media[] };

/**
 * The content of a result. A list of the Responses API's parts (`input_text`, `input_image`, `input_file`), which only
 * clients' functions return, is text and media; every other output is text, JSON included.
 */
export function contentOfResult({ output, shown }: Pick<ToolResultItem, 'output' | 'shown'>): ResultContent {
  const parts = shown === undefined ? partsOfOutput(output) : undefined;
  if (parts === undefined) return { text: shown ?? asText(output), media: [] };
  return {
    text: parts.flatMap(part => (part.type === 'text' ? [part.text] : [])).join(''),
    media: parts.filter(part => part.type !== 'text'),
  };
}

/** A result as one text, for APIs that take nothing else: a note stands for each image and file. */
export function textOfResult(result: Pick<ToolResultItem, 'output' | 'shown' | 'isError'>): string {
  const { text, media } = contentOfResult(result);
  const full = [text, ...media.map(describeMedia)].filter(line => line !== '').join('\n');
  return result.isError ? `Error: ${full}` : full;
}

/** The parts of an output that is a list of the Responses API's content; `undefined` for every other output. */
export function partsOfOutput(output: JsonValue): Part[] | undefined {
  if (!Array.isArray(output) || output.length === 0) return undefined;
  const parts = output.flatMap(part => (isJsonObject(part) ? (readPart(part) ?? []) : []));
  return parts.length === output.length ? parts : undefined;
}

function readPart({ type, text, image_url, detail, file_url, file_data, filename }: JsonObject) {
  const file = file_url ?? file_data;
  if (type === 'input_text' && typeof text === 'string') return { type: 'text' as const, text };
  if (type === 'input_image' && typeof image_url === 'string')
    return { type: 'image' as const, url: image_url, ...omitUndefined({ detail: textOrNone(detail) }) };
  if (type === 'input_file' && typeof file === 'string')
    return { type: 'file' as const, url: file, ...omitUndefined({ name: textOrNone(filename) }) };
  return undefined;
}

function textOrNone(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function describeMedia(part: Media): string {
  const name = part.type === 'file' && part.name !== undefined ? ` "${part.name}"` : '';
  const what = part.type === 'image' ? 'an image' : `a file${name}`;
  return `[The tool returned ${what} here. It is not shown, because this model reads only text from tools.]`;
}

function asText(output: JsonValue): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}
