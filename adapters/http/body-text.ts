import type { JsonObject, JsonValue } from '../../protocol/json.ts';

/** The member of a list that holds its JSON text. No copy of the list has it. */
const TEXT = Symbol('JSON text');

/** Gives a list its JSON text, for the request body that it will be a member of. The list must not change afterwards. */
export function setText(list: readonly JsonValue[], text: string): void {
  Object.defineProperty(list, TEXT, { value: text });
}

/** The list with other elements from `at` on. Its JSON text is written again only from there. */
export function withTail<Value extends JsonValue>(
  list: readonly Value[],
  at: number,
  tail: readonly Value[],
): Value[] {
  const changed = [...list.slice(0, at), ...tail];
  const text = textOf(list);
  if (text !== undefined) {
    const [before, after] = [JSON.stringify(list.slice(at)), JSON.stringify(tail)];
    setText(changed, text.slice(0, text.length - before.length + 1) + after.slice(1));
  }
  return changed;
}

/** `convert` with its last result, and the JSON of it, cached for each list, whose elements never change. */
export function convertOnce<From extends object>(
  convert: (list: readonly From[]) => JsonObject[],
): (list: readonly From[]) => JsonObject[] {
  const cache = new WeakMap<readonly From[], { of: readonly From[]; converted: JsonObject[] }>();
  return list => {
    const known = cache.get(list);
    if (known?.of.length === list.length && known.of.every((one, at) => one === list[at]))
      return known.converted;
    const converted = convert(list);
    setText(converted, JSON.stringify(converted));
    cache.set(list, { of: [...list], converted });
    return converted;
  };
}

export function bodyText(body: JsonObject): string {
  let members = '';
  for (const name of Object.keys(body)) {
    const value = body[name];
    const text = (Array.isArray(value) && textOf(value)) || JSON.stringify(value);
    if (text !== undefined) members += `${members === '' ? '' : ','}${JSON.stringify(name)}:${text}`;
  }
  return `{${members}}`;
}

function textOf(list: readonly JsonValue[]): string | undefined {
  const text: unknown = Reflect.get(list, TEXT);
  return typeof text === 'string' ? text : undefined;
}
