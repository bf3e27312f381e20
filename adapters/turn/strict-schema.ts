import type { JsonObject } from '../../protocol/json.ts';
import type { OutputFormat } from '../../protocol/turn.ts';
import { arrayOf, objectOf } from './json-access.ts';
import { isObjectSchema, rewriteSubschemas } from './rewrite-subschemas.ts';

/**
 * Keywords that strict mode refuses:
 * https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
 */
const REFUSED = [
  'allOf',
  'oneOf',
  'not',
  'if',
  'then',
  'else',
  'dependentRequired',
  'dependentSchemas',
  'patternProperties',
  'propertyNames',
  'unevaluatedProperties',
  'unevaluatedItems',
  'minProperties',
  'maxProperties',
  'prefixItems',
  'contains',
  'minContains',
  'maxContains',
  'uniqueItems',
];

/**
 * Returns the schema in the form that OpenAI's strict mode takes: every object closed, every property
 * required. Every value that fits it also fits the original schema. Returns `undefined` if there is no such
 * form: a property is optional, an object is explicitly open, or a keyword is not supported.
 */
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

/** Appends the output schema to the instructions as text, for providers that cannot enforce a schema. */
export function withOutputSchema(instructions: string | undefined, { schema }: OutputFormat): string {
  const request = `Answer with nothing but one JSON value that follows this JSON Schema:\n${JSON.stringify(schema)}`;
  return instructions === undefined ? request : `${instructions}\n\n${request}`;
}
