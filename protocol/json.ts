/** Any value that `JSON.parse` can return. Contexts, events and tool outputs consist only of these. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

export type JsonObject = { [key: string]: JsonValue };

/** Whether the value is an object and no array. Members are not checked. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns a copy without the members that are `undefined`. */
export function omitUndefined<Values extends object>(values: Values): Given<Values> {
  const given: Given<Values> = {};
  for (const name of Object.keys(values) as (keyof Values)[]) {
    const value = values[name];
    if (value !== undefined) given[name] = value as Exclude<Values[typeof name], undefined>;
  }
  return given;
}

/** Returns a copy without the members that are `undefined` or `null`. */
export function omitNull<Values extends object>(values: Values): Present<Values> {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== null && value !== undefined),
  ) as Present<Values>;
}

type Present<Values> = { [Name in keyof Values]?: NonNullable<Values[Name]> };

export type Given<Values> = { [Name in keyof Values]?: Exclude<Values[Name], undefined> };

/** The value after a JSON round trip. Throws a `TypeError` for what JSON cannot represent, as a cycle. */
export function toJson(value: unknown): JsonValue {
  return JSON.parse(toJsonText(value));
}

function toJsonText(value: unknown): string {
  const text = isPlain(value, 0) ? JSON.stringify(value) : JSON.stringify(value, refuseWhatJsonDrops);
  return text ?? 'null';
}

/** For arguments, results and schemas. Recursive code is safe to this depth; some thousand levels exhaust the stack. */
export const DEEPEST_JSON = 200;

/** Whether a JSON text is nested deeper than `DEEPEST_JSON`. */
export function isTooDeep(text: string): boolean {
  return text.length > 2 * DEEPEST_JSON && hasManyBrackets(text) && measureJson(text).depth > DEEPEST_JSON;
}

function hasManyBrackets(text: string): boolean {
  let found = 0;
  for (const bracket of ['{', '[']) {
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) {
      found += 1;
      if (found > DEEPEST_JSON) return true;
    }
  }
  return false;
}

/** Like `toJsonText`; also throws a `TypeError` for a value nested deeper than `DEEPEST_JSON`. */
export function toBoundedText(value: unknown): string {
  const text = textUnlessDeep(value);
  if (text !== undefined && !isTooDeep(text)) return text;
  throw new TypeError(`the value is nested more than ${DEEPEST_JSON} levels deep`);
}

/** Throws the errors of `toBoundedText`. Makes no text of a usual value. */
export function assertBounded(value: unknown): void {
  if (!isPlain(value, 0)) toBoundedText(value);
}

/** Like `toJson`; also throws a `TypeError` for a value nested deeper than `DEEPEST_JSON`. */
export function toBoundedJson(value: unknown): JsonValue {
  return JSON.parse(toBoundedText(value));
}

/** Leaves room for the structure of the message around a value. */
const DEEPEST_MESSAGE = DEEPEST_JSON + 100;

/** Replaces what is below 300 levels by a note; that is still deeper than `DEEPEST_JSON`, so never used. */
export function cutDeep(value: JsonValue, levels = DEEPEST_MESSAGE): JsonValue {
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return `[nested more than ${DEEPEST_MESSAGE} levels deep]`;
  if (Array.isArray(value)) return value.map(entry => cutDeep(entry, levels - 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, cutDeep(member, levels - 1)]),
  );
}

/** Returns `undefined` if `JSON.stringify` exhausted the stack. */
function textUnlessDeep(value: unknown): string | undefined {
  try {
    return toJsonText(value);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Deeper values take the slow path, which detects cycles. */
const DEEPEST_PLAIN = 50;

/** Whether the value needs no replacer, which makes `JSON.stringify` several times slower. */
function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
    case 'undefined':
      return true;
    case 'object':
      return value === null || (depth < DEEPEST_PLAIN && isPlainObject(value, depth + 1));
    default:
      return false;
  }
}

