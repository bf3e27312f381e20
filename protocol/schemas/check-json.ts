import {
  canonicalJson,
  DEEPEST_JSON,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  omitUndefined,
} from '../json.ts';
import type { Validation } from '../tool.ts';

const DIALECT = /^https?:\/\/json-schema\.org\/(draft\/2020-12|draft\/2019-09|draft-07|draft-06)\/schema#?$/;

/**
 * Returns a check of a call's arguments against the schema of an MCP server (see `checkSchema`). Arguments must always be
 * an object. Nothing else is checked if `schema` is `undefined` (the server's schema was too deep or too long) or has an
 * unknown dialect. What cannot be checked, such as a pattern without a linear form, is named in `unchecked`.
 */
export function createArgumentsCheck(
  schema: JsonObject | undefined,
): (input: JsonValue) => Promise<Validation> {
  const check = schema && createJsonCheck(schema);
  return async input => {
    if (!isJsonObject(input)) return { valid: false, message: 'expected an object of arguments' };
    if (check === undefined) return { valid: true, value: input, unchecked: TOO_LARGE };
    const { problems, unchecked } = await check(input);
    const note = unchecked.length === 0 ? undefined : describeUnchecked(unchecked);
    if (problems.length === 0) return { valid: true, value: input, ...omitUndefined({ unchecked: note }) };
    const message = problems.join(', ');
    return { valid: false, message: note ? `${message}. ${note}` : message };
  };
}

type Checked = { problems: readonly string[]; unchecked: readonly string[] };

/** Returns a check of values against a schema (see `checkSchema`). One of an unknown dialect finds no problems. */
export function createJsonCheck(schema: JsonObject): (value: JsonValue) => Promise<Checked> {
  const { $schema } = schema;
  if (typeof $schema === 'string' && !DIALECT.test($schema))
    return async () => ({ problems: [], unchecked: [] });
  const usesPatterns = JSON.stringify(schema).includes('"pattern');
  let preparing: Promise<CompilePattern> | null = null;
  return async value => {
    preparing ??= usesPatterns ? preparePatterns() : Promise.resolve(() => null);
    return checkSchema(schema, value, await preparing);
  };
}

const MAX_SHOWN = 5;
const TOO_LARGE = describeUnchecked(['all arguments (the schema is too deep or too long)']);

function describeUnchecked(unchecked: readonly string[]): string {
  const more = unchecked.length > MAX_SHOWN ? ` and ${unchecked.length - MAX_SHOWN} more` : '';
  return `Not checked before the call, but left to the server: ${unchecked.slice(0, MAX_SHOWN).join(', ')}${more}.`;
}

/** A compiled `pattern`. `work` is the approximate cost per character of text. */
type LinearPattern = { work: number; matches(text: string): boolean };

/** Returns `null` for a pattern that cannot be run in linear time. */
type CompilePattern = (pattern: string) => LinearPattern | null;

const LONGEST_PATTERN = 500;

/** The largest size of one pattern, its length times the sum of its counted repetitions, and of all of a schema. */
const LARGEST_PATTERN = 20_000;
const LARGEST_PATTERNS = 60_000;

/**
 * Loads RE2, which few schemas need, and returns what compiles each pattern once to a program that runs in linear time. A
 * `RegExp` can need exponential time: `^(a+)+$` takes 2^n steps for n letters. RE2 does not support lookaround,
 * backreferences and repetitions above 1,000; `\s`, `\w`, `\d` and `\b` match ASCII only.
 */
async function preparePatterns(): Promise<CompilePattern> {
  const { RE2JS } = await import('re2js');
  const compiled = new Map<string, LinearPattern | null>();
  let left = LARGEST_PATTERNS;
  const compile = (pattern: string): LinearPattern | null => {
    if (pattern.length > LONGEST_PATTERN) return null;
    const size = sizeOf(pattern);
    left -= size;
    if (left < 0 || size > LARGEST_PATTERN) return null;
    try {
      const program = RE2JS.compile(RE2JS.translateRegExp(pattern));
      return { work: program.programSize(), matches: text => program.test(text) };
    } catch {
      return null;
    }
  };
  return pattern => {
    const known = compiled.get(pattern);
    if (known !== undefined) return known;
    const made = compile(pattern);
    compiled.set(pattern, made);
    return made;
  };
}

function sizeOf(pattern: string): number {
  let repetitions = 1;
  for (const [, least = '', most = ''] of pattern.matchAll(/\{(\d{1,9})(?:,(\d{0,9}))?\}/g))
    repetitions += Math.max(Number(least), Number(most));
  return pattern.length * repetitions;
}

