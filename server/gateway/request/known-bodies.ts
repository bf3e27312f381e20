import { randomUUID } from 'node:crypto';
import type * as z from 'zod';
import { BoundedMap } from '../../../protocol/bounded-map.ts';
import {
  endOfString,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  measureJson,
} from '../../../protocol/json.ts';
import { type BodyLimits, parseBounded } from '../../read-body.ts';

/** A list in a body, which begins after its bracket at `begin`. */
type List = { name: string; begin: number; ends: readonly End[] };

/** Where an element ends in its text, and the number of commas of the list before. */
type End = { at: number; commas: number };

type Known = List & { text: string; elements: readonly JsonValue[] };

/** In characters. Shorter bodies are parsed at once; those with shorter lists are not kept. */
const SHORTEST = 16 * 1024;
const MOST_CHARS = 32 * 1024 * 1024;

/**
 * The JSON bodies of clients that send their whole history with each request. What such a body has in common with an
 * earlier one is not parsed again: the first elements of its longest list are the same objects as before.
 *
 * B1 The result equals that of `JSON.parse`.
 * B2 Callers do not change the result: later results share its elements.
 * B3 A sender gets only objects that were parsed from its own bodies.
 */
export class KnownBodies {
  /** With their senders. */
  readonly #known: BoundedMap<Known, string>;

  constructor(mostChars = MOST_CHARS) {
    this.#known = new BoundedMap(mostChars);
  }

  /** Throws like `parseBounded`. */
  parse(sender: string, text: string, limits: BodyLimits): unknown {
    if (text.length < SHORTEST) return parseBounded(text, limits);
    const [known, count] = this.#findLike(sender, text);
    const body = known && parseAfter(known, count, text, limits);
    if (known !== undefined && body !== undefined) {
      const elements = elementsOf(body, known.name) ?? [];
      const ends = endsOf(text, known.begin, known.ends.slice(0, count));
      // A branch of the history leaves the other one known.
      if (count > known.ends.length / 2) this.#known.delete(known);
      this.#keep(sender, { name: known.name, begin: known.begin, ends, text, elements });
      return body;
    }
    const parsed = parseBounded(text, limits);
    const list = isJsonObject(parsed) ? longestList(text) : undefined;
    const elements = list && isJsonObject(parsed) ? elementsOf(parsed, list.name) : undefined;
    if (list !== undefined && elements?.length === list.ends.length)
      this.#keep(sender, { ...list, text, elements });
    return parsed;
  }

  #keep(sender: string, known: Known): void {
    if ((known.ends.at(-1)?.at ?? 0) - known.begin < SHORTEST) return;
    this.#known.set(known, sender, known.text.length);
  }

  /** The body that has most in common with the text. Most often that is one of which the text has all elements. */
  #findLike(sender: string, text: string): [Known | undefined, number] {
    const own = [...this.#known.keys()].filter(known => this.#known.peek(known) === sender).reverse();
    const whole = own
      .filter(known => mayBeginWith(text, known))
      .slice(0, MOST_COMPARED)
      .find(known => beginsWith(text, known, known.ends.length));
    if (whole !== undefined) return [whole, whole.ends.length];
    let found: Known | undefined;
    let most = 0;
    for (const known of own.slice(0, MOST_COMPARED)) {
      const count = commonElements(known, text);
      if (count > most) [found, most] = [known, count];
    }
    return [found, most];
  }
}

/** How many bodies are compared with a text as a whole. */
const MOST_COMPARED = 16;
const COMPARED_FIRST = 64;

/** Whether the last characters of a known list stand in the text at their place. Cheaper than `beginsWith`. */
function mayBeginWith(text: string, { text: known, ends }: Known): boolean {
  const end = ends.at(-1)?.at ?? 0;
  return text[end] === ',' && text.startsWith(known.slice(end - COMPARED_FIRST, end), end - COMPARED_FIRST);
}

/** Whether a text begins with so many elements of a known list, which have ended there. */
function beginsWith(text: string, { text: known, begin, ends }: Known, count: number): boolean {
  const end = ends[count - 1]?.at ?? begin;
  return (count === 0 || text[end] === ',') && text.startsWith(known.slice(0, end));
}

/** How many elements of a known list a text begins with. */
function commonElements(known: Known, text: string): number {
  if (!beginsWith(text, known, 0)) return 0;
  let [most, least] = [known.ends.length, 0];
  while (least < most) {
    const count = Math.ceil((least + most) / 2);
    if (beginsWith(text, known, count)) least = count;
    else most = count - 1;
  }
  return least;
}

/** What `safeParse` returns. */
export type ReadBody<Body> =
  | { success: true; data: Body; error?: undefined }
  | { success: false; error: { issues: readonly z.core.$ZodIssue[] } };

/** Reads `messages` once: those that were valid before, and are the same objects, are not validated again. */
export class KnownMessages<Body extends { messages: object[] }> {
  readonly #read = new WeakMap<object, Body['messages'][number]>();
  readonly #schema: Pick<z.ZodType<Body>, 'safeParse'>;
  readonly #most: number;

