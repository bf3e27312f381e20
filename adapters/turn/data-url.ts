import { toBase64 } from '../../protocol/content/content.ts';

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
