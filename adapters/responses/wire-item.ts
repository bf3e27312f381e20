import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';

/**
 * The provider data that an item keeps in its `opaque.data`:
 * - `item`: the full output item, for reasoning and for items of the provider's own tools;
 * - `id`, `phase`, `refusal`: members of a message or call beyond its portable part;
 * - `custom`: the call was a custom tool call, whose input is text;
 * - `namespace`, `caller`: the namespace of the called tool and the program that called it. The provider
 *   refuses a call that had them without them;
 * - `after`: the key of the reasoning that the item followed. The provider refuses the item's id without that
 *   reasoning;
 * - `before`: for reasoning, the key of the item that must follow it.
 */
export type Kept = {
  item?: JsonObject;
  id?: string;
  phase?: string;
  refusal?: string;
  custom?: true;
  namespace?: string;
  caller?: JsonObject;
  after?: string;
  before?: string;
};

/** Cached because items never change and every turn reads all of them again. */
const cache = new WeakMap<Opaque, Kept>();

/** Returns the data that an item keeps for this provider; `undefined` if it belongs to another provider. */
export function keptBy(provider: string, opaque: Opaque | undefined): Kept | undefined {
  if (opaque?.provider !== provider) return undefined;
  const known = cache.get(opaque);
  if (known !== undefined) return known;
  const kept = readKept(opaque);
  cache.set(opaque, kept);
  return kept;
}

function readKept(opaque: Opaque): Kept {
  const data = objectOf(opaque.data);
  const { id, phase, refusal, namespace, caller, after, before } = data;
  return omitUndefined({
    item: data.item === undefined ? undefined : objectOf(data.item),
    id: nonEmpty(id),
    phase: nonEmpty(phase),
    refusal: nonEmpty(refusal),
    custom: data.custom === true ? (true as const) : undefined,
    namespace: nonEmpty(namespace),
    caller: isJsonObject(caller) ? caller : undefined,
    after: nonEmpty(after),
    before: nonEmpty(before),
  });
}

/** Identifies an output item among its neighbours: its id, else its call id, else its type. */
export function keyOf(item: JsonObject): string {
  return nonEmpty(item.id) ?? nonEmpty(item.call_id) ?? nonEmpty(item.type) ?? '';
}
