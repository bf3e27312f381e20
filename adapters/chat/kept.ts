import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';

/**
 * What an item of ours keeps of the message it came from, in its `opaque.data`:
 * - `member`, `details`, `chunk`: of reasoning, the member it came in, its `reasoning_details`, or its
 *   thinking chunk;
 * - `chunks`: of a message, its content where that is more than text;
 * - `refusal`: of a message, what it refused with;
 * - `wireId`, `extra`: of a call, the id it came with and what it has beyond a call's usual members.
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

/** Items never change, and every turn asks again for all of them. */
const read = new WeakMap<Opaque, Kept>();

/** What was kept; nothing if the item is another provider's. */
export function keptBy(provider: string, opaque: Opaque | undefined): Kept {
  if (opaque?.provider !== provider) return {};
  const known = read.get(opaque);
  if (known !== undefined) return known;
  const kept = readKept(objectOf(opaque.data));
  read.set(opaque, kept);
  return kept;
}

function readKept(data: JsonObject): Kept {
  return {
    ...text('member', data.member),
    ...list('details', data.details),
    ...object('chunk', data.chunk),
    ...list('chunks', data.chunks),
    ...text('refusal', data.refusal),
    ...text('wireId', data.wireId),
    ...object('extra', data.extra),
  };
}

function text<Name extends string>(name: Name, value: JsonValue | undefined): { [Key in Name]?: string } {
  const found = nonEmpty(value);
  return found === undefined ? {} : ({ [name]: found } as { [Key in Name]: string });
}

function list<Name extends string>(
  name: Name,
  value: JsonValue | undefined,
): { [Key in Name]?: JsonObject[] } {
  const found = objectsOf(value);
  return found.length === 0 ? {} : ({ [name]: found } as { [Key in Name]: JsonObject[] });
}

function object<Name extends string>(
  name: Name,
  value: JsonValue | undefined,
): { [Key in Name]?: JsonObject } {
  return isJsonObject(value) ? ({ [name]: value } as { [Key in Name]: JsonObject }) : {};
}
