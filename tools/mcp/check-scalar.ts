import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';

const SHOWN_PROBLEMS = 10;
const SHOWN_CHARACTERS = 200;
/** Tolerance for dividing decimal numbers: 0.3 counts as a multiple of 0.1. */
const ROUNDING = 1e-9;

/** The problems of the value at `path` (`.items.0.name`; empty at the top level). */
export class Finding {
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
export function show(value: JsonValue | undefined): string {
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
export function checkType({ type }: JsonObject, value: JsonValue, found: Finding): void {
  if (type === undefined) return;
  const types = Array.isArray(type) ? type : [type];
  if (types.some(name => fitsType(name, value))) return;
  found.fail(`must be ${types.filter(name => typeof name === 'string').join(',')}`);
}

/** Checks the keywords for numbers: bounds and `multipleOf`. */
export function checkNumber(schema: JsonObject, value: number, found: Finding): void {
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
