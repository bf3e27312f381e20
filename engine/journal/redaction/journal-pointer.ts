import { EngineError } from '../../../protocol/error.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import { isJsonObject, type JsonValue, toJson } from '../../../protocol/json.ts';

/** A value in a journal: `path` has the keys that lead to it from the event of entry `seq`. */
export type Place = { seq: number; path: readonly string[]; value: JsonValue };

/**
 * Resolves a JSON Pointer (RFC 6901) into a journal. Its first key is an entry's seq: `/1/input/0/content/0/text`.
 * Throws `input-invalid` if it leads nowhere.
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
    `Nothing found at ${pointer}. Expected a JSON Pointer that begins with the seq of an entry, such as /1/input/0/content/0/text.`,
    { path: pointer },
  );
}

/** The JSON Pointer to a place in a journal. */
export function pointerTo({ seq, path }: Pick<Place, 'seq' | 'path'>): string {
  return ['', String(seq), ...path.map(key => key.replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

/** A copy of `value` with `replacement` at the given path of keys. */
export function replaceAt(
  value: JsonValue,
  [key, ...rest]: readonly string[],
  replacement: JsonValue,
): JsonValue {
  if (key === undefined) return replacement;
  if (Array.isArray(value))
    return value.map((member, index) =>
      String(index) === key ? replaceAt(member, rest, replacement) : member,
    );
  if (!isJsonObject(value)) return value;
  return { ...value, [key]: replaceAt(value[key] ?? null, rest, replacement) };
}

/** Every string in a value, with its path of keys. */
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
