import type { JsonObject, JsonValue } from '../../protocol/json.ts';

type Noted = { list: readonly JsonObject[]; text: string };

/** The list of the next request: an entry of a `WeakMap` for each request would cost as much as serializing a turn. */
let noted: Noted | undefined;

/**
 * Keeps the JSON text of a list that will be a member of the next request body. The list must not change
 * afterwards.
 */
export function noteText(list: readonly JsonObject[], text: string): void {
  noted = { list, text };
}

const serialized = new WeakMap<readonly JsonValue[], string>();

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
    serialized.set(converted, JSON.stringify(converted));
    cache.set(list, { of: [...list], converted });
    return converted;
  };
}

/**
 * Returns the same text as `JSON.stringify(body)`, with the known texts of lists from `convertOnce` and `noteText`.
 */
export function bodyText(body: JsonObject): string {
  let members = '';
  for (const name of Object.keys(body)) {
    const value = body[name];
    const text: string | undefined = (Array.isArray(value) && knownText(value)) || JSON.stringify(value);
    if (text !== undefined) members += `${members === '' ? '' : ','}${JSON.stringify(name)}:${text}`;
  }
  return `{${members}}`;
}

function knownText(list: readonly JsonValue[]): string | undefined {
  return noted?.list === list ? noted.text : serialized.get(list);
}
