import { type ContentPart, content, toBase64 } from '../../protocol/content/content.ts';
import { type JsonValue, omitUndefined, toBoundedText } from '../../protocol/json.ts';

/** What `toModelOutput` returns: https://ai-sdk.dev/docs/reference/ai-sdk-core/tool */
export type ModelOutput =
  | { type: 'text' | 'error-text'; value: string }
  | { type: 'json' | 'error-json'; value: unknown }
  | { type: 'execution-denied'; reason?: string }
  | { type: 'content'; value: readonly OutputPart[] };

/** A part, in any of the forms that the AI SDK had. */
type OutputPart = {
  type: string;
  text?: string;
  data?: FileData | FileData['data'];
  url?: string | URL;
  mediaType?: string;
  filename?: string;
};

type FileData = { type: string; data?: string | Uint8Array | ArrayBuffer; url?: string | URL; text?: string };

/** Above this length, the JSON of what a tool returned is not kept beside what the model reads of it. */
const LONGEST_DATA = 100_000;

/** What the model reads, with what the tool `returned` as data, if that is JSON of at most 100,000. */
export function readModelOutput(name: string, output: ModelOutput, returned: unknown): JsonValue {
  const raw = jsonOf(returned);
  const data = raw === undefined || raw.length > LONGEST_DATA ? undefined : (JSON.parse(raw) as JsonValue);
  const withData = (parts: ContentPart | ContentPart[]) => content(parts, omitUndefined({ data }));
  switch (output?.type) {
    case 'text':
      return output.value === returned ? output.value : withData(output.value);
    case 'json': {
      const text = toBoundedText(output.value);
      return text === raw ? JSON.parse(text) : withData(text);
    }
    case 'content':
      return withData(output.value.map(readPart));
    case 'error-text':
      throw new Error(output.value);
    case 'error-json':
      throw new Error(toBoundedText(output.value));
    case 'execution-denied':
      throw new Error(output.reason ?? `"${name}" was denied.`);
  }
  throw new Error(
    `"${name}" ran, but its toModelOutput returned neither text, json, content nor an error: ${String(JSON.stringify(output)).slice(0, 100)}`,
  );
}

function jsonOf(value: unknown): string | undefined {
  try {
    return toBoundedText(value);
  } catch {
    return undefined;
  }
}

function readPart(part: OutputPart): ContentPart {
  if (part.type === 'text') return part.text ?? '';
  const { data, url, text } = sourceOf(part);
  const { mediaType = '' } = part;
  if (text !== undefined) return text;
  if (url !== undefined) return mediaPart(String(url), mediaType, part);
  if (data !== undefined) {
    const base64 = typeof data === 'string' ? data : toBase64(new Uint8Array(data));
    const type = fullType(mediaType, base64);
    return mediaPart(`data:${type};base64,${base64}`, type, part);
  }
  return `[A part of type "${part.type}" was left out: only its provider can read it.]`;
}

function sourceOf({ data, url }: OutputPart): Omit<FileData, 'type'> {
  if (data === undefined) return omitUndefined({ url });
  return typeof data === 'string' || data instanceof Uint8Array || data instanceof ArrayBuffer
    ? { data }
    : data;
}

function mediaPart(url: string, mediaType: string, { type, filename: name }: OutputPart): ContentPart {
  if (type.startsWith('image') || /^image(?:\/|$)/.test(mediaType)) return { type: 'image', url };
  return { type: 'file', url, ...omitUndefined({ name, mediaType: mediaType || undefined }) };
}

const BEGINNINGS: readonly [string, string][] = [
  ['iVBORw', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp'],
];

/** The media type with its subtype: `image` and `image/*` stand for every kind of image. */
function fullType(mediaType: string, base64: string): string {
  if (/^[^/]+\/[^*]/.test(mediaType)) return mediaType;
  const found = BEGINNINGS.find(([beginning]) => base64.startsWith(beginning))?.[1];
  return found ?? 'application/octet-stream';
}
