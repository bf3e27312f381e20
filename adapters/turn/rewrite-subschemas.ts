import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { arrayOf, objectOf } from './json-access.ts';

/** Rewrites one schema; `undefined` where it has no form that the provider takes. */
type RewriteSchema = (schema: JsonObject) => JsonObject | undefined;

/**
 * Returns a copy of the schema, with the same order of keys, in which `rewrite` has replaced every direct
 * subschema. Returns `undefined` if `rewrite` does for one of them, or if a subschema is `true` or `false`.
 */
export function rewriteSubschemas(schema: JsonObject, rewrite: RewriteSchema): JsonObject | undefined {
  const rewritten = { ...schema };
  for (const keyword of ['properties', '$defs', 'definitions']) {
    if (schema[keyword] === undefined) continue;
    const names = Object.keys(objectOf(schema[keyword]));
    const members = rewriteAll(Object.values(objectOf(schema[keyword])), rewrite);
    if (!members) return undefined;
    rewritten[keyword] = Object.fromEntries(members.map((member, at) => [names[at], member]));
  }
  for (const keyword of ['anyOf', 'allOf']) {
    if (schema[keyword] === undefined) continue;
    const choices = rewriteAll(arrayOf(schema[keyword]), rewrite);
    if (!choices) return undefined;
    rewritten[keyword] = choices;
  }
  if (schema.items === undefined) return rewritten;
  const items = rewriteAll([schema.items], rewrite)?.[0];
  return items && { ...rewritten, items };
}

function rewriteAll(schemas: readonly JsonValue[], rewrite: RewriteSchema): JsonObject[] | undefined {
  const rewritten = schemas.map(schema => (isJsonObject(schema) ? rewrite(schema) : undefined));
  return rewritten.every(schema => schema !== undefined) ? rewritten : undefined;
}

/** Whether the schema describes an object, or a value that may be one. */
export function isObjectSchema({ type, properties }: JsonObject): boolean {
  return type === 'object' || arrayOf(type).includes('object') || properties !== undefined;
}
