import { createHash } from 'node:crypto';
import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, toJson } from '../../protocol/json.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';

/**
 * What an item keeps of the content it came from, in its `opaque.data`: the provider's own `metadata`,
 * which goes back as provider options, and a `mark` of the portable part, to see whether it is still
 * what the provider gave.
 */
type Kept = { metadata: JsonObject; mark: string };

/** The opaque data of a portable part that has metadata; nothing for one that has none. */
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
 * The provider options that an item goes back with. One that has been changed since goes without its
 * id, by which some providers would take their own copy instead.
 */
export function optionsOf(
  provider: string,
  portable: string,
  opaque: Opaque | undefined,
): { providerOptions: Record<string, JsonObject> } | Record<string, never> {
  if (opaque?.provider !== provider) return {};
  const { metadata, mark } = objectOf(opaque.data);
  const changed = nonEmpty(mark) !== markOf(portable);
  const members = Object.entries(objectOf(metadata)).filter((member): member is [string, JsonObject] =>
    isJsonObject(member[1]),
  );
  if (members.length === 0) return {};
  return {
    providerOptions: Object.fromEntries(members.map(([name, own]) => [name, changed ? withoutId(own) : own])),
  };
}

function withoutId({ itemId: _, ...rest }: JsonObject): JsonObject {
  return rest;
}

function markOf(portable: string): string {
  return createHash('sha256').update(portable).digest('hex').slice(0, 16);
}
