import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { nonEmpty } from '../turn/json-access.ts';

/** Deeper arguments are not read. */
const DEEPEST = 100;

/**
 * The arguments of a call that come piece by piece, each with the path it belongs to
 * (`streamFunctionCallArguments`).
 *
 * A1 Texts for one path are joined; any other value replaces what was there.
 * A2 A piece that cannot be placed makes the arguments no JSON, so that the call is an error and does
 *    not run with less than the model asked for.
 */
export class PartialArguments {
  readonly #root: JsonObject = Object.create(null);
  #misplaced: string | undefined;

  /** Arguments that come whole, beside pieces or instead of them. */
  add(whole: JsonObject): void {
    Object.assign(this.#root, whole);
  }

  push(piece: JsonObject): void {
    const value = valueIn(piece);
    if (value === undefined) return;
    const path = nonEmpty(piece.jsonPath) ?? '';
    const steps = stepsOf(path);
    if (!steps || !place(this.#root, steps, value)) this.#misplaced ??= path;
  }

  text(): string {
    const text = JSON.stringify(this.#root);
    return this.#misplaced === undefined ? text : `${text} and a value for ${this.#misplaced}`;
  }
}

function valueIn(piece: JsonObject): JsonValue | undefined {
  if (piece.nullValue !== undefined) return null;
  return piece.stringValue ?? piece.numberValue ?? piece.boolValue ?? undefined;
}

type Step = string | number;

/** The steps of a path like `$.a.b[0]["c"]`; `undefined` for any other. */
function stepsOf(path: string): Step[] | undefined {
  const steps: Step[] = [];
  let read = path.startsWith('$') ? 1 : 0;
  for (const [whole, name, index, quoted] of path.matchAll(STEP)) {
    if (steps.length === DEEPEST) return undefined;
    if (index !== undefined) steps.push(Number(index));
    else steps.push(name ?? (quoted ?? '').slice(1, -1).replace(/\\(.)/g, '$1'));
    read += whole.length;
  }
  return read === path.length && steps.length > 0 ? steps : undefined;
}

const STEP = /\.([^.[\]]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]/g;

/** Whether there was a place: lists grow by one, and a value never becomes a container. */
function place(root: JsonObject, steps: readonly Step[], value: JsonValue): boolean {
  let container: JsonValue = root;
  for (const [at, step] of steps.entries()) {
    const next = steps[at + 1];
    const present = memberOf(container, step);
    if (present === NO_PLACE) return false;
    let member: JsonValue | undefined = present;
    if (next === undefined) member = joined(present, value);
    else if (present === undefined) member = typeof next === 'number' ? [] : Object.create(null);
    if (member === undefined) return false;
    if (Array.isArray(container)) container[Number(step)] = member;
    else if (isJsonObject(container)) container[step] = member;
    container = member;
  }
  return true;
}

const NO_PLACE = Symbol('no place');

function memberOf(container: JsonValue, step: Step): JsonValue | undefined | typeof NO_PLACE {
  if (Array.isArray(container) && typeof step === 'number') {
    return step <= container.length ? container[step] : NO_PLACE;
  }
  if (!isJsonObject(container) || typeof step !== 'string') return NO_PLACE;
  return Object.hasOwn(container, step) ? container[step] : undefined;
}

function joined(present: JsonValue | undefined, value: JsonValue): JsonValue {
  return typeof present === 'string' && typeof value === 'string' ? present + value : value;
}
