import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';

/**
 * The provider data that an item keeps in its `opaque.data`:
 * - `item`: the full output item, for reasoning and for items of the provider's own tools;
 * - `id`, `phase`, `refusal`: members of a message or call beyond its portable part;
 * - `more`: the message is the rest of the output item before it, after a refusal;
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
  more?: true;
  custom?: true;
  namespace?: string;
  caller?: JsonObject;
  after?: string;
  before?: string;
};

const TEXTS = ['id', 'phase', 'refusal', 'namespace', 'after', 'before'] as const;

/** Returns the data that an item keeps for this provider; `undefined` if it belongs to another provider. */
export function keptBy(provider: string, opaque: Opaque | undefined): Kept | undefined {
  if (opaque?.provider !== provider) return undefined;
  const data = objectOf(opaque.data);
  const kept: Kept = {};
  for (const name of TEXTS) {
    const text = nonEmpty(data[name]);
    if (text !== undefined) kept[name] = text;
  }
  if (data.item !== undefined) kept.item = objectOf(data.item);
  if (data.more === true) kept.more = true;
  if (data.custom === true) kept.custom = true;
  if (isJsonObject(data.caller)) kept.caller = data.caller;
  return kept;
}

/** Identifies an output item among its neighbours: its id, else its call id, else its type. */
export function keyOf(item: JsonObject): string {
  return nonEmpty(item.id) ?? nonEmpty(item.call_id) ?? nonEmpty(item.type) ?? '';
}
