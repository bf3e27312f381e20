import * as z from 'zod';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { asSentence } from '../../../protocol/options/refuse-unknown.ts';
import { fields } from '../../fields.ts';
import { invalid, type ResponsesError } from '../../responses/api-error.ts';

const MOST_MESSAGES = 10_000;
const MOST_TOOLS = 1_000;

const object = z.custom<JsonObject>(isJsonObject, 'expected an object');
const maybe = <Schema extends z.ZodType>(schema: Schema) => z.nullish(schema);

/** A content block. `message-input.ts` validates the fields of each type. */
export type Block = JsonObject & { type: string };

const block = z.custom<Block>(
  value => isJsonObject(value) && typeof value.type === 'string',
  'expected a content block, which is an object with a "type"',
);
const content = z.union([z.string(), z.array(block)], 'expected a string or a list of content blocks');
const textBlock = z.looseObject({ type: z.literal('text'), text: z.string() });

const message = z.looseObject({ role: z.enum(['user', 'assistant', 'system']), content });
export type Message = z.infer<typeof message>;

const clientTool = z.looseObject({
  type: maybe(z.string()),
  name: z.string().min(1).max(128),
  description: maybe(z.string()),
  input_schema: z.optional(object),
  strict: maybe(z.boolean()),
  allowed_domains: maybe(z.array(z.string().min(1)).max(100)),
  blocked_domains: maybe(z.array(z.string())),
  max_uses: maybe(z.int().positive()),
  user_location: maybe(object),
});

const isSingle = { disable_parallel_tool_use: maybe(z.boolean()) };
const toolChoice = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('auto'), ...isSingle }),
  z.looseObject({ type: z.literal('any'), ...isSingle }),
  z.looseObject({ type: z.literal('tool'), name: z.string(), ...isSingle }),
  z.looseObject({ type: z.literal('none') }),
]);

const display = { display: maybe(z.enum(['summarized', 'omitted'])) };
const thinking = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1_024), ...display }),
  z.looseObject({ type: z.literal('adaptive'), ...display }),
  z.looseObject({ type: z.literal('between_tools') }),
  z.looseObject({ type: z.literal('disabled') }),
]);

const format = z.looseObject({ type: z.literal('json_schema'), schema: object });

/** The parts of a request that its input tokens depend on. */
const prompt = {
  model: z.string().min(1),
  messages: z.array(message).min(1, 'at least one message is required').max(MOST_MESSAGES),
  system: maybe(z.union([z.string(), z.array(textBlock)], 'expected a string or a list of text blocks')),
  tools: maybe(z.array(clientTool).max(MOST_TOOLS)),
  tool_choice: maybe(toolChoice),
  thinking: maybe(thinking),
  cache_control: maybe(object),
  output_config: maybe(
    fields({
      effort: maybe(z.enum(['low', 'medium', 'high', 'xhigh', 'max'])),
      format: maybe(format),
    }),
  ),
  output_format: maybe(format),
};

const countBody = fields(prompt);

const createBody = fields({
  ...prompt,
  max_tokens: z.int().positive(),
  stream: maybe(z.boolean()),
  temperature: maybe(z.number().min(0).max(1)),
  top_p: maybe(z.number().min(0).max(1)),
  top_k: maybe(z.int().nonnegative()),
  stop_sequences: maybe(z.array(z.string().min(1)).max(8_191)),
  metadata: maybe(z.looseObject({ user_id: maybe(z.string().max(512)) })),
  service_tier: maybe(z.enum(['auto', 'standard_only'])),
});

/** A validated body of `POST /v1/messages/count_tokens`. */
export type CountBody = z.infer<typeof countBody>;
/** A validated body of `POST /v1/messages`. */
export type MessageBody = z.infer<typeof createBody>;

/**
 * The code of the refusal of `thread`. Anthropic's tool runner asks for a thread first, and sends the whole history when
 * it is refused with this code.
 */
export const NO_THREADS = 'thread_unsupported_request';

/** Validates a body of `POST /v1/messages`. Throws a `ResponsesError` with the path of the first problem. */
export function readMessageBody(value: unknown): MessageBody {
  if (isJsonObject(value) && value.thread != null)
    throw invalid('thread', NO_THREADS, 'thread: Threads are not supported. Send all messages.');
  return read(createBody, value);
}

/** Validates a body of `POST /v1/messages/count_tokens`. Throws like `readMessageBody`. */
export function readCountBody(value: unknown): CountBody {
  return read(countBody, value);
}

function read<Schema extends typeof createBody | typeof countBody>(
  schema: Schema,
  value: unknown,
): z.infer<Schema> {
  const parsed = schema.safeParse(withoutNulls(value));
  if (!parsed.success) throw describeIssue(parsed.error.issues[0]);
  const body = parsed.data as z.infer<Schema>;
  if (!body.messages.some(({ role }) => role !== 'system'))
    throw invalidAt('messages', 'at least one message is required');
  return body;
}

/** A field that is `null` counts as absent, also one that this server does not know. */
function withoutNulls(value: unknown): unknown {
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}

/** A content block and its path in the request. */
export type PlacedBlock = { block: Block; path: string };

/** The blocks of the message at a path such as `messages.3`. A text counts as one block. */
export function blocksOf({ content }: Message, place: string): PlacedBlock[] {
  if (typeof content === 'string')
    return [{ block: { type: 'text', text: content }, path: `${place}.content` }];
  return content.map((block, at) => ({ block, path: `${place}.content.${at}` }));
}

/** A 400 error about the field at a path such as `messages.3.content.0`, in the words of Anthropic's API. */
export function invalidAt(path: string, problem: string): ResponsesError {
  return invalid(path, 'invalid_value', `${path}: ${problem}`);
}

function describeIssue(issue: z.core.$ZodIssue | undefined): ResponsesError {
  const path = (issue?.path ?? []).map(String);
  if (issue?.code === 'unrecognized_keys')
    return invalidAt([...path, issue.keys[0] ?? ''].join('.'), asSentence(issue.message));
  const problem = (issue?.message ?? 'invalid').replace(/^Invalid input: /, '');
  if (issue?.code === 'invalid_type' && issue.input === undefined && problem.endsWith('received undefined'))
    return invalidAt(path.join('.'), 'Field required');
  return path.length === 0
    ? invalid(null, 'invalid_value', `The body: ${problem}`)
    : invalidAt(path.join('.'), problem);
}
