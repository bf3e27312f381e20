import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';

/**
 * What an item of ours keeps of the output item it came from, in its `opaque.data`:
 * - `item`: the whole of it, for reasoning and for what the provider ran;
 * - `id`, `phase`, `refusal`: what a message or call has beyond its portable part;
 * - `custom`: the call was a custom tool call, whose input is text;
 * - `namespace`, `caller`: where the called tool was found, and the program that called it; a call that
 *   had them is refused without them;
 * - `after`: the id of the reasoning it came from, without which its id is refused;
 * - `before`: of a reasoning item, the key of the item it must be followed by.
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

/** Items never change, and every turn asks again for all of them. */
const read = new WeakMap<Opaque, Kept>();

/** What was kept, if the item is this provider's own. */
export function keptBy(provider: string, opaque: Opaque | undefined): Kept | undefined {
  if (opaque?.provider !== provider) return undefined;
  const known = read.get(opaque);
  if (known !== undefined) return known;
  const kept = readKept(opaque);
  read.set(opaque, kept);
  return kept;
}

function readKept(opaque: Opaque): Kept {
  const data = objectOf(opaque.data);
  const { id, phase, refusal, namespace, caller, after, before } = data;
  return {
    ...(data.item === undefined ? {} : { item: objectOf(data.item) }),
    ...optional('id', nonEmpty(id)),
    ...optional('phase', nonEmpty(phase)),
    ...optional('refusal', nonEmpty(refusal)),
    ...(data.custom === true ? { custom: true as const } : {}),
    ...optional('namespace', nonEmpty(namespace)),
    ...(isJsonObject(caller) ? { caller } : {}),
    ...optional('after', nonEmpty(after)),
    ...optional('before', nonEmpty(before)),
  };
}

export function optional<Name extends string, Value>(
  name: Name,
  value: Value | undefined,
): { [Key in Name]?: Value } | Record<string, never> {
  return value === undefined ? {} : ({ [name]: value } as { [Key in Name]: Value });
}

/** What identifies an output item among its neighbours: its id, else its call's id, else its type. */
export function keyOf(item: JsonObject): string {
  return nonEmpty(item.id) ?? nonEmpty(item.call_id) ?? nonEmpty(item.type) ?? '';
}
