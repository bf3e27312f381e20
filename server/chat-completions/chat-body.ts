import * as z from 'zod';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import { invalid } from '../responses/api-error.ts';
import { describeIssue } from '../responses/request/describe-issue.ts';

const MOST_MESSAGES = 10_000;

const object = z.custom<JsonObject>(isJsonObject, 'expected an object');
const maybe = <Schema extends z.ZodType>(schema: Schema) => z.nullish(schema);

const text = z.object({ type: z.literal('text'), text: z.string() });
const refusal = z.object({ type: z.literal('refusal'), refusal: z.string() });
const url = z.string().regex(/^(https?:|data:)/i, 'expected an http, https or data URL');
const image = z.object({
  type: z.literal('image_url'),
  image_url: z.object({ url, detail: maybe(z.string()) }),
});
const file = z.object({
  type: z.literal('file'),
  file: z.object(
    {
      file_id: maybe(z.never('file ids are not supported, send "file_data"')),
      file_data: url,
      filename: maybe(z.string()),
    },
    'expected an object',
  ),
});

/** A list of parts; a string becomes one text part. */
function contentOf<Part extends z.ZodType>(part: Part) {
  const asParts = (value: unknown) => (typeof value === 'string' ? [{ type: 'text', text: value }] : value);
  return z.preprocess(asParts, z.array(part, 'expected a string or a list of parts').max(MOST_MESSAGES));
}

const texts = contentOf(z.discriminatedUnion('type', [text], 'expected a "text" part'));
const id = z.string().min(1, 'expected a non-empty string');
const FUNCTION_OR_CUSTOM = 'expected "function" or "custom"';

/** A call; without a type it is a function's. */
const toolCall = z.preprocess(
  value => (isJsonObject(value) && value.type === undefined ? { ...value, type: 'function' } : value),
  z.discriminatedUnion(
    'type',
    [
      z.object({
        id,
        type: z.literal('function'),
        function: z.object({ name: z.string(), arguments: z._default(z.string(), '') }),
      }),
      z.object({ id, type: z.literal('custom'), custom: z.object({ name: z.string(), input: z.string() }) }),
    ],
    FUNCTION_OR_CUSTOM,
  ),
);
export type ChatToolCall = z.infer<typeof toolCall>;

const message = z.discriminatedUnion(
  'role',
  [
    z.object({ role: z.literal('system'), content: texts }),
    z.object({ role: z.literal('developer'), content: texts }),
    z.object({
      role: z.literal('user'),
      content: contentOf(
        z.discriminatedUnion('type', [text, image, file], 'expected a "text", "image_url" or "file" part'),
      ),
    }),
    z.object({
      role: z.literal('assistant'),
      content: maybe(
        contentOf(z.discriminatedUnion('type', [text, refusal], 'expected a "text" or "refusal" part')),
      ),
      refusal: maybe(z.string()),
      tool_calls: maybe(z.array(toolCall)),
      function_call: maybe(z.never('it is deprecated, send "tool_calls"')),
      audio: maybe(z.never('audio is not supported')),
    }),
    z.object({ role: z.literal('tool'), tool_call_id: z.string().min(1), content: texts }),
  ],
  {
    error: ({ input }) =>
      isJsonObject(input) && input.role === 'function'
        ? 'the role "function" is deprecated, send the role "tool" with a "tool_call_id"'
        : 'expected "system", "developer", "user", "assistant" or "tool"',
  },
);
export type ChatMessage = z.infer<typeof message>;

const tool = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('function'), function: object }),
    z.object({ type: z.literal('custom'), custom: object }),
  ],
  FUNCTION_OR_CUSTOM,
);
export type ChatTool = z.infer<typeof tool>;

const withName = z.object({ name: z.string() });
const named = z.discriminatedUnion('type', [
  z.object({ type: z.literal('function'), function: withName }),
  z.object({ type: z.literal('custom'), custom: withName }),
]);
const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    named,
    z.object({
      type: z.literal('allowed_tools'),
      allowed_tools: z.object({ mode: z.enum(['auto', 'required']), tools: z.array(named) }),
    }),
  ],
  'expected "none", "auto", "required", or a function, custom or allowed_tools choice',
);
export type ChatToolChoice = z.infer<typeof toolChoice>;

