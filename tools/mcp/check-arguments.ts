import {
  canonicalJson,
  DEEPEST_JSON,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  omitUndefined,
} from '../../protocol/json.ts';
import type { Validation } from '../../protocol/tool.ts';
import type { LinearPattern } from './linear-patterns.ts';

/** The supported dialects: values of `$schema` without scheme and trailing `#`. */
const DIALECTS: ReadonlySet<string> = new Set([
  'json-schema.org/draft/2020-12/schema',
  'json-schema.org/draft/2019-09/schema',
  'json-schema.org/draft-07/schema',
  'json-schema.org/draft-06/schema',
]);

/**
 * Returns a check of a call's arguments against the schema of an MCP server (see `checkSchema`). Arguments must
 * always be an object. Nothing else is checked if `schema` is `undefined` (the server's schema was too deep or
 * too long) or has an unknown dialect. The parts of a schema that cannot be checked, such as a pattern without
 * a linear form, are named in the validation's `unchecked`.
 */
export function createArgumentsCheck(
  schema: JsonObject | undefined,
): (input: JsonValue) => Promise<Validation> {
  const usesPatterns = schema !== undefined && JSON.stringify(schema).includes('"pattern');
  let preparing: Promise<CompilePattern> | null = null;
  return async input => {
    if (!isJsonObject(input)) return { valid: false, message: 'expected an object of arguments' };
    if (schema === undefined) return { valid: true, value: input, unchecked: TOO_LARGE };
    if (!hasKnownDialect(schema)) return { valid: true, value: input };
    preparing ??= usesPatterns ? preparePatterns() : Promise.resolve(() => null);
    const { problems, unchecked } = checkSchema(schema, input, await preparing);
    const note = unchecked.length === 0 ? undefined : describeUnchecked(unchecked);
    if (problems.length === 0) return { valid: true, value: input, ...omitUndefined({ unchecked: note }) };
    const message = problems.join(', ');
    return { valid: false, message: note ? `${message}. ${note}` : message };
  };
}

function hasKnownDialect({ $schema }: JsonObject): boolean {
  if (typeof $schema !== 'string') return true;
  const bare = $schema.endsWith('#') ? $schema.slice(0, -1) : $schema;
  return DIALECTS.has(bare.startsWith('https://') ? bare.slice(8) : bare.slice('http://'.length));
}

/** Loads the pattern engine, which few schemas need. */
async function preparePatterns(): Promise<CompilePattern> {
  const { LinearPatterns } = await import('./linear-patterns.ts');
  const patterns = new LinearPatterns();
  return pattern => patterns.get(pattern);
}

const MAX_SHOWN = 5;
const TOO_LARGE = describeUnchecked(['all arguments (the schema is too deep or too long)']);

function describeUnchecked(unchecked: readonly string[]): string {
  const more = unchecked.length > MAX_SHOWN ? ` and ${unchecked.length - MAX_SHOWN} more` : '';
  return `Not checked before the call, but left to the server: ${unchecked.slice(0, MAX_SHOWN).join(', ')}${more}.`;
}

/** The problems of a value, and the parts of its schema that could not be checked. */
type Checked = { problems: readonly string[]; unchecked: readonly string[] };

/** Returns `null` for a pattern that cannot be run in linear time. */
type CompilePattern = (pattern: string) => LinearPattern | null;

/** The limit of steps per check. Each schema and member visited is a step; see also `CHARACTERS_PER_STEP`. */
const MAX_WORK = 200_000;

