import { isJsonObject, type JsonObject } from '../../protocol/json.ts';

/** Lists that options add to, so that a provider's own tools can stand beside the agent's. */
const APPENDED = new Set(['tools', 'include']);

/** The body with `options` laid over it: objects are merged, `tools` and `include` are appended, all else is replaced. */
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
