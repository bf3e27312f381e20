import { isJsonObject, type JsonObject } from '../../protocol/json.ts';

/** Lists that are concatenated, so that options can add provider tools to the agent's tools. */
const APPENDED = new Set(['tools', 'include']);

/**
 * Merges `options` into the body: objects are merged, `tools` and `include` appended, all other members
 * replaced.
 */
export function mergeOptions(body: JsonObject, options: JsonObject | undefined): JsonObject {
  const merged = { ...body };
  for (const [key, value] of Object.entries(options ?? {})) {
    const present = merged[key];
    if (isJsonObject(present) && isJsonObject(value)) merged[key] = mergeOptions(present, value);
    else if (APPENDED.has(key) && Array.isArray(present) && Array.isArray(value)) {
      merged[key] = [...present, ...value];
    } else merged[key] = value;
  }
  return merged;
}
