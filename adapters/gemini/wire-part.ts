import type { Item, Opaque } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { integerIn, nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';

/** The provider name of the adapter and of its opaque data. */
export const PROVIDER = 'gemini';

/** One part's section of a text: its length in UTF-16 code units, and the part's signature. */
export type Span = { length: number; thoughtSignature?: string };

/**
 * The provider data that an item keeps in its `opaque.data`:
 * - `spans`: the parts of a signed text, which must not be joined when they are sent back;
 * - `thoughtSignature`: the signature of a call or an image;
 * - `hasId`: the call id is the provider's own and must be sent back;
 * - `part`: the full part, if it has no portable form.
 */
type Kept = { spans?: Span[]; thoughtSignature?: string; hasId?: true; part?: JsonObject };

/** Returns the member `opaque` of an item; empty if there is nothing to keep. */
export function keep(kept: Kept): { opaque?: Opaque } {
  return Object.keys(kept).length === 0 ? {} : { opaque: { provider: PROVIDER, data: kept } };
}

/** Returns the data that an item keeps; empty if it belongs to another provider. */
export function keptBy(item: Item): Kept {
  if (!('opaque' in item) || item.opaque?.provider !== PROVIDER) return {};
  const data = objectOf(item.opaque.data);
  return omitUndefined({
    spans: Array.isArray(data.spans) ? objectsOf(data.spans).map(spanIn) : undefined,
    thoughtSignature: nonEmpty(data.thoughtSignature),
    hasId: data.hasId === true ? (true as const) : undefined,
    part: data.part === undefined ? undefined : objectOf(data.part),
  });
}

/** Returns the member `thoughtSignature`, if there is a signature. */
export function signed(thoughtSignature: string | undefined): { thoughtSignature?: string } {
  return thoughtSignature === undefined ? {} : { thoughtSignature };
}

function spanIn({ length, thoughtSignature }: JsonObject): Span {
  return { length: integerIn(length) ?? 0, ...signed(nonEmpty(thoughtSignature)) };
}

/**
 * Splits a text into its original parts. A text that was edited since no longer matches its signatures and
 * becomes one unsigned part.
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
