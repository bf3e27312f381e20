import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { nonEmpty } from '../turn/json-access.ts';

/** The maximum depth of a path. */
const DEEPEST = 100;

/**
 * Assembles call arguments from pieces that each have a JSON path (`streamFunctionCallArguments`).
 *
 * A1 Texts for the same path are concatenated; any other value replaces the previous one.
 * A2 A piece with an invalid path makes the arguments invalid JSON, so that the call becomes an error and
 *    does not run with incomplete arguments.
 */
export class PartialArguments {
  readonly #root: JsonObject = Object.create(null);
  #misplaced: string | undefined;

  /** Adds complete arguments, which may arrive in addition to pieces. */
  add(args: JsonObject): void {
    Object.assign(this.#root, args);
  }

  /** Adds a piece. */
  push(piece: JsonObject): void {
    const value = valueIn(piece);
    if (value === undefined) return;
    const path = nonEmpty(piece.jsonPath) ?? '';
    const steps = stepsOf(path);
    if (!steps || !place(this.#root, steps, value)) this.#misplaced ??= path;
  }

  /** Returns the arguments as JSON text; invalid JSON if a piece could not be placed. */
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

/** Parses a path like `$.a.b[0]["c"]`; `undefined` if it is invalid. */
function stepsOf(path: string): Step[] | undefined {
  const steps: Step[] = [];
  let read = path.startsWith('$') ? 1 : 0;
  for (const [match, name, index, quoted] of path.matchAll(STEP)) {
    if (steps.length === DEEPEST) return undefined;
    if (index !== undefined) steps.push(Number(index));
    else steps.push(name ?? (quoted ?? '').slice(1, -1).replace(/\\(.)/g, '$1'));
    read += match.length;
  }
  return read === path.length && steps.length > 0 ? steps : undefined;
}

const STEP = /\.([^.[\]]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\]/g;

/**
 * Sets the value at a path. Returns `false` if that is impossible: lists grow by one, and a value never
 * becomes a container.
 */
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
