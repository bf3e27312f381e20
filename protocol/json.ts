import { measureJson } from './measure-json.ts';

/** Anything `JSON.parse` can give back. Context, events and tool outputs are made of nothing else. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

export type JsonObject = { [key: string]: JsonValue };

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The members that are there: for objects whose optional members are left out rather than `undefined`. */
export function given<Values extends object>(values: Values): Given<Values> {
  const there = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(there) as Given<Values>;
}

export type Given<Values> = { [Name in keyof Values]?: Exclude<Values[Name], undefined> };

/**
 * The value as JSON would carry it: `undefined` becomes `null`, `toJSON` is honoured.
 * Throws a `TypeError` that names what JSON cannot carry: a cycle, a BigInt, a function, a symbol, a Map, a Set, an Error.
 */
export function toJson(value: unknown): JsonValue {
  return JSON.parse(toJsonText(value));
}

/** The text of what `toJson` gives; throws what it throws. */
export function toJsonText(value: unknown): string {
  const text = isPlain(value, 0) ? JSON.stringify(value) : JSON.stringify(value, refuseWhatJsonDrops);
  return text ?? 'null';
}

/**
 * How deep arrays and objects of a value from outside may be nested: arguments, results, schemas. What
 * passes is safe for recursive code, which would run out of stack at some thousand levels.
 */
export const DEEPEST_JSON = 200;

/** Whether a JSON text is nested deeper than `DEEPEST_JSON`. */
export function isTooDeep(text: string): boolean {
  return text.length > 2 * DEEPEST_JSON && hasManyBrackets(text) && measureJson(text).depth > DEEPEST_JSON;
}

/** Whether more than `DEEPEST_JSON` open: a few are found sooner than they are matched. */
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

/** As `toJsonText`; throws a `TypeError` too for a value that is nested deeper than `DEEPEST_JSON`. */
export function toBoundedText(value: unknown): string {
  const text = textUnlessDeep(value);
  if (text !== undefined && !isTooDeep(text)) return text;
  throw new TypeError(`the value is nested more than ${DEEPEST_JSON} levels deep`);
}

/** As `toJson`; throws a `TypeError` too for a value that is nested deeper than `DEEPEST_JSON`. */
export function toBoundedJson(value: unknown): JsonValue {
  return JSON.parse(toBoundedText(value));
}

/** Leaves room for what messages wrap around a value. */
const DEEPEST_MESSAGE = DEEPEST_JSON + 100;

/**
 * What another program sent, safe for recursive code: what is nested deeper than 300 levels is replaced by a
 * text that says so. Arguments, results and schemas that were cut are still deeper than `DEEPEST_JSON`, so
 * they are refused and never used in part.
 */
export function cutDeep(value: JsonValue, levels = DEEPEST_MESSAGE): JsonValue {
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return `[nested more than ${DEEPEST_MESSAGE} levels deep]`;
  if (Array.isArray(value)) return value.map(entry => cutDeep(entry, levels - 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, cutDeep(member, levels - 1)]),
  );
}

/** `undefined` when `JSON.stringify` ran out of stack. */
function textUnlessDeep(value: unknown): string | undefined {
  try {
    return toJsonText(value);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Deeper values are looked at the slow way, which finds cycles. */
const DEEPEST_PLAIN = 50;

/** Whether nothing in the value needs a second look: a replacer makes `JSON.stringify` several times as slow. */
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
  if (typeof value === 'bigint') throw new TypeError(`${where} is a BigInt, which JSON cannot carry`);
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new TypeError(`${where} is a ${typeof value}, which JSON cannot carry`);
  }
  if (value instanceof Map || value instanceof Set || value instanceof Error) {
    throw new TypeError(`${where} is a ${value.constructor.name}, which JSON would turn into {}`);
  }
  return value;
}

/**
 * The same text for equal values, whatever the order of their keys. What digests are taken of. Members without a
 * value are left out, as JSON leaves them out.
 */
export function canonicalJson(value: JsonValue): string {
  const sorted = sortKeys(value);
  return sorted === undefined ? joinSorted(value) : JSON.stringify(sorted);
}

/** A copy with its keys in order, which is three times as fast as `joinSorted`; `undefined` where an object cannot have that. */
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

/** Objects keep keys that begin like a number in an order of their own, and `__proto__` is no key. */
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
