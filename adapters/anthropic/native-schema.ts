import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { objectOf, textIn } from '../turn/json-access.ts';
import { isObjectSchema, rewriteSubschemas } from '../turn/rewrite-subschemas.ts';

/** Keywords whose meaning would be lost: a schema with one of them has no native form. */
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

/** Keywords that the API refuses and that only narrow a value: they become part of its description. */
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
 * Returns the schema in the form that `output_config.format` and `strict` tools take: every object closed,
 * limits of numbers, texts and lists written into descriptions. Returns `undefined` if there is no such form:
 * an object is explicitly open, the schema is recursive, or a keyword is not supported. See
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations.
 */
export function nativeSchema(schema: JsonObject): JsonObject | undefined {
  if (REFUSED.some(keyword => keyword in schema) || isRecursive(schema)) return undefined;
  const { $schema: _, additionalProperties, oneOf, ...form } = schema;
  if (oneOf !== undefined) form.anyOf = oneOf;
  if (isObjectSchema(schema)) {
    if ((additionalProperties ?? false) !== false) return undefined;
    form.properties = objectOf(schema.properties);
    form.additionalProperties = false;
  }
  describeLimits(form);
  return rewriteSubschemas(form, nativeSchema);
}

/** Whether the schema refers to itself, or one of its definitions does. */
function isRecursive(schema: JsonObject): boolean {
  if (schema.$ref === '#') return true;
  return ['$defs', 'definitions'].some(keyword =>
    Object.entries(objectOf(schema[keyword])).some(([name, definition]) =>
      JSON.stringify(definition).includes(`"#/${keyword}/${name}"`),
    ),
  );
}

/** Moves limits that the API refuses into the description. */
function describeLimits(form: JsonObject): void {
  const limits: string[] = [];
  for (const keyword of [...NARROWING, 'format', 'minItems']) {
    const limit = form[keyword];
    if (limit === undefined || isSupported(keyword, limit)) continue;
    limits.push(`${keyword}: ${JSON.stringify(limit)}`);
    delete form[keyword];
  }
  if (limits.length === 0) return;
  const description = textIn(form.description);
  form.description = `${description}${description === '' ? '' : '\n\n'}{${limits.join(', ')}}`;
}

function isSupported(keyword: string, limit: JsonValue): boolean {
  if (keyword === 'format') return FORMATS.includes(textIn(limit));
  return keyword === 'minItems' && (limit === 0 || limit === 1);
}
