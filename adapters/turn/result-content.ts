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
export type ReadsMedia = (mediaType: string, media: Media) => boolean;

/**
 * What a model reads of a result, in order; a note replaces each image and file that it does not read. A result that
 * is not content is one text, JSON included. An error has no images and files.
 */
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

/** The images and files among the parts. */
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