/** The limit of steps per check. Each schema and member visited is a step. */
const MAX_WORK = 200_000;

/** Reading this many characters is one step; a character that a pattern reads counts times the pattern's size. */
const CHARACTERS_PER_STEP = 16;

/** The limit of nested schemas and references: enough for a schema and a value of the maximum depth. */
const MAX_DEPTH = 2 * DEEPEST_JSON + 100;

/** Keywords that restrict a value and are not supported here: the server checks them. */
const UNSUPPORTED = ['unevaluatedProperties', 'unevaluatedItems', '$dynamicRef', '$recursiveRef'] as const;

class Abandoned extends Error {}

/**
 * Validates a value against an untrusted JSON Schema (2020-12, 2019-09, draft-07 and draft-06; `format` is not
 * checked). The schema is interpreted, never compiled to code; patterns run in linear time; work is limited.
 *
 * 1. Only certain violations are problems. A part that cannot be checked makes every verdict that depends on it
 *    unknown (`undefined`), and an unknown verdict is not a problem.
 * 2. A check that needs more than `MAX_WORK` steps or `MAX_DEPTH` levels is abandoned: it reports no problems.
 */
export function checkSchema(root: JsonObject, value: JsonValue, compile: CompilePattern): Checked {
  const checker = new SchemaChecker(root, compile);
  try {
    const problems = checker.check(root, value).shown();
    return { problems, unchecked: [...checker.unchecked] };
  } catch (error) {
    if (error instanceof Abandoned) return { problems: [], unchecked: [error.message] };
    throw error;
  }
}

class SchemaChecker {
  readonly unchecked = new Set<string>();
  readonly #root: JsonObject;
  readonly #compile: CompilePattern;
  #left = MAX_WORK;
  #depth = 0;

  constructor(root: JsonObject, compile: CompilePattern) {
    this.#root = root;
    this.#compile = compile;
  }

  check(schema: JsonValue | undefined, value: JsonValue, path = ''): Finding {
    const found = new Finding(path);
    if (schema === false) found.fail('must not be present');
    if (!isJsonObject(schema)) return found;
    this.#spend(1 + Object.keys(schema).length);
    if (this.#depth === MAX_DEPTH)
      throw new Abandoned('all arguments (the schema refers to itself without end)');
    this.#depth += 1;
    for (const keyword of UNSUPPORTED) if (has(schema, keyword)) this.#leaveOut(found, keyword);
    this.#checkReference(schema, value, found);
    this.#checkValue(schema, value, found);
    this.#checkBounds(schema, value, found);
    if (typeof value === 'string' && typeof schema.pattern === 'string') {
      if (this.#matches(schema.pattern, value, found) === false)
        found.fail(`must match pattern ${show(schema.pattern)}`);
    } else if (Array.isArray(value)) this.#checkList(schema, value, found);
    else if (isJsonObject(value)) this.#checkObject(schema, value, found);
    this.#checkCombined(schema, value, found);
    this.#depth -= 1;
    return found;
  }

  #checkReference({ $ref }: JsonObject, value: JsonValue, found: Finding): void {
    if (typeof $ref !== 'string') return;
    const target = this.#resolve($ref);
    if (target === undefined) this.#leaveOut(found, `the reference ${show($ref)}`);
    else found.join(this.check(target, value, found.path));
  }

  /** Resolves `#` and `#/a/b`; `undefined` for every other reference and for a missing target. */
  #resolve(reference: string): JsonValue | undefined {
    this.#spendText(reference.length);
    if (reference !== '#' && !reference.startsWith('#/')) return undefined;
    let target: JsonValue | undefined = this.#root;
    for (const step of reference.split('/').slice(1)) {
      const name = decode(step).replaceAll('~1', '/').replaceAll('~0', '~');
      target =
        (isJsonObject(target) || Array.isArray(target)) && has(target, name)
          ? Reflect.get(target, name)
          : undefined;
    }
    return target;
  }