/** Reading this many characters counts as one step; characters matched by a pattern count times its size. */
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
    const found = checker.check(root, value);
    return { problems: found.shown(), unchecked: [...checker.unchecked] };
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
    if (typeof value === 'number') checkNumber(schema, value, found);
    else if (typeof value === 'string') this.#checkText(schema, value, found);
    else if (Array.isArray(value)) this.#checkList(schema, value, found);
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
    const { enum: options } = schema;
    checkType(schema, value, found);
    if (Array.isArray(options) && !options.some(option => this.#isEqual(option, value))) {
      found.fail(`must be one of ${show(options)}`);
    }
    if (has(schema, 'const') && !this.#isEqual(schema.const, value))
      found.fail(`must be ${show(schema.const)}`);
  }

  #checkText({ minLength, maxLength, pattern }: JsonObject, text: string, found: Finding): void {
    if (typeof minLength === 'number' || typeof maxLength === 'number') {
      this.#spendText(text.length);
      const length = [...text].length;
      if (length < Number(minLength ?? 0)) found.fail(`must NOT have fewer than ${minLength} characters`);
      if (length > Number(maxLength ?? length)) found.fail(`must NOT have more than ${maxLength} characters`);
    }
    if (typeof pattern !== 'string') return;
    const matches = this.#matches(pattern, text, found);
    if (matches === false) found.fail(`must match pattern ${show(pattern)}`);
  }

  #checkList(schema: JsonObject, list: readonly JsonValue[], found: Finding): void {
    const { minItems, maxItems, uniqueItems, contains, items } = schema;
    checkCount(list.length, minItems, maxItems, 'items', found);
    const first = listOf(schema.prefixItems ?? items);
    const rest = Array.isArray(items) ? schema.additionalItems : items;
    for (const [index, item] of list.entries()) {
      const place = index < first.length ? first[index] : rest;
      if (place !== undefined) found.join(this.check(place, item, `${found.path}.${index}`));
    }
    if (uniqueItems === true && !this.#areUnique(list)) found.fail('must NOT have duplicate items');
    if (contains === undefined) return;
    const verdicts = list.map(item => this.check(contains, item, found.path).verdict);
    const certain = verdicts.filter(verdict => verdict === true).length;
    const possible = certain + verdicts.filter(verdict => verdict === undefined).length;
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
    checkCount(names.length, schema.minProperties, schema.maxProperties, 'properties', found);
    this.#require(schema.required, object, found);
    const dependencies = [schema.dependentRequired, schema.dependentSchemas, schema.dependencies];
    for (const [name, needed] of dependencies.flatMap(each => this.#membersOf(each))) {
      if (!has(object, name)) continue;
      if (Array.isArray(needed)) this.#require(needed, object, found);
      else found.join(this.check(needed, object, found.path));
    }
    const properties = isJsonObject(schema.properties) ? schema.properties : {};
    const patterns = this.#membersOf(schema.patternProperties);
    for (const name of names) {
      const value = object[name] ?? null;
      const path = `${found.path}.${name}`;
      if (schema.propertyNames !== undefined) found.join(this.check(schema.propertyNames, name, path));
      /** Whether `properties` or `patternProperties` cover the name; `undefined` where a pattern cannot tell. */
      let known: boolean | undefined = has(properties, name);
      if (known) found.join(this.check(properties[name], value, path));
      for (const [pattern, place] of patterns) {
        const matches = this.#matches(pattern, name, found);
        if (matches) found.join(this.check(place, value, path));
        if (known !== true && matches !== false) known = matches;
      }
      const { additionalProperties: others } = schema;
      if (known !== false || others === undefined) continue;
      if (others === false) found.fail(`must NOT have the additional property ${show(name)}`);
      else found.join(this.check(others, value, path));
    }
  }

  #require(names: JsonValue | undefined, object: JsonObject, found: Finding): void {
    for (const name of listOf(names)) {
      this.#spend(1);
      if (typeof name === 'string' && !has(object, name)) {
        found.fail(`must have required property '${name.slice(0, 100)}'`);
      }
    }
  }

  #checkCombined(schema: JsonObject, value: JsonValue, found: Finding): void {
    const verdict = (place: JsonValue | undefined) => this.check(place, value, found.path).verdict;
    for (const place of listOf(schema.allOf)) found.join(this.check(place, value, found.path));
    if (Array.isArray(schema.anyOf)) {
      const verdicts = schema.anyOf.map(verdict);
      if (verdicts.every(each => each === false)) found.fail('must match a schema in anyOf');
      else if (!verdicts.includes(true)) found.sure = false;
    }
    if (Array.isArray(schema.oneOf)) {
      const verdicts = schema.oneOf.map(verdict);
      const certain = verdicts.filter(each => each === true).length;
      const isUnsure = verdicts.includes(undefined);
      if (certain > 1 || (certain === 0 && !isUnsure)) found.fail('must match exactly one schema in oneOf');
      else if (isUnsure) found.sure = false;
    }
    if (schema.not !== undefined) {
      const excluded = verdict(schema.not);
      if (excluded === true) found.fail('must NOT be valid against the schema in not');
      else if (excluded === undefined) found.sure = false;
    }
    if (schema.if === undefined) return;
    const condition = verdict(schema.if);
    if (condition === undefined) found.sure = false;
    else found.join(this.check(condition ? schema.then : schema.else, value, found.path));
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

  #areUnique(list: readonly JsonValue[]): boolean {
    return new Set(list.map(item => this.#textOf(item))).size === list.length;
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

function checkCount(
  count: number,
  least: JsonValue | undefined,
  most: JsonValue | undefined,
  of: string,
  found: Finding,
): void {
  if (typeof least === 'number' && count < least) found.fail(`must NOT have fewer than ${least} ${of}`);
  if (typeof most === 'number' && count > most) found.fail(`must NOT have more than ${most} ${of}`);
}

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
/** Tolerance for dividing decimal numbers: 0.3 counts as a multiple of 0.1. */
const ROUNDING = 1e-9;

/** The problems of the value at `path` (`.items.0.name`; empty at the top level). */
class Finding {
  readonly path: string;
  readonly #problems: string[] = [];
  #failures = 0;
  /** Whether every part of the value could be checked. */
  sure = true;

  constructor(path: string) {
    this.path = path;
  }

  /** `undefined` when no problem was found, but some part could not be checked. */
  get verdict(): boolean | undefined {
    if (this.#failures > 0) return false;
    return this.sure ? true : undefined;
  }

  /** Records a problem. Only the first ones are kept; the others are counted. */
  fail(problem: string): void {
    this.#failures += 1;
    if (this.#problems.length >= SHOWN_PROBLEMS) return;
    const place = this.path.slice(1, SHOWN_CHARACTERS);
    this.#problems.push(place === '' ? problem : `${place}: ${problem}`);
  }

  /** Adds the problems of a part of the value. */
  join(part: Finding): void {
    this.sure &&= part.sure;
    this.#failures += part.#failures;
    this.#problems.push(...part.#problems.slice(0, SHOWN_PROBLEMS - this.#problems.length));
  }

  /** The problems for a message, and the number of dropped ones. */
  shown(): string[] {
    const more = this.#failures - this.#problems.length;
    return more > 0 ? [...this.#problems, `and ${more} more`] : this.#problems;
  }
}

/** Formats a value of a schema for a message, cut to a bounded length. */
function show(value: JsonValue | undefined): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

/** Whether the value has the type; every value has an unknown type. */
function fitsType(type: JsonValue, value: JsonValue): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'boolean':
    case 'number':
    case 'string':
      return typeof value === type;
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isJsonObject(value);
    default:
      return true;
  }
}

/** Checks the keyword `type`: one type, or a list of alternatives. */
function checkType({ type }: JsonObject, value: JsonValue, found: Finding): void {
  if (type === undefined) return;
  const types = Array.isArray(type) ? type : [type];
  if (types.some(name => fitsType(name, value))) return;
  found.fail(`must be ${types.filter(name => typeof name === 'string').join(',')}`);
}

/** Checks the keywords for numbers: bounds and `multipleOf`. */
function checkNumber(schema: JsonObject, value: number, found: Finding): void {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  if (typeof minimum === 'number' && value < minimum) found.fail(`must be >= ${minimum}`);
  if (typeof maximum === 'number' && value > maximum) found.fail(`must be <= ${maximum}`);
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) {
    found.fail(`must be > ${exclusiveMinimum}`);
  }
  if (typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum) {
    found.fail(`must be < ${exclusiveMaximum}`);
  }
  if (typeof multipleOf !== 'number' || multipleOf <= 0) return;
  const times = value / multipleOf;
  if (Math.abs(times - Math.round(times)) > ROUNDING * Math.abs(times))
    found.fail(`must be multiple of ${multipleOf}`);
}
