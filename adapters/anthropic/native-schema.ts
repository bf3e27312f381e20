import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { arrayOf, objectOf, textIn } from '../turn/json-access.ts';

/** Keywords whose meaning cannot be kept: a schema with one of them has no native form. */
const REFUSED = [
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
];

/** Keywords the API refuses that only narrow a value: they become words in its description. */
const NARROWING = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'maxItems',
  'uniqueItems',
];

const FORMATS = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'];

/**
 * The schema in the form that `output_config.format` and `strict` tools take: every object closed,
 * limits of numbers, texts and lists said in descriptions. `undefined` where there is no such form: an
 * object is open on purpose, the schema refers to itself, a keyword is not taken.
 * See https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations.
 */
export function nativeSchema(schema: JsonObject): JsonObject | undefined {
  if (REFUSED.some(keyword => keyword in schema) || schema.$ref === '#') return undefined;
  const { $schema: _, additionalProperties, oneOf, ...form } = schema;
  if (oneOf !== undefined) form.anyOf = oneOf;
  if (isObjectSchema(schema)) {
    if ((additionalProperties ?? false) !== false) return undefined;
    form.properties = objectOf(schema.properties);
    form.additionalProperties = false;
  }
  sayLimits(form);
  for (const keyword of ['properties', '$defs', 'definitions']) {
    if (form[keyword] === undefined) continue;
    const members = membersOf(objectOf(form[keyword]), keyword);
    if (!members) return undefined;
    form[keyword] = members;
  }
  for (const keyword of ['anyOf', 'allOf']) {
    if (form[keyword] === undefined) continue;
    const choices = arrayOf(form[keyword]).map(formOf);
    if (!choices.every(choice => choice !== undefined)) return undefined;
    form[keyword] = choices;
  }
  if (form.items !== undefined) {
    const items = formOf(form.items);
    if (!items) return undefined;
    form.items = items;
  }
  return form;
}

function formOf(schema: JsonValue): JsonObject | undefined {
  return isJsonObject(schema) ? nativeSchema(schema) : undefined;
}

function membersOf(schemas: JsonObject, keyword: string): JsonObject | undefined {
  const members: [string, JsonValue][] = [];
  for (const [name, schema] of Object.entries(schemas)) {
    const form = formOf(schema);
    const isRecursive = keyword !== 'properties' && JSON.stringify(schema).includes(`"#/${keyword}/${name}"`);
    if (!form || isRecursive) return undefined;
    members.push([name, form]);
  }
  return Object.fromEntries(members);
}

function isObjectSchema({ type, properties }: JsonObject): boolean {
  return type === 'object' || arrayOf(type).includes('object') || properties !== undefined;
}

function sayLimits(form: JsonObject): void {
  const said: string[] = [];
  for (const keyword of [...NARROWING, 'format', 'minItems']) {
    const limit = form[keyword];
    if (limit === undefined || isTaken(keyword, limit)) continue;
    said.push(`${keyword}: ${JSON.stringify(limit)}`);
    delete form[keyword];
  }
  if (said.length === 0) return;
  const description = textIn(form.description);
  form.description = `${description}${description === '' ? '' : '\n\n'}{${said.join(', ')}}`;
}

function isTaken(keyword: string, limit: JsonValue): boolean {
  if (keyword === 'format') return FORMATS.includes(textIn(limit));
  return keyword === 'minItems' && (limit === 0 || limit === 1);
}
