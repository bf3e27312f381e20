import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeBytes, describeMedia } from '../../../protocol/content/read-content.ts';
import type { Part } from '../../../protocol/item.ts';
import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';
import { showSafe } from '../render/format.ts';

/** An image as base64, of a type that the page shows. */
type ImageText = { type: string; data: string };

/** The types that are shown, with the beginning of their bytes as base64. No SVG: it is a document. */
const BEGINS: Readonly<Record<string, RegExp>> = {
  'image/png': /^iVBORw0KGgo/,
  'image/jpeg': /^\/9j\//,
  'image/gif': /^R0lGOD[dl]h/,
  'image/webp': /^UklGR[\w+/]{6}XRUJQ/,
};
const LONGEST = 16 * 1024 * 1024;

/** Returns the image in a `data:` URL, or in an object with `data` and its type as MCP and providers write it. */
export function readImageText(value: JsonValue): ImageText | null {
  if (typeof value === 'string') {
    const [begin, type = ''] = /^data:(image\/[a-z]{3,4});base64,/i.exec(value.slice(0, 40)) ?? [];
    return begin === undefined ? null : imageOf(type, value.slice(begin.length));
  }
  if (!isJsonObject(value)) return null;
  const { data, mimeType, mediaType, media_type = mimeType ?? mediaType } = value;
  return imageOf(media_type, data);
}

function imageOf(named: unknown, data: unknown): ImageText | null {
  const type = String(named).toLowerCase();
  return typeof data === 'string' && Object.hasOwn(BEGINS, type) ? { type, data } : null;
}

/** An image from its bytes; a few words if they are not what its type says. */
export function Picture({ image: { type, data } }: { image: ImageText }) {
  const url = useSignal<string | null>('');
  useEffect(() => {
    const bytes = decode(type, data);
    const made = bytes && URL.createObjectURL(new Blob([bytes], { type }));
    url.value = made;
    if (made === null) return;
    return () => URL.revokeObjectURL(made);
  }, [type, data]);
  const what = `${type}, ${describeBytes(Math.floor(data.length * 0.75))}`;
  if (url.value === null)
    return <p class="muted">{`Not shown: this is not an image of the type ${type}.`}</p>;
  return (
    <figure class="picture">
      {url.value !== '' && (
        <img src={url.value} alt={what} decoding="async" onError={() => (url.value = null)} />
      )}
      <figcaption class="muted">{what}</figcaption>
    </figure>
  );
}

function decode(type: string, data: string): Uint8Array<ArrayBuffer> | null {
  if (data.length > LONGEST || BEGINS[type]?.test(data) !== true) return null;
  try {
    const text = atob(data);
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
    return bytes;
  } catch {
    return null;
  }
}

/** An image or a file of a message or result. What is elsewhere is named, and not fetched. */
export function MediaParts({ part }: { part: Exclude<Part, { type: 'text' }> }) {
  const image = part.type === 'image' ? readImageText(part.url) : null;
  if (image !== null) return <Picture image={image} />;
  return <p class="muted">{showSafe(`[${describeMedia(part)}]`)}</p>;
}
