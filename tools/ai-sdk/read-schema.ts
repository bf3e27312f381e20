import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { createArgumentsCheck } from '../mcp/check-arguments.ts';

/** A schema as `jsonSchema()` and `zodSchema()` of the AI SDK make it. */
type AiSdkSchema = {
  readonly jsonSchema: unknown;
  readonly validate?: (value: unknown) => Validated | PromiseLike<Validated>;
};
type Validated = { success: true; value: unknown } | { success: false; error: Error };

/** Marks such schemas: https://github.com/vercel/ai/blob/main/packages/provider-utils/src/schema.ts */
const MARK = Symbol.for('vercel.ai.schema');

const NO_INPUT: JsonObject = { type: 'object', properties: {}, additionalProperties: false };

/**
 * Returns a schema of an AI SDK tool as a Standard Schema. A schema without a `validate` function, which the AI SDK does
 * not check, is checked by its JSON Schema. Throws an `EngineError` `agent-invalid` for anything else than a schema.
 */
export function readSchema(name: string, schema: unknown): StandardSchemaV1 {
  if (schema === undefined || schema === null) return readAiSdkSchema(name, { jsonSchema: NO_INPUT });
  if (isStandard(schema)) return schema;
  if (typeof schema === 'function') return readSchema(name, schema());
  if (typeof schema === 'object' && MARK in schema) return readAiSdkSchema(name, schema as never);
  throw invalid(
    name,
    'expected a Standard Schema or a schema of the AI SDK. For a plain JSON Schema, pass jsonSchema(schema).',
  );
}

function isStandard(schema: unknown): schema is StandardSchemaV1 {
  const hasMembers = (typeof schema === 'object' && schema !== null) || typeof schema === 'function';
  return hasMembers && '~standard' in schema;
}

function readAiSdkSchema(name: string, schema: AiSdkSchema): StandardSchemaV1 {
  const { jsonSchema } = schema;
  if (typeof (jsonSchema as PromiseLike<unknown> | undefined)?.then === 'function') {
    throw invalid(
      name,
      'its JSON Schema is a promise. Await it first: jsonSchema(await schema.jsonSchema, schema).',
    );
  }
  if (!isJsonObject(jsonSchema)) throw invalid(name, 'expected its JSON Schema to be an object.');
  const convert = () => jsonSchema;
  const standard: StandardSchemaV1.Props & StandardJSONSchemaV1.Props = {
    version: 1,
    vendor: 'ai-sdk',
    validate: schema.validate ? value => validate(schema, value) : checkBySchema(jsonSchema),
    jsonSchema: { input: convert, output: convert },
  };
  return { '~standard': standard };
}

async function validate(schema: AiSdkSchema, value: unknown): Promise<StandardSchemaV1.Result<unknown>> {
  const validated = await schema.validate?.(value);
  if (validated?.success) return { value: validated.value };
  return { issues: [{ message: messageOf(validated?.error) }] };
}

function checkBySchema(schema: JsonObject) {
  const check = createArgumentsCheck(schema);
  return async (value: unknown): Promise<StandardSchemaV1.Result<unknown>> => {
    const checked = await check(value as JsonValue);
    return checked.valid ? { value: checked.value } : { issues: [{ message: checked.message }] };
  };
}

function invalid(name: string, problem: string): EngineError {
  return new EngineError('agent-invalid', `tool "${name}": ${problem}`);
}
