import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { EngineError, messageOf } from '../protocol/error.ts';
import { isJsonObject, type JsonObject, toJson } from '../protocol/json.ts';

const TARGETS = ['draft-2020-12', 'draft-07'] as const;

/**
 * The JSON Schema a model is given for `tool`'s input: `given` when there is one, else what the schema
 * itself gives (Standard JSON Schema), without `$schema`. Its top is `type: "object"`.
 * Throws an `EngineError` `agent-invalid` that says what to do when there is none, or it is no object.
 */
export function buildInputSchema(tool: string, schema: StandardSchemaV1, given?: JsonObject): JsonObject {
  const built = given ?? convertSchema(tool, schema);
  const { $schema: _dialect, ...inputSchema } = copySchema(tool, built);
  if (inputSchema.type !== 'object') {
    throw new EngineError(
      'agent-invalid',
      `tool "${tool}": expected an input schema with type "object" at its top, got ${describeTop(inputSchema)}. ` +
        'Models send named arguments: wrap the input in an object, such as z.object({ value: … }).',
    );
  }
  return inputSchema;
}

function convertSchema(tool: string, schema: StandardSchemaV1): unknown {
  const converter = findConverter(schema);
  if (!converter) {
    throw new EngineError(
      'agent-invalid',
      `tool "${tool}": its input schema (of "${schema['~standard'].vendor}") cannot describe itself as JSON Schema. ` +
        'Give the JSON Schema as `inputSchema`.',
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
    `tool "${tool}": its input schema has no JSON Schema: ${messageOf(failures[0])}. ` +
      'Use types that JSON can carry, or give the JSON Schema as `inputSchema`.',
    null,
    { cause: failures[0] },
  );
}

function findConverter(schema: StandardSchemaV1): StandardJSONSchemaV1.Converter | undefined {
  const standard: StandardSchemaV1.Props & Partial<StandardJSONSchemaV1.Props> = schema['~standard'];
  return standard.jsonSchema;
}

function copySchema(tool: string, schema: unknown): JsonObject {
  try {
    const copy = toJson(schema);
    if (isJsonObject(copy)) return copy;
  } catch (error) {
    throw new EngineError(
      'agent-invalid',
      `tool "${tool}": its input schema is not JSON: ${messageOf(error)}.`,
    );
  }
  throw new EngineError('agent-invalid', `tool "${tool}": expected its JSON Schema to be an object.`);
}

function describeTop(schema: JsonObject): string {
  if (schema.type !== undefined) return `type ${JSON.stringify(schema.type)}`;
  const keywords = Object.keys(schema);
  return keywords.length === 0 ? 'a schema without a type' : `one with ${keywords.join(', ')} and no type`;
}