function isPlainObject(value: object, depth: number): boolean {
  if (Array.isArray(value)) return value.every(member => isPlain(member, depth));
  const prototype = Object.getPrototypeOf(value);
  if ((prototype !== Object.prototype && prototype !== null) || 'toJSON' in value) return false;
  for (const key in value) if (!isPlain((value as Record<string, unknown>)[key], depth)) return false;
  return true;
}

function refuseWhatJsonDrops(key: string, value: unknown): unknown {
  const where = key === '' ? 'the value' : `"${key}"`;
  if (typeof value === 'bigint') throw new TypeError(`${where} is a BigInt, which JSON cannot represent`);
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new TypeError(`${where} is a ${typeof value}, which JSON cannot represent`);
  }
  if (value instanceof Map || value instanceof Set || value instanceof Error) {
    throw new TypeError(`${where} is a ${value.constructor.name}, which JSON would convert to {}`);
  }
  return value;
}

/** JSON text with sorted keys, so that equal values have equal texts. Undefined members are left out, as in JSON. */
export function canonicalJson(value: JsonValue): string {
  const sorted = isSorted(value) ? value : sortKeys(value);
  return sorted === undefined ? joinSorted(value) : JSON.stringify(sorted);
}

/** Whether the keys of all objects are sorted, and objects keep them so. */
function isSorted(value: JsonValue | undefined): boolean {
  if (value === undefined) return false;
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isSorted);
  let previous = '';
  for (const key of Object.keys(value)) {
    if (key < previous || !isSortable(key) || !isSorted(value[key])) return false;
    previous = key;
  }
  return true;
}

/** Returns a copy with sorted keys, or `undefined` if an object cannot keep them sorted. 3x as fast as `joinSorted`. */
function sortKeys(value: JsonValue): JsonValue | undefined {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const copy: JsonValue[] = [];
    for (const item of value) {
      const sorted = sortKeys(item);
      if (sorted === undefined) return undefined;
      copy.push(sorted);
    }
    return copy;
  }
  const copy: JsonObject = {};
  for (const key of Object.keys(value).sort()) {
    const member = value[key];
    if (member === undefined) continue;
    const sorted = isSortable(key) ? sortKeys(member) : undefined;
    if (sorted === undefined) return undefined;
    copy[key] = sorted;
  }
  return copy;
}

/** False for keys that objects reorder (those like numbers) and for `__proto__`, which is not an ordinary key. */
function isSortable(key: string): boolean {
  const first = key.charCodeAt(0);
  return !(first >= 48 && first <= 57) && key !== '__proto__';
}

function joinSorted(value: JsonValue): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(joinSorted).join(',')}]`;
  const members = Object.keys(value)
    .sort()
    .flatMap(key => {
      const member = value[key];
      return member === undefined ? [] : [`${JSON.stringify(key)}:${joinSorted(member)}`];
    });
  return `{${members.join(',')}}`;
}

const QUOTE = 34;
const BACKSLASH = 92;

/** Returns the nesting depth of a JSON text and its number of commas, without parsing it. */
export function measureJson(text: string): { depth: number; commas: number } {
  let depth = 0;
  let deepest = 0;
  let commas = 0;
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charCodeAt(at);
    if (char === QUOTE) at = endOfString(text, at);
    else if (char === 0x5b || char === 0x7b) depth += 1;
    else if (char === 0x5d || char === 0x7d) depth -= 1;
    else if (char === 0x2c) commas += 1;
    if (depth > deepest) deepest = depth;
  }
  return { depth: deepest, commas };
}

/** Where the quote is that ends a string, or the length of a text that does not end it. */
export function endOfString(text: string, begin: number): number {
  let at = begin;
  let backslashes: number;
  do {
    at = text.indexOf('"', at + 1);
    if (at === -1) return text.length;
    backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1;
  } while (backslashes % 2 === 1);
  return at;
}
