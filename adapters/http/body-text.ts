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
 * Returns the same text as `JSON.stringify(body)`, and takes the text of members cached by `noteText` from
 * the cache.
 */
export function bodyText(body: JsonObject): string {
  const members: string[] = [];
  for (const [name, value] of Object.entries(body)) {
    const cached = typeof value === 'object' && value !== null ? serialized.get(value) : undefined;
    const text: string | undefined = cached ?? JSON.stringify(value);
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(',')}}`;
}
