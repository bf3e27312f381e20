import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { OutputFormat, Settings, ToolDefinition } from '../../protocol/turn.ts';
import { arrayOf, objectOf } from './json-access.ts';

/** Keywords that no provider enforces, and without which a schema has another meaning. */
export const LOST_KEYWORDS = [
  ...['not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas', 'patternProperties'],
  ...['propertyNames', 'unevaluatedProperties', 'unevaluatedItems', 'minProperties', 'maxProperties'],
  ...['prefixItems', 'contains'],
];

/** Strict mode refuses these: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas. */
const REFUSED = [...LOST_KEYWORDS, 'allOf', 'oneOf', 'minContains', 'maxContains', 'uniqueItems'];

/** The schema for OpenAI's strict mode; `undefined` if it would take less than the original. */
export function strictSchema(schema: JsonObject): JsonObject | undefined {
  if (schema.type !== 'object' || 'anyOf' in schema) return undefined;
  return strictForm(schema);
}

function strictForm(schema: JsonObject): JsonObject | undefined {
  if (REFUSED.some(keyword => keyword in schema)) return undefined;
  const { default: _, ...form } = schema;
  if (isObjectSchema(schema)) {
    if (schema.properties === undefined || (schema.additionalProperties ?? false) !== false) return undefined;
    const names = Object.keys(objectOf(schema.properties));
    const required = new Set(arrayOf(schema.required));
    if (names.some(name => !required.has(name))) return undefined;
    form.required = names;
    form.additionalProperties = false;
  }
  return rewriteSubschemas(form, strictForm);
}

/** The parameters of a tool, if possible in the strict form it asks for. Providers require `properties`. */
export function parametersOf({ inputSchema, strict }: ToolDefinition): {
  parameters: JsonObject;
  isStrict: boolean;
} {
  const parameters: JsonObject = { ...inputSchema, properties: objectOf(inputSchema.properties) };
  const strictForm = strict === true ? strictSchema(parameters) : undefined;
  return { parameters: strictForm ?? parameters, isStrict: strictForm !== undefined };
}

export function formatOf({ name, schema, strict }: OutputFormat): JsonObject {
  const strictForm = strict === true ? strictSchema(schema) : undefined;
  return {
    name: name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64),
    schema: strictForm ?? schema,
    ...(strict === undefined ? {} : { strict: strictForm !== undefined }),
  };
}

/** Adds what OpenAI's APIs refuse in a request without tools. */
export function withToolSettings(
  body: JsonObject,
  choice: JsonValue,
  { parallelToolCalls }: Settings,
): JsonObject {
  if (arrayOf(body.tools).length === 0) return body;
  return { tool_choice: choice, ...omitUndefined({ parallel_tool_calls: parallelToolCalls }), ...body };
}

/** Appends the output schema to the instructions as text, for providers that cannot enforce a schema. */
export function withOutputSchema(instructions: string | undefined, { schema }: OutputFormat): string {
  const request = `Answer with nothing but one JSON value that follows this JSON Schema:\n${JSON.stringify(schema)}`;
  return instructions === undefined ? request : `${instructions}\n\n${request}`;
}

/** Rewrites one schema; `undefined` where it has no form that the provider takes. */
type RewriteSchema = (schema: JsonObject) => JsonObject | undefined;

/** Replaces every direct subschema, in order. `undefined` if `rewrite` returns it, or for `true` and `false`. */
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

export function isObjectSchema({ type, properties }: JsonObject): boolean {
  return type === 'object' || arrayOf(type).includes('object') || properties !== undefined;
}
