import { hashText } from '../../protocol/content/hash-text.ts';
import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, toJson } from '../../protocol/json.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';

/**
 * The provider data that an item keeps in its `opaque.data`: the provider's `metadata`, which is sent back as
 * provider options, and `mark`, a digest of the portable part, which shows whether that part was edited.
 */
type Kept = { metadata: JsonObject; mark: string };

/** Returns the member `opaque` of an item with metadata; empty if there is no metadata. */
export function keptWith(
  provider: string,
  portable: string,
  metadata: unknown,
): { opaque: Opaque } | Record<string, never> {
  const own = objectOf(toJson(metadata ?? null));
  if (Object.keys(own).length === 0) return {};
  return { opaque: { provider, data: { metadata: own, mark: markOf(portable) } satisfies Kept } };
}

/**
 * Returns the provider options to send with an item. An item that was edited since loses its id, because some
 * providers would use their stored copy instead.
 */
export function optionsOf(
  provider: string,
  portable: string,
  opaque: Opaque | undefined,
): { providerOptions: Record<string, JsonObject> } | Record<string, never> {
  if (opaque?.provider !== provider) return {};
  const { metadata, mark } = objectOf(opaque.data);
  const isEdited = nonEmpty(mark) !== markOf(portable);
  const members = Object.entries(objectOf(metadata)).filter((member): member is [string, JsonObject] =>
    isJsonObject(member[1]),
  );
  if (members.length === 0) return {};
  return {
    providerOptions: Object.fromEntries(
      members.map(([name, own]) => [name, isEdited ? withoutId(own) : own]),
    ),
  };
}

function withoutId({ itemId: _, ...rest }: JsonObject): JsonObject {
  return rest;
}

function markOf(portable: string): string {
  return hashText(portable).slice(0, 16);
}