const responseFormat = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({
      type: z.literal('json_schema'),
      json_schema: z.object({
        name: z.string().min(1),
        schema: object,
        description: maybe(z.string()),
        strict: maybe(z.boolean()),
      }),
    }),
  ],
  'expected "text", "json_object" or "json_schema"',
);

/** The fields that are the same in the Responses API, which validates them. */
const SAME_FIELDS = [
  'model',
  'parallel_tool_calls',
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'metadata',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'user',
] as const;

/** One to four texts. An empty list is the same as none. */
const stop = z
  .union(
    [z.string().min(1), z.array(z.string().min(1)).max(4)],
    'expected a text, or a list of up to 4 texts',
  )
  .transform(texts => (texts.length === 0 ? null : [texts].flat()));

const bias = z
  .record(z.string(), z.number())
  .transform(tokens => (Object.keys(tokens).length === 0 ? null : tokens));

const LIST_OF_MESSAGES = 'expected a list of at least one message';

const chatBody = z.looseObject({
  messages: z.array(message, LIST_OF_MESSAGES).min(1, LIST_OF_MESSAGES).max(MOST_MESSAGES),
  tools: maybe(z.array(tool)),
  tool_choice: maybe(toolChoice),
  response_format: maybe(responseFormat),
  max_tokens: maybe(z.number()),
  max_completion_tokens: maybe(z.number()),
  reasoning_effort: maybe(z.string()),
  verbosity: maybe(z.string()),
  web_search_options: maybe(
    z.object({
      search_context_size: maybe(z.string()),
      user_location: maybe(z.object({ approximate: object })),
    }),
  ),
  stop: maybe(stop),
  seed: maybe(z.int()),
  logit_bias: maybe(bias),
  store: maybe(z.boolean()),
  stream: maybe(z.boolean()),
  stream_options: maybe(z.looseObject({ include_usage: maybe(z.boolean()) })),
});

/** A validated request. `same` has the fields that a request of the Responses API has too. */
export type ChatBody = z.infer<typeof chatBody> & { same: JsonObject };

/**
 * OpenAI's parameters that this server refuses, because ignoring them would change the result, with the values that have
 * no effect.
 */
const UNSUPPORTED: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: value => value === 1,
  logprobs: value => value === false,
  top_logprobs: value => value === 0,
  modalities: value => Array.isArray(value) && value.every(kind => kind === 'text'),
  audio: () => false,
  moderation: () => false,
  functions: () => false,
  function_call: () => false,
};

const INSTEAD: Readonly<Record<string, string>> = {
  functions: ' It is deprecated: send "tools".',
  function_call: ' It is deprecated: send "tool_choice".',
};

/**
 * Validates the body of `POST /v1/chat/completions`. Throws a `ResponsesError` with the path of the first problem. Fields
 * that OpenAI does not define, and hints that do not change the result (`prediction`), are ignored.
 */
export function readChatBody(value: unknown): ChatBody {
  const parsed = chatBody.safeParse(value);
  const [issue] = parsed.error?.issues ?? [];
  if (issue !== undefined && !isGiven(value, issue.path)) throw missing(describeIssue(issue).param);
  if (!parsed.success) throw describeIssue(issue);
  const body = parsed.data;
  for (const [field, hasNoEffect] of Object.entries(UNSUPPORTED)) {
    if (body[field] == null || hasNoEffect(body[field])) continue;
    throw invalid(field, 'unsupported_parameter', `"${field}" is not supported.${INSTEAD[field] ?? ''}`);
  }
  const same = SAME_FIELDS.flatMap(field => (body[field] == null ? [] : [[field, body[field]]]));
  return { ...body, same: Object.fromEntries(same) };
}

function isGiven(value: unknown, path: readonly PropertyKey[]): boolean {
  let at = value;
  for (const key of path) at = (at as Record<PropertyKey, unknown> | undefined)?.[key];
  return at !== undefined;
}

function missing(param: string | null) {
  return invalid(param, 'missing_required_parameter', `Missing required parameter: '${param}'.`);
}
