import type { Item, Opaque } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { integerIn, nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';

export const PROVIDER = 'gemini';

/** One part's share of a text: how many UTF-16 units of it, and the part's signature. */
export type Span = { length: number; thoughtSignature?: string };

/**
 * What an item of ours keeps of the parts it came from, in its `opaque.data`:
 * - `spans`: the parts of a signed text, which must not be joined when they go back;
 * - `thoughtSignature`: that of a call or an image;
 * - `hasId`: the call's id is the provider's own, and is to be echoed;
 * - `part`: the whole part, for what has no portable form.
 */
export type Kept = { spans?: Span[]; thoughtSignature?: string; hasId?: true; part?: JsonObject };

/** `undefined` where there is nothing to keep. */
export function keep(kept: Kept): { opaque?: Opaque } {
  return Object.keys(kept).length === 0 ? {} : { opaque: { provider: PROVIDER, data: kept } };
}

/** What was kept, if the item came from this provider; nothing of another provider's item. */
export function keptBy(item: Item): Kept {
  if (!('opaque' in item) || item.opaque?.provider !== PROVIDER) return {};
  const data = objectOf(item.opaque.data);
  return {
    ...(Array.isArray(data.spans) ? { spans: objectsOf(data.spans).map(spanIn) } : {}),
    ...signed(nonEmpty(data.thoughtSignature)),
    ...(data.hasId === true ? { hasId: true as const } : {}),
    ...(data.part === undefined ? {} : { part: objectOf(data.part) }),
  };
}

export function signed(thoughtSignature: string | undefined): { thoughtSignature?: string } {
  return thoughtSignature === undefined ? {} : { thoughtSignature };
}

function spanIn({ length, thoughtSignature }: JsonObject): Span {
  return { length: integerIn(length) ?? 0, ...signed(nonEmpty(thoughtSignature)) };
}

/**
 * The parts of a text as they came. A text that somebody has edited is no longer what was signed, and
 * is one part without a signature.
 */
export function textParts(text: string, spans: readonly Span[] | undefined): JsonObject[] {
  const total = spans?.reduce((sum, { length }) => sum + length, 0);
  if (!spans || total !== text.length) return text === '' ? [] : [{ text }];
  let start = 0;
  return spans.map(({ length, thoughtSignature }) => {
    const part = { text: text.slice(start, start + length), ...signed(thoughtSignature) };
    start += length;
    return part;
  });
}
