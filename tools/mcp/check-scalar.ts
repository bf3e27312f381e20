import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';

const SHOWN_PROBLEMS = 10;
const SHOWN_CHARACTERS = 200;
/** What a division of decimal numbers may be off by: 0.3 is a multiple of 0.1. */
const ROUNDING = 1e-9;

/** What was found of one value at `path` (`.items.0.name`; empty at the top). */
export class Finding {
  readonly path: string;
  readonly #problems: string[] = [];
  #failures = 0;
  /** Everything in it could be looked at. */
  sure = true;

  constructor(path: string) {
    this.path = path;
  }

  /** `undefined` when what could be looked at is right, and something could not. */
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

  /** Takes over what was found of a part of the value. */
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

/** A value of a schema as a message quotes it. */
export function show(value: JsonValue | undefined): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

/** Whether the value is of the type; an unknown type fits everything. */
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

/** What `type` allows: one type, or any of several. */
export function checkType({ type }: JsonObject, value: JsonValue, found: Finding): void {
  if (type === undefined) return;
  const types = Array.isArray(type) ? type : [type];
  if (types.some(name => fitsType(name, value))) return;
  found.fail(`must be ${types.filter(name => typeof name === 'string').join(',')}`);
}

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
