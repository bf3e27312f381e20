import { messageOf } from '../../protocol/error.ts';
import { DEEPEST_JSON, type JsonValue, toBoundedText } from '../../protocol/json.ts';

/**
 * Converts a tool's return value to JSON; returns it with its text, or a fault that says what to return instead. Objects
 * inside it with a `toJSON` method, such as dates, become what that method returns.
 */
export function readOutput(output: unknown): { value: JsonValue; text: string } | { fault: string } {
  try {
    const refused = isObject(output) ? findRefused(output, '', 0) : undefined;
    if (typeof refused === 'string') return { fault: describeFault(refused) };
    const text = toBoundedText(output);
    return { value: JSON.parse(text), text };
  } catch (error) {
    return { fault: describeFault(messageOf(error)) };
  }
}

function describeFault(reason: string): string {
  return `The tool ran, but what it returned could not be recorded: ${reason}`;
}

/**
 * The first object in a value that JSON would empty or distort, and what to return instead. `null` for a value that is
 * nested too deep, or a cycle: the conversion to JSON names these.
 */
function findRefused(value: object, path: string, depth: number): string | null | undefined {
  if (depth > DEEPEST_JSON) return null;
  if (!Array.isArray(value) && !isPlain(value)) {
    const isWhole = path === '' && value instanceof Date;
    return isConverted(value) && !isWhole ? undefined : refuse(value, path);
  }
  for (const key in value) {
    const member: unknown = (value as Record<string, unknown>)[key];
    if (!isObject(member)) continue;
    const refused = findRefused(member, path === '' ? key : `${path}.${key}`, depth + 1);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** Also an object of another realm, whose prototype has no prototype either. */
function isPlain(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Whether `toJSON` gives what the object holds. Node's buffers become a list of numbers. */
function isConverted(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === 'function' && !ArrayBuffer.isView(value);
}

function refuse(value: object, path: string): string {
  const where = path === '' ? 'the value' : `"${path}"`;
  const kind = Object.prototype.toString.call(value).slice('[object '.length, -1);
  const name = value.constructor?.name || kind;
  return `${where} is ${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}. ${adviceFor(value, kind)}`;
}

const BYTES = 'Return content([{ type: "file", data: bytes, mediaType }]) for a file or an image.';
const STREAM = 'Read it, and return what it contains; report parts on the way with context.progress().';

/** What to return instead, by the kind that `Object.prototype.toString` names. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['Date', 'Return its text: date.toISOString().'],
  ['Map', 'Return a plain object: Object.fromEntries(map).'],
  ['Set', 'Return an array: [...set].'],
  ['Error', 'Throw it, so that the call fails, or return its message.'],
  ['Response', 'Return its body: await response.json() or await response.text().'],
  ['Request', 'Return its body: await request.json() or await request.text().'],
  ['Headers', 'Return a plain object: Object.fromEntries(headers).'],
  ['FormData', 'Return a plain object: Object.fromEntries(formData).'],
  ['RegExp', 'Return its text: pattern.source.'],
  ['Promise', 'Await it.'],
  ['Blob', `Read it with await blob.bytes(). ${BYTES}`],
  ['File', `Read it with await file.bytes(). ${BYTES}`],
  ['ArrayBuffer', BYTES],
  ['ReadableStream', STREAM],
  ['Generator', 'Return an array: [...generator].'],
  ['AsyncGenerator', STREAM],
]);

function adviceFor(value: object, kind: string): string {
  if (ArrayBuffer.isView(value)) return BYTES;
  if (value instanceof Error) return ADVICE.get('Error') ?? '';
  return ADVICE.get(kind) ?? 'Return a plain object with what the model needs, such as { ...value }.';
}