  #checkValue(schema: JsonObject, value: JsonValue, found: Finding): void {
    const { type, enum: options } = schema;
    const types = Array.isArray(type) ? type : [type];
    if (type !== undefined && !types.some(name => fitsType(name, value)))
      found.fail(`must be ${types.filter(name => typeof name === 'string').join(',')}`);
    if (Array.isArray(options) && !options.some(option => this.#isEqual(option, value)))
      found.fail(`must be one of ${show(options)}`);
    if (has(schema, 'const') && !this.#isEqual(schema.const, value))
      found.fail(`must be ${show(schema.const)}`);
  }

  #checkBounds(schema: JsonObject, value: JsonValue, found: Finding): void {
    for (const [keyword, measure, fits, words] of BOUNDS) {
      const bound = schema[keyword];
      if (typeof bound !== 'number') continue;
      if (measure === characters && typeof value === 'string') this.#spendText(value.length);
      const size = measure(value);
      if (size !== undefined && !fits(size, bound)) found.fail(`must ${words.replace('#', String(bound))}`);
    }
  }

  #checkList(schema: JsonObject, list: readonly JsonValue[], found: Finding): void {
    const { uniqueItems, contains, items } = schema;
    const first = listOf(schema.prefixItems ?? items);
    const rest = Array.isArray(items) ? schema.additionalItems : items;
    for (const [index, item] of list.entries()) {
      const place = index < first.length ? first[index] : rest;
      if (place !== undefined) found.join(this.check(place, item, `${found.path}.${index}`));
    }
    if (uniqueItems === true && new Set(list.map(item => this.#textOf(item))).size < list.length)
      found.fail('must NOT have duplicate items');
    if (contains === undefined) return;
    const { certain, possible } = this.#count(list.map(item => this.check(contains, item, found.path)));
    const least = Number(schema.minContains ?? 1);
    const most = Number(schema.maxContains ?? Number.POSITIVE_INFINITY);
    if (possible < least || certain > most) {
      const range = Number.isFinite(most) ? `${least} to ${most}` : `at least ${least}`;
      found.fail(`must contain ${range} items that match the schema in contains`);
    } else if (certain < least || possible > most) found.sure = false;
  }

  #checkObject(schema: JsonObject, object: JsonObject, found: Finding): void {
    const names = Object.keys(object);
    this.#spend(names.length);
    this.#require(schema.required, object, found);
    const dependencies = [schema.dependentRequired, schema.dependentSchemas, schema.dependencies];
    for (const [name, needed] of dependencies.flatMap(each => this.#membersOf(each))) {
      if (!has(object, name)) continue;
      if (Array.isArray(needed)) this.#require(needed, object, found);
      else found.join(this.check(needed, object, found.path));
    }
    const { propertyNames, additionalProperties: others } = schema;
    const properties = isJsonObject(schema.properties) ? schema.properties : {};
    const patterns = this.#membersOf(schema.patternProperties);
    for (const name of names) {
      const value = object[name] ?? null;
      const path = `${found.path}.${name}`;
      if (propertyNames !== undefined) found.join(this.check(propertyNames, name, path));
      /** Whether `properties` or `patternProperties` cover the name; `undefined` where a pattern cannot tell. */
      let known: boolean | undefined = has(properties, name);
      if (known) found.join(this.check(properties[name], value, path));
      for (const [pattern, place] of patterns) {
        const matches = this.#matches(pattern, name, found);
        if (matches) found.join(this.check(place, value, path));
        if (known !== true && matches !== false) known = matches;
      }
      if (known !== false || others === undefined) continue;
      if (others === false) found.fail(`must NOT have the additional property ${show(name)}`);
      else found.join(this.check(others, value, path));
    }
  }

  #require(names: JsonValue | undefined, object: JsonObject, found: Finding): void {
    for (const name of listOf(names)) {
      this.#spend(1);
      if (typeof name === 'string' && !has(object, name))
        found.fail(`must have required property '${name.slice(0, 100)}'`);
    }
  }

  #checkCombined(schema: JsonObject, value: JsonValue, found: Finding): void {
    const { allOf, anyOf, oneOf, not, if: condition } = schema;
    const check = (place: JsonValue | undefined) => this.check(place, value, found.path);
    for (const place of listOf(allOf)) found.join(check(place));
    if (Array.isArray(anyOf)) {
      const { certain, possible } = this.#count(anyOf.map(check));
      if (possible === 0) found.fail('must match a schema in anyOf');
      else if (certain === 0) found.sure = false;
    }
    if (Array.isArray(oneOf)) {
      const { certain, possible } = this.#count(oneOf.map(check));
      if (certain > 1 || possible === 0) found.fail('must match exactly one schema in oneOf');
      else if (possible > certain) found.sure = false;
    }
    if (not !== undefined) {
      const { verdict } = check(not);
      if (verdict === true) found.fail('must NOT be valid against the schema in not');
      else if (verdict === undefined) found.sure = false;
    }
    if (condition === undefined) return;
    const { verdict } = check(condition);
    if (verdict === undefined) found.sure = false;
    else found.join(check(verdict ? schema.then : schema.else));
  }

  #count(findings: readonly Finding[]): { certain: number; possible: number } {
    const certain = findings.filter(({ verdict }) => verdict === true).length;
    return { certain, possible: findings.filter(({ verdict }) => verdict !== false).length };
  }

