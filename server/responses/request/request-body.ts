import * as z from 'zod';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { invalid } from '../api-error.ts';
import { describeIssue } from './describe-issue.ts';
import { assertChoice, readTools } from './request-tools.ts';
import { MOST_TOOLS, type RequestTool, toolChoice } from './tool-schemas.ts';

const object = z.custom<JsonObject>(isJsonObject, 'expected an object');
const maybe = <Schema extends z.ZodType>(schema: Schema) => z.nullish(schema);

const format = z.union(
  [
    z.looseObject({ type: z.literal('text') }),
    z.looseObject({ type: z.literal('json_object') }),
    z.looseObject({
      type: z.literal('json_schema'),
      name: z.string().min(1),
      schema: object,
      description: maybe(z.string()),
      strict: maybe(z.boolean()),
    }),
  ],
  'expected { "type": "text" }, { "type": "json_object" } or { "type": "json_schema", "name", "schema" }',
);

/** An input item. `ItemReader` validates the fields of each type. */
export type WireItem = JsonObject & { type?: JsonValue };

const createBody = z.object({
  model: maybe(z.string().min(1)),
  input: z.optional(
    z.union([z.string(), z.array(z.unknown())], 'expected a string or a list of input items'),
  ),
  instructions: maybe(z.string()),
  stream: maybe(z.boolean()),
  store: maybe(z.boolean()),
  previous_response_id: maybe(z.string()),
  tools: maybe(z.array(z.looseObject({ type: z.string() })).max(MOST_TOOLS)),
  tool_choice: maybe(toolChoice),
  parallel_tool_calls: maybe(z.boolean()),
  max_tool_calls: maybe(z.number().int().nonnegative()),
  max_output_tokens: maybe(z.number().int().positive()),
  temperature: maybe(z.number().min(0).max(2)),
  top_p: maybe(z.number().min(0).max(1)),
  presence_penalty: maybe(z.number()),
  frequency_penalty: maybe(z.number()),
  top_logprobs: maybe(z.number().int().min(0).max(20)),
  text: maybe(z.looseObject({ format: maybe(format), verbosity: maybe(z.string()) })),
  reasoning: maybe(z.looseObject({ effort: maybe(z.string()), summary: maybe(z.string()) })),
  include: maybe(z.array(z.string())),
  context_management: maybe(
    z
      .array(
        z.object({
          type: z.literal('compaction'),
          compact_threshold: z.exactOptional(z.nullable(z.number().int().positive())),
        }),
      )
      .max(10),
  ),
  metadata: maybe(z.record(z.string().max(64), z.string().max(512))),
  truncation: maybe(z.enum(['auto', 'disabled'])),
  service_tier: maybe(z.string()),
  safety_identifier: maybe(z.string()),
  prompt_cache_key: maybe(z.string()),
  user: maybe(z.string()),
  background: maybe(z.boolean()),
  conversation: maybe(z.union([z.string().min(1), z.looseObject({ id: z.string().min(1) })])),
  prompt: z.optional(z.unknown()),
});

type Parsed = z.infer<typeof createBody>;

/** A validated request for a response. Unknown fields are ignored. */
export type CreateBody = Omit<Parsed, 'conversation' | 'tools' | 'input'> & {
  /** The id of the conversation. */
  conversation?: string;
  input: readonly WireItem[];
  tools: readonly RequestTool[];
};

/** OpenAI's parameters that this server refuses, because ignoring them would change the result. */
const UNSUPPORTED = ['prompt'] as const;

/** OpenAI's values of `include`. Those about built-in tools have no effect, because there are no such tools here. */
const INCLUDABLE: readonly string[] = [
  'reasoning.encrypted_content',
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'web_search_call.action.sources',
  'web_search_call.results',
];

/** Validates a request body. Throws a `ResponsesError` with the path of the first problem. */
export function readCreateBody(value: unknown): CreateBody {
  const parsed = createBody.safeParse(value);
  if (!parsed.success) throw describeIssue(parsed.error.issues[0]);
  const body = parsed.data;
  for (const field of UNSUPPORTED) {
    if (body[field] != null) throw invalid(field, 'unsupported_parameter', `"${field}" is not supported.`);
  }
  if (body.background === true && body.store === false)
    throw invalid('background', 'background_requires_store', "'background' requires 'store' to be true.");
  const conversation = idOf(body.conversation);
  if (conversation !== undefined && body.previous_response_id != null)
    throw invalid(
      null,
      'mutually_exclusive_parameters',
      "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or 'conversation'.",
    );
  assertIncludable(body.include ?? []);
  const tools = readTools(body.tools ?? []);
  assertChoice(body.tool_choice, tools);
  const { conversation: _, input, ...rest } = body;
  return { ...rest, tools, input: readInput(input), ...omitUndefined({ conversation }) };
}

function idOf(conversation: Parsed['conversation']): string | undefined {
  return (typeof conversation === 'object' ? conversation?.id : conversation) ?? undefined;
}

function readInput(input: Parsed['input']): WireItem[] {
  if (input === undefined) return [];
  if (input === '')
    throw invalid('input', 'input_text_empty', "'input' is empty. Send a text or a list of items.");
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return readWireItems(input, 'input');
}

/** The items of the list `field`. Throws a `ResponsesError` for an invalid item. */
export function readWireItems(items: readonly unknown[], field: string): WireItem[] {
  return items.map((item, at) => {
    if (isJsonObject(item) && ('type' in item || 'role' in item || 'id' in item)) return item;
    const place = `${field}[${at}]`;
    if (!isJsonObject(item))
      throw invalid(place, 'invalid_value', `'${place}' is not valid: expected an object.`);
    const param = `${place}.type`;
    throw invalid(param, 'missing_required_parameter', `Missing required parameter: '${param}'.`);
  });
}

function assertIncludable(include: readonly string[]): void {
  for (const [at, value] of include.entries()) {
    if (INCLUDABLE.includes(value)) continue;
    const known = value === 'message.output_text.logprobs';
    throw invalid(
      `include[${at}]`,
      known ? 'unsupported_parameter' : 'invalid_value',
      known
        ? 'Log probabilities are not supported.'
        : `'include[${at}]' is not valid: expected ${INCLUDABLE.join(', ')}.`,
    );
  }
}
