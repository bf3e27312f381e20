// protocol/content: results of tools with texts, images and files.

import type { Part } from '../item.ts';
import { type JsonValue, omitUndefined } from '../json.ts';
import { refuseUnknownOptions } from '../options/refuse-unknown.ts';
import { type ContentOutput, isMediaURL } from './read-content.ts';

/** A part of `content`: a text, a part of a message, or the bytes of an image or a file. */
export type ContentPart =
  | string
  | Part
  | { type: 'image'; data: Uint8Array; mediaType: string; detail?: string }
  | { type: 'file'; data: Uint8Array; mediaType: string; name?: string };

/**
 * Creates a tool result of texts, images and files. A model that can read images and files from tools receives them;
 * another one receives a note in their place. `data` is for programs: it is journaled with the result, and no model
 * reads it. Throws a `TypeError` for a part of another form, and for a URL other than `https:`, `http:`, `gs:`, `data:`.
 *
 * @example
 * tool({
 *   name: 'screenshot',
 *   description: 'Takes a screenshot of the page.',
 *   input: z.object({}),
 *   run: async () => content(['The page now:', { type: 'image', data: await takePng(), mediaType: 'image/png' }]),
 * })
 */
export function content(
  parts: ContentPart | readonly ContentPart[],
  options: { data?: JsonValue } = {},
): ContentOutput {
  refuseUnknownOptions('content', options, { data: true }, 'input-invalid');
  const { data } = options;
  const list: readonly ContentPart[] = isList(parts) ? parts : [parts];
  return { type: 'content', parts: list.map(readPart), ...omitUndefined({ data }) };
}

function isList(parts: ContentPart | readonly ContentPart[]): parts is readonly ContentPart[] {
  return Array.isArray(parts);
}

function readPart(part: ContentPart, at: number): Part {
  if (typeof part === 'string') return { type: 'text', text: part };
  switch (part?.type) {
    case 'text':
      if (typeof part.text === 'string') return part;
      break;
    case 'image': {
      const { type, detail } = part;
      return { type, url: urlOf(part, at), ...omitUndefined({ detail }) };
    }
    case 'file': {
      const { type, name, mediaType } = part;
      return { type, url: urlOf(part, at), ...omitUndefined({ name, mediaType }) };
    }
  }
  throw new TypeError(
    `parts[${at}]: expected a text, or a part of type "text", "image" or "file", got ${describe(part)}.`,
  );
}

function urlOf(part: Exclude<ContentPart, string | { type: 'text' }>, at: number): string {
  if ('data' in part) {
    const { data, mediaType } = part;
    if (data instanceof Uint8Array && /^[\w.+-]+\/[\w.+-]+/.test(mediaType))
      return `data:${mediaType};base64,${toBase64(data)}`;
    throw new TypeError(
      `parts[${at}]: expected \`data\` to be a Uint8Array and \`mediaType\` a type such as "image/png". ` +
        'For base64 text, pass `url: "data:image/png;base64,…"`.',
    );
  }
  if (isMediaURL(part.url)) return part.url;
  throw new TypeError(
    `parts[${at}]: expected \`url\` to be an https:, http:, gs: or data: URL, got ${describe(part.url)}. ` +
      'For a file, pass its bytes as `data` with a `mediaType`.',
  );
}

function describe(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 100);
}

/** Bytes per call of `String.fromCharCode`, which takes a limited number of arguments. */
const CHUNK = 0x8000;

export function toBase64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}