  /** `most`: how many messages the schema accepts. */
  constructor(schema: Pick<z.ZodType<Body>, 'safeParse'>, most: number) {
    this.#schema = schema;
    this.#most = most;
  }

  safeParse(value: unknown): ReadBody<Body> {
    const sent = isJsonObject(value) && Array.isArray(value.messages) ? value.messages : [];
    const known = sent.length > this.#most ? [] : this.#knownOf(sent);
    const parsed = this.#schema.safeParse(
      known.length === 0 ? value : { ...Object(value), messages: sent.slice(known.length) },
    );
    if (!parsed.success) {
      const issues = parsed.error.issues.map(issue => ({ ...issue, path: shift(issue.path, known.length) }));
      return { success: false, error: { issues } };
    }
    for (const [at, message] of parsed.data.messages.entries()) {
      const raw = sent[known.length + at];
      if (typeof raw === 'object' && raw !== null) this.#read.set(raw, message);
    }
    return { success: true, data: { ...parsed.data, messages: [...known, ...parsed.data.messages] } };
  }

  /** Without the last message: the schema requires one. */
  #knownOf(sent: readonly JsonValue[]): Body['messages'] {
    const known: Body['messages'] = [];
    for (const raw of sent.slice(0, -1)) {
      const message = typeof raw === 'object' && raw !== null ? this.#read.get(raw) : undefined;
      if (message === undefined) break;
      known.push(message);
    }
    return known;
  }
}

function shift(path: readonly PropertyKey[], by: number): PropertyKey[] {
  const [name, at, ...more] = path;
  return name === 'messages' && typeof at === 'number' ? [name, at + by, ...more] : [...path];
}

/** Stands for the elements that are known. */
const MARK = `known ${randomUUID()}`;

/** `undefined` for a text that is no such JSON, or where the list is not what its parser would return. */
function parseAfter(known: Known, count: number, text: string, limits: BodyLimits): JsonObject | undefined {
  const { at = 0, commas = 0 } = known.ends[count - 1] ?? {};
  const rest = `${text.slice(0, known.begin)}"${MARK}"${text.slice(at)}`;
  const { depth, commas: more } = measureJson(rest);
  if (depth > limits.maxDepth || commas + more >= limits.maxValues) return undefined;
  const parsed = tryToParse(rest);
  const [mark, ...added] = (isJsonObject(parsed) && elementsOf(parsed, known.name)) || [];
  if (!isJsonObject(parsed) || mark !== MARK) return undefined;
  return { ...parsed, [known.name]: [...known.elements.slice(0, count), ...added] };
}

function tryToParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function elementsOf(body: JsonObject, name: string): readonly JsonValue[] | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  return Array.isArray(value) ? value : undefined;
}

/** The longest list among the members of an object's text, which is JSON; `undefined` if a member comes twice. */
function longestList(text: string): List | undefined {
  let longest: List | undefined;
  let longestChars = 0;
  let depth = 0;
  let name = '';
  const names = new Set<unknown>();
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at];
    if (char === '"') {
      const end = endOfString(text, at);
      if (depth === 1) name = text.slice(at, end + 1);
      at = end;
    } else if (char === ':' && depth === 1) {
      if (names.has(JSON.parse(name))) return undefined;
      names.add(JSON.parse(name));
    } else if (char === '[' && depth === 1) {
      const ends = endsOf(text, at + 1);
      const end = ends.at(-1)?.at ?? at + 1;
      if (end - at > longestChars) {
        longest = { name: JSON.parse(name), begin: at + 1, ends };
        longestChars = end - at;
      }
      at = text.indexOf(']', end);
    } else if (char === '[' || char === '{') depth += 1;
    else if (char === ']' || char === '}') depth -= 1;
  }
  return longest;
}

/** Where the elements of a list end; `known`: the first of them. */
function endsOf(text: string, begin: number, known: readonly End[] = []): End[] {
  const ends = known.slice();
  let { at, commas } = ends.at(-1) ?? { at: begin, commas: 0 };
  let depth = 0;
  let isEmpty = true;
  for (; at < text.length; at += 1) {
    const char = text[at];
    if (depth === 0 && (char === ',' || char === ']')) {
      if (!isEmpty) ends.push({ at, commas });
      isEmpty = true;
    }
    if (char === ']' && depth === 0) break;
    if (char === ',') commas += 1;
    else if (char === '"') {
      at = endOfString(text, at);
      isEmpty = false;
    } else if (char === '[' || char === '{') {
      depth += 1;
      isEmpty = false;
    } else if (char === ']' || char === '}') depth -= 1;
    else if (!isSpace(char)) isEmpty = false;
  }
  return ends;
}

function isSpace(char: string | undefined): boolean {
  return char === ' ' || char === '\n' || char === '\r' || char === '\t';
}
