import { messageOf } from '../../protocol/error.ts';
import { DEEPEST_JSON, type JsonValue, toBoundedText } from '../../protocol/json.ts';

/** A value that JSON would empty or distort; `path` is where it is, such as `order.date`, or '' for the value itself. */
export type NonJson = { path: string; value: unknown };

/** The first part for which `isNonJson` is true. Only lists and plain objects are searched, to the depth that JSON allows. */
export function findNonJson(
  value: unknown,
  isNonJson: (part: NonJson) => boolean,
  path = '',
  depth = 0,
): NonJson | undefined {
  const part = { path, value };
  if (isNonJson(part)) return part;
  if (typeof value !== 'object' || value === null || !isPlain(value) || depth > DEEPEST_JSON)
    return undefined;
  for (const name in value) {
    const member: unknown = (value as Record<string, unknown>)[name];
    const found = findNonJson(member, isNonJson, path === '' ? name : `${path}.${name}`, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Whether an object is a list or has no class; also one of another realm, whose prototype has no prototype either. */
export function isPlain(value: object): boolean {
  if (Array.isArray(value)) return true;
  const prototype: object | null = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Says what a value is and what to use instead: `a Map. Return a plain object: Object.fromEntries(map).` */
export function describeNonJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return `${String(value)}, which is not JSON.`;
  const kind = Object.prototype.toString.call(value).slice('[object '.length, -1);
  const name = value.constructor?.name || kind;
  return `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}. ${adviceFor(value, kind)}`;
}

const BYTES = 'Return content([{ type: "file", data: bytes, mediaType }]) for a file or an image.';
const STREAM = 'Read it and return its content; report parts in the meantime with context.progress().';

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
  return (
    ADVICE.get(kind) ??
    'Return a plain object with the properties that the model needs, such as { ...value }.'
  );
}

/** A tool's return value as JSON with its text, or a fault that says what to return instead. `toJSON` is called below. */
export function readOutput(output: unknown): { value: JsonValue; text: string } | { fault: string } {
  try {
    const foreign = findNonJson(output, isLost);
    if (foreign !== undefined) return { fault: describeFault(describePart(foreign)) };
    const text = toBoundedText(output);
    return { value: JSON.parse(text), text };
  } catch (error) {
    return { fault: describeFault(messageOf(error)) };
  }
}

/** Whether JSON would empty or distort an object. Node's buffers become a list of numbers. */
function isLost({ path, value }: NonJson): boolean {
  if (typeof value !== 'object' || value === null || isPlain(value)) return false;
  if (path === '' && value instanceof Date) return true;
  return !('toJSON' in value) || typeof value.toJSON !== 'function' || ArrayBuffer.isView(value);
}

function describePart({ path, value }: NonJson): string {
  return `${path === '' ? 'the value' : `"${path}"`} is ${describeNonJson(value)}`;
}

function describeFault(reason: string): string {
  return `The tool ran, but its result could not be recorded: ${reason}`;
}