  /** `undefined` when the pattern cannot be run. */
  #matches(pattern: string, text: string, found: Finding): boolean | undefined {
    const program = this.#compile(pattern);
    if (program !== null) {
      this.#spendText(program.work * (text.length + 1));
      return program.matches(text);
    }
    this.#leaveOut(found, `the pattern ${show(pattern)}`);
    return undefined;
  }

  #isEqual(one: JsonValue | undefined, other: JsonValue): boolean {
    return one !== undefined && this.#textOf(one) === this.#textOf(other);
  }

  #textOf(value: JsonValue): string {
    const text = canonicalJson(value);
    this.#spendText(text.length);
    return text;
  }

  #membersOf(value: JsonValue | undefined): [string, JsonValue][] {
    const members = isJsonObject(value) ? Object.entries(value) : [];
    this.#spend(members.length);
    return members;
  }

  #leaveOut(found: Finding, what: string): void {
    found.sure = false;
    this.unchecked.add(what);
  }

  #spendText(characters: number): void {
    this.#spend(1 + characters / CHARACTERS_PER_STEP);
  }

  #spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new Abandoned('all arguments (the schema needs too much work)');
  }
}

/** What of a value a keyword bounds; `undefined` for a value of another type. */
type Measure = (value: JsonValue) => number | undefined;
const number: Measure = value => (typeof value === 'number' ? value : undefined);
const characters: Measure = value => (typeof value === 'string' ? [...value].length : undefined);
const items: Measure = value => (Array.isArray(value) ? value.length : undefined);
const properties: Measure = value => (isJsonObject(value) ? Object.keys(value).length : undefined);

const atLeast = (size: number, bound: number) => size >= bound;
const atMost = (size: number, bound: number) => size <= bound;

/** Dividing decimal numbers is inexact: 0.3 counts as a multiple of 0.1. */
const ROUNDING = 1e-9;

function isMultiple(value: number, of: number): boolean {
  const times = value / of;
  return of <= 0 || !(Math.abs(times - Math.round(times)) > ROUNDING * Math.abs(times));
}

/** The keywords that bound a size, and the problem of a value out of bounds, with `#` for the bound. */
const BOUNDS: readonly [
  keyword: string,
  measure: Measure,
  fits: (size: number, bound: number) => boolean,
  words: string,
][] = [
  ['minimum', number, atLeast, 'be >= #'],
  ['maximum', number, atMost, 'be <= #'],
  ['exclusiveMinimum', number, (size, bound) => size > bound, 'be > #'],
  ['exclusiveMaximum', number, (size, bound) => size < bound, 'be < #'],
  ['multipleOf', number, isMultiple, 'be multiple of #'],
  ['minLength', characters, atLeast, 'NOT have fewer than # characters'],
  ['maxLength', characters, atMost, 'NOT have more than # characters'],
  ['minItems', items, atLeast, 'NOT have fewer than # items'],
  ['maxItems', items, atMost, 'NOT have more than # items'],
  ['minProperties', properties, atLeast, 'NOT have fewer than # properties'],
  ['maxProperties', properties, atMost, 'NOT have more than # properties'],
];

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

function has(value: object, name: string): boolean {
  return Object.hasOwn(value, name);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const SHOWN_PROBLEMS = 10;
const SHOWN_CHARACTERS = 200;

/** The problems of the value at `path` (`.items.0.name`; empty at the top level). */
class Finding {
  readonly path: string;
  readonly #problems: string[] = [];
  #failures = 0;
  sure = true;

  constructor(path: string) {
    this.path = path;
  }

  /** `undefined` when no problem was found, but some part could not be checked. */
  get verdict(): boolean | undefined {
    if (this.#failures > 0) return false;
    return this.sure ? true : undefined;
  }

  fail(problem: string): void {
    this.#failures += 1;
    if (this.#problems.length >= SHOWN_PROBLEMS) return;
    const place = this.path.slice(1, SHOWN_CHARACTERS);
    this.#problems.push(place === '' ? problem : `${place}: ${problem}`);
  }

  join(part: Finding): void {
    this.sure &&= part.sure;
    this.#failures += part.#failures;
    this.#problems.push(...part.#problems.slice(0, SHOWN_PROBLEMS - this.#problems.length));
  }

  shown(): string[] {
    const more = this.#failures - this.#problems.length;
    return more > 0 ? [...this.#problems, `and ${more} more`] : this.#problems;
  }
}

function show(value: JsonValue | undefined): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

function fitsType(type: JsonValue | undefined, value: JsonValue): boolean {
  if (type === 'null') return value === null;
  if (type === 'boolean' || type === 'number' || type === 'string') return typeof value === type;
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  return type !== 'object' || isJsonObject(value);
}
