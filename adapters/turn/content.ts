import { toBase64 } from '../../protocol/content/content.ts';
import {
  describeMedia,
  type Media,
  mediaTypeOf,
  readContent,
  textOfParts,
} from '../../protocol/content/read-content.ts';
import type { Part, ToolResultItem } from '../../protocol/item.ts';

type Result = Pick<ToolResultItem, 'output' | 'shown' | 'isError'>;

/** Whether a model reads images or files of this media type from tools; `image/*` for an image of unknown type. */
type ReadsMedia = (mediaType: string, media: Media) => boolean;

/** What a model reads of a result; a note replaces each image and file that it does not read. */
export function partsOfResult({ output, shown, isError }: Result, reads: ReadsMedia): Part[] {
  const content = readContent(output);
  if (content === undefined) return [{ type: 'text', text: shown ?? asText(output) }];
  const replaced = content.parts.map((part): Part => {
    if (part.type === 'text') return part;
    const isRead = !isError && reads(mediaTypeOf(part), part);
    return isRead ? part : { type: 'text', text: noteOf(part) };
  });
  if (shown === undefined) return replaced;
  const media = replaced.filter((_, at) => content.parts[at]?.type !== 'text');
  return [{ type: 'text', text: shown }, ...media];
}

/** A result as one text, for APIs that take nothing else. The text of an error begins with `Error: `. */
export function textOfResult(result: Result): string {
  const text = textOfParts(partsOfResult(result, () => false));
  return result.isError ? `Error: ${text}` : text;
}

export function mediaOfParts(parts: readonly Part[]): Media[] {
  return parts.filter(part => part.type !== 'text');
}

function noteOf(part: Media): string {
  const name = part.type === 'file' && part.name !== undefined ? ` "${part.name}"` : '';
  const what = part.type === 'image' ? 'an image' : `a file${name}`;
  return `[The tool returned ${what} here (${describeMedia(part)}). This model cannot read it from tools.]`;
}

function asText(output: ToolResultItem['output']): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}

/** The content of a `data:` URL. `mediaType` is empty if the URL names none. */
type DataURL = { mediaType: string; base64: string };

/** Parses a `data:` URL, base64 or percent-encoded. Returns `undefined` for every other URL. */
export function readDataURL(url: string): DataURL | undefined {
  const comma = url.indexOf(',');
  if (!/^data:/i.test(url) || comma === -1) return undefined;
  const [mediaType = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const content = url.slice(comma + 1);
  const inBase64 = parameters.some(parameter => parameter.trim().toLowerCase() === 'base64');
  return {
    mediaType: mediaType.trim().toLowerCase(),
    base64: inBase64 ? content : toBase64(new TextEncoder().encode(percentDecoded(content))),
  };
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The text of a file in a `data:` URL; `undefined` if it is something else. */
export function textOfFile({ type, url, ...part }: Media): string | undefined {
  const data = readDataURL(url);
  const mediaType = ('mediaType' in part ? part.mediaType : undefined) ?? data?.mediaType ?? '';
  const isText = type === 'file' && /^text\/|[/+](?:json|xml|yaml)$/.test(mediaType);
  return isText && data ? textOfBase64(data.base64) : undefined;
}

/** Decodes UTF-8 text in base64, of either alphabet. Other characters are skipped. */
export function textOfBase64(base64: string): string {
  const digits = base64
    .replaceAll('-', '+')
    .replaceAll('_', '/')
    .replaceAll(/[^A-Za-z0-9+/]/g, '');
  const whole = digits.length % 4 === 1 ? digits.slice(0, -1) : digits;
  const bytes = Uint8Array.from(atob(whole), character => character.charCodeAt(0));
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}
