import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { OutputFormat } from '../../protocol/turn.ts';
import { arrayOf, objectOf } from './json-access.ts';

/** What no strict schema may have: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas. */
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
 * The schema in the form strict mode takes: every object closed, every property required. Whatever
 * fits it fits the schema it came from. `undefined` where there is no such form: a property is
 * optional, an object open on purpose, a keyword not taken.
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
    const properties = strictMembers(objectOf(schema.properties));
    if (!properties) return undefined;
    const required = new Set(arrayOf(schema.required));
    if (Object.keys(properties).some(name => !required.has(name))) return undefined;
    Object.assign(form, {
      properties,
      required: Object.keys(properties),
      additionalProperties: false,
    } satisfies JsonObject);
  }
  for (const keyword of ['$defs', 'definitions']) {
    if (form[keyword] === undefined) continue;
    const members = strictMembers(objectOf(form[keyword]));
    if (!members) return undefined;
    form[keyword] = members;
  }
  if (form.items !== undefined) {
    const items = isJsonObject(form.items) ? strictForm(form.items) : undefined;
    if (!items) return undefined;
    form.items = items;
  }
  if (form.anyOf !== undefined) {
    const choices = arrayOf(form.anyOf).map(choice =>
      isJsonObject(choice) ? strictForm(choice) : undefined,
    );
    if (!choices.every(choice => choice !== undefined)) return undefined;
    form.anyOf = choices;
  }
  return form;
}

function isObjectSchema({ type, properties }: JsonObject): boolean {
  return type === 'object' || arrayOf(type).includes('object') || properties !== undefined;
}

function strictMembers(schemas: JsonObject): JsonObject | undefined {
  const members: [string, JsonValue][] = [];
  for (const [name, schema] of Object.entries(schemas)) {
    const form = isJsonObject(schema) ? strictForm(schema) : undefined;
    if (!form) return undefined;
    members.push([name, form]);
  }
  return Object.fromEntries(members);
}

/** The instructions with the schema of the answer in words, for providers that cannot be held to a schema. */
export function withOutputSchema(instructions: string | undefined, { schema }: OutputFormat): string {
  const asked = `Answer with nothing but one JSON value that follows this JSON Schema:\n${JSON.stringify(schema)}`;
  return instructions === undefined ? asked : `${instructions}\n\n${asked}`;
}
