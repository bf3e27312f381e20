import type { JsonObject } from '../../protocol/json.ts';

const serialized = new WeakMap<object, string>();

/**
 * Caches the JSON text of a list that will be a member of a request body. The list must not change
 * afterwards.
 */
export function noteText(list: readonly JsonObject[], text: string): void {
  serialized.set(list, text);
}

/**
 * Returns `convert` with its last result cached for each list, together with the result's JSON text: the tools of an
 * agent are sent with every call and rarely change. A list may change, its elements must not.
 */
export function convertOnce<From extends object>(
  convert: (list: readonly From[]) => JsonObject[],
): (list: readonly From[]) => JsonObject[] {
  const cache = new WeakMap<readonly From[], { of: readonly From[]; converted: JsonObject[] }>();
  return list => {
    const known = cache.get(list);
    if (known?.of.length === list.length && known.of.every((one, at) => one === list[at]))
      return known.converted;
    const converted = convert(list);
    noteText(converted, JSON.stringify(converted));
    cache.set(list, { of: [...list], converted });
    return converted;
  };
}

/**
 * Returns the same text as `JSON.stringify(body)`, and takes the text of members cached by `noteText` from
 * the cache.
 */
export function bodyText(body: JsonObject): string {
  let members = '';
  for (const [name, value] of Object.entries(body)) {
    const cached = Array.isArray(value) ? serialized.get(value) : undefined;
    const text: string | undefined = cached ?? JSON.stringify(value);
    if (text !== undefined) members += `${members === '' ? '' : ','}${JSON.stringify(name)}:${text}`;
  }
  return `{${members}}`;
}
