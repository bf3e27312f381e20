import { EngineError } from '../../../protocol/error.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import { isJsonObject, type JsonValue, toJson } from '../../../protocol/json.ts';

/** A value of a journal: `path` are the keys that lead to it from the event of entry `seq`. */
export type Place = { seq: number; path: readonly string[]; value: JsonValue };

/**
 * The value that a JSON Pointer (RFC 6901) of a journal leads to: it begins with an entry's seq, such as
 * `/1/input/0/content/0/text`. Throws `input-invalid` where there is none.
 */
export function followPointer(entries: readonly JournalEntry[], pointer: string): Place {
  const [start, seq = '', ...path] = pointer.split('/').map(decodeKey);
  const entry = start === '' ? entries.find(found => String(found.seq) === seq) : undefined;
  if (entry !== undefined) {
    let value: JsonValue | undefined = toJson(entry.event);
    for (const key of path) value = memberOf(value, key);
    if (value !== undefined) return { seq: entry.seq, path, value };
  }
  throw new EngineError(
    'input-invalid',
    `There is nothing at ${pointer}. A path is a JSON Pointer that begins with the seq of an entry, such as /1/input/0/content/0/text.`,
    { path: pointer },
  );
}

export function pointerTo({ seq, path }: Pick<Place, 'seq' | 'path'>): string {
  return ['', String(seq), ...path.map(key => key.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

/** The value with others in the place of some: `replacements` are made of the keys that lead to each. */
export function replaceAt(value: JsonValue, [key, ...rest]: readonly string[], other: JsonValue): JsonValue {
  if (key === undefined) return other;
  if (Array.isArray(value))
    return value.map((member, index) => (String(index) === key ? replaceAt(member, rest, other) : member));
  if (!isJsonObject(value)) return value;
  return { ...value, [key]: replaceAt(value[key] ?? null, rest, other) };
}

/** Every text of a value, with the keys that lead to it. */
export function* textsOf(
  value: JsonValue,
  path: readonly string[] = [],
): Generator<[string, readonly string[]]> {
  if (typeof value === 'string') yield [value, path];
  else if (typeof value === 'object' && value !== null)
    for (const [key, member] of Object.entries(value)) yield* textsOf(member, [...path, key]);
}

function memberOf(value: JsonValue | undefined, key: string): JsonValue | undefined {
  if (Array.isArray(value) && !/^(?:0|[1-9]\d*)$/.test(key)) return undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}

function decodeKey(key: string): string {
  return key.replaceAll('~1', '/').replaceAll('~0', '~');
}
