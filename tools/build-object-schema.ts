import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { EngineError, messageOf } from '../protocol/error.ts';
import { isJsonObject, type JsonObject, toJson } from '../protocol/json.ts';

const TARGETS = ['draft-2020-12', 'draft-07'] as const;

/** A schema of what a model is to write. `of` and `option` name it, and the option for its JSON Schema, in errors. */
export type DescribedSchema = { of: string; option: string; schema: StandardSchemaV1; given?: JsonObject };

/**
 * The JSON Schema a model is given for an object: `given` when there is one, else what the schema itself
 * gives (Standard JSON Schema), without `$schema`. Its top is `type: "object"`.
 * Throws an `EngineError` `agent-invalid` that says what to do when there is none, or it is no object.
 */
export function buildObjectSchema(described: DescribedSchema): JsonObject {
  const { of } = described;
  const built = described.given ?? convertSchema(described);
  const { $schema: _dialect, ...objectSchema } = copySchema(of, built);
  if (objectSchema.type !== 'object') {
    throw new EngineError(
      'agent-invalid',
      `${of}: expected a schema with type "object" at its top, got ${describeTop(objectSchema)}. ` +
        'Models write objects: wrap the value in one, such as z.object({ value: … }).',
    );
  }
  return objectSchema;
}

function convertSchema({ of, option, schema }: DescribedSchema): unknown {
  const converter = findConverter(schema);
  if (!converter) {
    throw new EngineError(
      'agent-invalid',
      `${of}: its schema (of "${schema['~standard'].vendor}") cannot describe itself as JSON Schema. ` +
        `Give the JSON Schema as \`${option}\`.`,
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
    `${of}: its schema has no JSON Schema: ${messageOf(failures[0])}. ` +
      `Use types that JSON can carry, or give the JSON Schema as \`${option}\`.`,
    null,
    { cause: failures[0] },
  );
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
  return keywords.length === 0 ? 'a schema without a type' : `one with ${keywords.join(', ')} and no type`;
}
