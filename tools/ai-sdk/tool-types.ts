// tools/ai-sdk: tools of the Vercel AI SDK as tools of an agent.

import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { createArgumentsCheck } from '../../protocol/schemas/check-json.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { AsResult } from '../tool.ts';

export type ConvertedTool<Name extends string, Given> = Tool<
  Name,
  ValueOf<Member<Given, 'inputSchema'>>,
  ResultOf<Given>,
  ContextOf<Given>
>;

type Member<Given, Name extends string> = Given extends { [Key in Name]?: infer Value }
  ? Exclude<Value, undefined>
  : never;

/** The type that a schema validates: of a Standard Schema, of a schema of the AI SDK, or of a function that returns one. */
type ValueOf<Schema> = [Schema] extends [never] ? unknown : ValueOfEach<Schema>;
type ValueOfEach<Schema> = Schema extends { readonly _type: infer Value }
  ? Value
  : Schema extends { readonly '~standard': { readonly types?: { readonly output: infer Value } | undefined } }
    ? Value
    : Schema extends () => { readonly _type: infer Value }
      ? Value
      : unknown;

/** A tool made by `tool()` of `ai` may have a `toModelOutput`; its result is then what the model reads. */
type ResultOf<Given> =
  | AsResult<ReturnOf<Given>>
  | ('toModelOutput' extends keyof Given ? ModelContent<AsResult<ReturnOf<Given>>> : never);

type ModelContent<Data> = { type: 'content'; parts: Part[]; data?: Data };

type ReturnOf<Given> = [Member<Given, 'execute'>] extends [never]
  ? ValueOf<Member<Given, 'outputSchema'>>
  : Member<Given, 'execute'> extends (input: never, options: never) => infer Returned
    ? EachOf<Returned>
    : unknown;

type EachOf<Returned> =
  Returned extends AsyncIterable<infer Value>
    ? Value
    : Returned extends PromiseLike<infer Value>
      ? Value
      : Returned;

/** A tool without a `contextSchema` takes any context. */
type ContextOf<Given> = string extends keyof ValueOf<Member<Given, 'contextSchema'>>
  ? unknown
  : ValueOf<Member<Given, 'contextSchema'>>;

/** A schema as `jsonSchema()` and `zodSchema()` of the AI SDK make it. */
type AiSdkSchema = {
  readonly jsonSchema: unknown;
  readonly validate?: (value: unknown) => Validated | PromiseLike<Validated>;
};
type Validated = { success: true; value: unknown } | { success: false; error: Error };

/** Marks such schemas: https://github.com/vercel/ai/blob/main/packages/provider-utils/src/schema.ts */
const MARK = Symbol.for('vercel.ai.schema');

const NO_INPUT: JsonObject = { type: 'object', properties: {}, additionalProperties: false };

/** An AI SDK schema as a Standard Schema, checked by its JSON Schema if it has no `validate`. */
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
