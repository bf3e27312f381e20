import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';

/**
 * The provider data that an item keeps in its `opaque.data`:
 * - `member`, `details`, `chunk`: for reasoning, the member it was received in, its `reasoning_details`, or
 *   its thinking chunk;
 * - `chunks`: for a message, its content, if that is more than text;
 * - `refusal`: for a message, its refusal text;
 * - `wireId`: for a call, its original id;
 * - `extra`: for a message or a call, members beyond those of every one.
 */
export type Kept = {
  member?: string;
  details?: JsonObject[];
  chunk?: JsonObject;
  chunks?: JsonObject[];
  refusal?: string;
  wireId?: string;
  extra?: JsonObject;
};

/** Cached because items never change and every turn reads all of them again. */
const cache = new WeakMap<Opaque, Kept>();

/** Returns the data that an item keeps for this provider; empty if it belongs to another provider. */
export function keptBy(provider: string, opaque: Opaque | undefined): Kept {
  if (opaque?.provider !== provider) return {};
  const known = cache.get(opaque);
  if (known !== undefined) return known;
  const kept = readKept(objectOf(opaque.data));
  cache.set(opaque, kept);
  return kept;
}

function readKept({ member, details, chunk, chunks, refusal, wireId, extra }: JsonObject): Kept {
  return omitUndefined({
    member: nonEmpty(member),
    details: nonEmptyList(details),
    chunk: isJsonObject(chunk) ? chunk : undefined,
    chunks: nonEmptyList(chunks),
    refusal: nonEmpty(refusal),
    wireId: nonEmpty(wireId),
    extra: isJsonObject(extra) ? extra : undefined,
  });
}

function nonEmptyList(value: JsonValue | undefined): JsonObject[] | undefined {
  const objects = objectsOf(value);
  return objects.length === 0 ? undefined : objects;
}
