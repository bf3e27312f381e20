import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { EngineError, messageOf } from '../protocol/error.ts';
import { isJsonObject, type JsonObject, toJson } from '../protocol/json.ts';

const TARGETS = ['draft-2020-12', 'draft-07'] as const;

type DescribedSchema = {
  /** What the schema belongs to, for error messages: `tool "refund"`. */
  of: string;
  /** The option that takes its JSON Schema, for error messages. */
  option: string;
  schema: StandardSchemaV1;
  given?: JsonObject | undefined;
};

/** The JSON Schema for the model: `given`, or the schema's own. `agent-invalid` if there is no object's. */
export function buildObjectSchema(described: DescribedSchema): JsonObject {
  const { of } = described;
  const objectSchema = buildSchema(described);
  if (objectSchema.type !== 'object') {
    throw new EngineError(
      'agent-invalid',
      `${of}: expected a schema with type "object" at the top level, got ${describeTop(objectSchema)}. ` +
        'Models write objects: wrap the value, for example z.object({ value: … }).',
    );
  }
  return objectSchema;
}

/** The JSON Schema of any value: `given`, or the schema's own. Throws `agent-invalid` if it has none. */
export function buildSchema(described: DescribedSchema): JsonObject {
  const built = described.given ?? convertSchema(described);
  const { $schema: _dialect, ...schema } = copySchema(described.of, built);
  return schema;
}

function convertSchema({ of, option, schema }: DescribedSchema): unknown {
  const converter = findConverter(schema);
  if (!converter) {
    throw new EngineError(
      'agent-invalid',
      `${of}: its schema (from "${schema['~standard'].vendor}") cannot be converted to JSON Schema. ` +
        adviceFor(schema, option),
    );
  }
  const failures: unknown[] = [];
  for (const target of TARGETS) {
    try {
      return converter.input({ target });
    } catch (error) {
      failures.push(error);
    }
  }
  throw new EngineError(
    'agent-invalid',
    `${of}: its schema cannot be converted to JSON Schema: ${messageOf(failures[0])}. ` +
      `Use types that JSON supports, or pass the JSON Schema as \`${option}\`.`,
    null,
    { cause: failures[0] },
  );
}

/** How to get a JSON Schema from a library whose schemas have none (https://standardschema.dev/json-schema). */
function adviceFor(schema: StandardSchemaV1, option: string): string {
  const { vendor } = schema['~standard'];
  if (vendor === 'valibot')
    return (
      'Run `npm install @valibot/to-json-schema` and wrap the schema: ' +
      '`toStandardJsonSchema(schema)`, imported from "@valibot/to-json-schema".'
    );
  if (vendor === 'zod' && '_zod' in schema)
    return `Pass \`${option}: z.toJSONSchema(schema)\`, or use \`z\` of "zod" 4.2 or newer, not of "zod/mini".`;
  if (vendor === 'zod') return `Use zod 4.2 or newer, or pass the JSON Schema as \`${option}\`.`;
  if (vendor === 'effect')
    return `Pass \`${option}: JSONSchema.make(schema)\`, with \`JSONSchema\` of "effect".`;
  return `Pass the JSON Schema as \`${option}\`.`;
}

function findConverter(schema: StandardSchemaV1): StandardJSONSchemaV1.Converter | undefined {
  const standard: StandardSchemaV1.Props & Partial<StandardJSONSchemaV1.Props> = schema['~standard'];
  return standard.jsonSchema;
}

function copySchema(of: string, schema: unknown): JsonObject {
  try {
    const copy = toJson(schema);
    if (isJsonObject(copy)) return copy;
  } catch (error) {
    throw new EngineError('agent-invalid', `${of}: its schema is not JSON: ${messageOf(error)}.`);
  }
  throw new EngineError('agent-invalid', `${of}: expected its JSON Schema to be an object.`);
}

function describeTop(schema: JsonObject): string {
  if (schema.type !== undefined) return `type ${JSON.stringify(schema.type)}`;
  const keywords = Object.keys(schema);
  return keywords.length === 0
    ? 'a schema without a type'
    : `a schema with ${keywords.join(', ')} and no type`;
}
