import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { Exchange } from './side.ts';

/** What is compared of one exchange. Texts, ids, times and counts differ between any two answers, so they are left out. */
export const ASPECTS = ['status', 'response', 'items', 'fields', 'events', 'ids', 'error'] as const;
export type Aspect = (typeof ASPECTS)[number];
export type Shape = Readonly<Record<Aspect, readonly string[]>>;

/** Fields whose values are compared, not only their types. */
const COMPARED: readonly string[] = ['type', 'status', 'role', 'object', 'server_label', 'name', 'deleted'];

/** Reduces an exchange to lines that equal servers have in common. */
export function shapeOf({ status, body, events }: Exchange): Shape {
  const response = isJsonObject(body) ? body : {};
  const items = listOf(response.output ?? response.data);
  const { error, output: _, data: __, ...rest } = response;
  return {
    status: [String(status)],
    response: typeof body === 'string' ? ['not JSON'] : describeFields(rest),
    items: items.map(({ type, status: state }) => [type, state].filter(Boolean).join(' ')),
    fields: [...new Set(items.flatMap(item => describeFields(item, `${String(item.type)}.`)))].sort(),
    events: collapse(events.map(describeEvent)),
    ids: [...describeIds(items), ...describeConsistency(events, items)],
    error: describeError(status, error),
  };
}

function listOf(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** The fields of an object with their types, or the values of a few. Empty objects and lists are not looked into. */
function describeFields(object: JsonObject, prefix = ''): string[] {
  return Object.entries(object)
    .map(([key, value]) => `${prefix}${key}: ${COMPARED.includes(key) ? String(value) : typeOf(value)}`)
    .sort();
}

function typeOf(value: JsonValue | undefined): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'list' : typeof value;
}

function describeEvent({ type, item }: JsonObject): string {
  const of = isJsonObject(item) ? ` ${String(item.type)}` : '';
  return `${String(type)}${of}`;
}

/** Repeated events in a row become one line: the number of deltas is arbitrary. */
function collapse(lines: readonly string[]): string[] {
  return lines.filter((line, at) => line !== lines[at - 1]);
}

/** The prefix of each kind of id, as `message: msg_`. */
function describeIds(items: readonly JsonObject[]): string[] {
  const prefixes = items.map(
    ({ type, id }) => `${String(type)}: ${/^[a-z]+_/.exec(String(id))?.[0] ?? 'none'}`,
  );
  return [...new Set(prefixes)].sort();
}

/** Whether a stream is consistent in itself and with the final object. Nothing for a JSON answer. */
function describeConsistency(events: readonly JsonObject[], items: readonly JsonObject[]): string[] {
  if (events.length === 0) return [];
  const done = events.filter(({ type }) => type === 'response.output_item.done');
  const added = events.filter(({ type }) => type === 'response.output_item.added');
  const idsOf = (list: readonly JsonObject[]) =>
    list.map(({ item }) => (isJsonObject(item) ? item.id : undefined)).join();
  const final = items.map(({ id }) => id).join();
  const facts = {
    'sequence numbers count from 0': events.every(({ sequence_number: number }, at) => number === at),
    'output indexes count from 0': added.every(({ output_index: index }, at) => index === at),
    'items keep their ids': idsOf(added) === final && idsOf(done) === final,
    'items in events equal those of the response':
      JSON.stringify(done.map(({ item }) => item)) === JSON.stringify(items),
    'events name the ids of their items': events.every(({ item_id: id, output_index: index }) => {
      if (id === undefined || typeof index !== 'number') return true;
      return items[index]?.id === id;
    }),
    'deltas add up to the done events': addsUp(events),
  };
  return Object.entries(facts).map(([fact, holds]) => `${fact}: ${holds ? 'yes' : 'no'}`);
}

function addsUp(events: readonly JsonObject[]): boolean {
  const sums = new Map<string, string>();
  return events.every(({ type, item_id: id, delta, text, arguments: written }) => {
    const [, family, kind] = /^(.*)\.(delta|done)$/.exec(String(type)) ?? [];
    const key = `${String(id)} ${family}`;
    if (kind === 'delta') sums.set(key, (sums.get(key) ?? '') + String(delta));
    const whole = text ?? written;
    return kind !== 'done' || typeof whole !== 'string' || (sums.get(key) ?? '') === whole;
  });
}

function describeError(status: number, error: JsonValue | undefined): string[] {
  if (!isJsonObject(error)) return status < 400 ? [] : ['no error object'];
  const { type, code, param } = error;
  const values = Object.entries({ type, code, param }).map(([key, value]) => `${key}: ${String(value)}`);
  return [`keys: ${Object.keys(error).sort().join()}`, ...values];
}
