import * as z from 'zod';
import type { Part } from '../../protocol/item.ts';
import { isJsonObject, omitNull } from '../../protocol/json.ts';
import { oncePer } from '../../protocol/once-per.ts';
import { maybe, object, orText, readGiven } from '../fields.ts';
import {
  assertContent,
  customCall,
  type GatewayRequest,
  type SentItem,
  sent,
} from '../gateway/request/gateway-request.ts';
import { KnownMessages } from '../gateway/request/known-bodies.ts';
import {
  assertTools,
  type ChosenTool,
  MOST_TOOLS,
  type RequestTool,
  type RequestToolChoice,
  readTool,
  type ToolNames,
} from '../gateway/request/request-tools.ts';
import {
  detail,
  readShared,
  samplingOptions,
  sharedParameters,
  takesNoEffort,
  tokens,
} from '../gateway/request/shared-parameters.ts';
import { describeIssue, invalid, missing } from '../openai-error.ts';

const MOST_MESSAGES = 10_000;

const text = z
  .object({ type: z.literal('text'), text: z.string() })
  .transform(({ text }): Part => ({ type: 'text', text }));
const refusal = z
  .object({ type: z.literal('refusal'), refusal: z.string() })
  .transform(({ refusal }): Part => ({ type: 'text', text: refusal }));
const url = z.string().regex(/^(https?:|data:)/i, 'expected an http, https or data URL');
const image = z
  .object({ type: z.literal('image_url'), image_url: z.object({ url, detail }) })
  .transform(({ image_url: { url, detail } }): Part => ({ type: 'image', url, ...omitNull({ detail }) }));
const file = z
  .object({
    type: z.literal('file'),
    file: z.object(
      {
        file_id: maybe(z.never('file ids are not supported, send "file_data"')),
        file_data: url,
        filename: maybe(z.string()),
      },
      'expected an object',
    ),
  })
  .transform(
    ({ file: { file_data: url, filename: name } }): Part => ({ type: 'file', url, ...omitNull({ name }) }),
  );

const contentOf = <Part extends z.ZodType>(part: Part) =>
  orText(z.array(part, 'expected a string or a list of parts').max(MOST_MESSAGES));

const texts = contentOf(z.discriminatedUnion('type', [text], 'expected a "text" part'));
const notEmpty = z.string().min(1, 'expected a non-empty string');
const FUNCTION_OR_CUSTOM = 'expected "function" or "custom"';

const toolCall = z.preprocess(
  value => (isJsonObject(value) && value.type === undefined ? { ...value, type: 'function' } : value),
  z.discriminatedUnion(
    'type',
    [
      z.object({
        id: notEmpty,
        type: z.literal('function'),
        function: z.object({ name: notEmpty, arguments: z._default(z.string(), '') }),
      }),
      z.object({
        id: notEmpty,
        type: z.literal('custom'),
        custom: z.object({ name: notEmpty, input: z.string() }),
      }),
    ],
    FUNCTION_OR_CUSTOM,
  ),
);
type ChatToolCall = z.infer<typeof toolCall>;

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
type ChatMessage = z.infer<typeof message>;

const tool = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('function'), function: object }),
    z.object({ type: z.literal('custom'), custom: object }),
  ],
  FUNCTION_OR_CUSTOM,
);
type ChatTool = z.infer<typeof tool>;

const withName = z.object({ name: z.string() });
const chosen = z.discriminatedUnion('type', [
  z
    .object({ type: z.literal('function'), function: withName })
    .transform(({ type, function: { name } }): ChosenTool => ({ type, name })),
  z
    .object({ type: z.literal('custom'), custom: withName })
    .transform(({ type, custom: { name } }): ChosenTool => ({ type, name })),
]);
const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    chosen,
    z
      .object({
        type: z.literal('allowed_tools'),
        allowed_tools: z.object({
          mode: z.enum(['auto', 'required']),
          tools: z.array(chosen).max(MOST_TOOLS),
        }),
      })
      .transform(({ type, allowed_tools }): RequestToolChoice => ({ type, ...allowed_tools })),
  ],
  'expected "none", "auto", "required", or a function, custom or allowed_tools choice',
);

const responseFormat = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z
      .object({
        type: z.literal('json_schema'),
        json_schema: z.object({
          name: z.string().min(1),
          schema: object,
          description: maybe(z.string()).default(null),
          strict: maybe(z.boolean()).default(null),
        }),
      })
      .transform(({ type, json_schema }) => ({ type, ...json_schema })),
  ],
  'expected "text", "json_object" or "json_schema"',
);

const stop = z
  .union(
    [z.string().min(1), z.array(z.string().min(1)).max(4)],
    'expected a text, or a list of up to 4 texts',
  )
  .transform(texts => (texts.length === 0 ? null : [texts].flat()));

const bias = z
  .record(z.string(), z.number())
  .transform(tokens => (Object.keys(tokens).length === 0 ? null : tokens));

/** How clients of other providers of this API turn thinking on and off. */
const thinkingOptions = {
  reasoning: maybe(z.object({ effort: maybe(z.string()), enabled: maybe(z.boolean()) })),
  thinking: maybe(
    z.union(
      [z.string(), z.object({ type: maybe(z.string()) })],
      'expected { "type": "enabled" }, { "type": "disabled" } or an effort',
    ),
  ),
  enable_thinking: maybe(z.boolean()),
  chat_template_kwargs: maybe(
    z.object({
      enable_thinking: maybe(z.boolean()),
      thinking: maybe(z.boolean()),
      reasoning_effort: maybe(z.string()),
    }),
  ),
};

const LIST_OF_MESSAGES = 'expected a list of at least one message';

export const chatBody = z.object({
  messages: z.array(message, LIST_OF_MESSAGES).min(1, LIST_OF_MESSAGES).max(MOST_MESSAGES),
  tools: maybe(z.array(tool).max(MOST_TOOLS)),
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
  top_k: maybe(z.int().nonnegative()),
  ...thinkingOptions,
  stream_options: maybe(z.object({ include_usage: maybe(z.boolean()) })),
  ...sharedParameters,
});

type Parsed = z.infer<typeof chatBody>;

const known = new KnownMessages<Parsed>(readGiven(chatBody), MOST_MESSAGES);

/**
 * Throws a `ResponsesError` with the path of the first problem. The response is stored unless the client sends
 * `store: false`, so that its run survives the process.
 */
export function readChatRequest(
  value: unknown,
  providerOf: (model: string | undefined) => string,
): { request: GatewayRequest; includeUsage: boolean } {
  const body = readBody(value);
  const { settings, openai, ...shared } = readShared(body);
  const messages = readMessages(body.messages);
  const tools = [...(body.tools ?? []).map(readChatTool), ...webSearchOf(body)];
  const { stop, seed, logit_bias, top_k, tool_choice: toolChoice } = body;
  const tool: ToolNames = (at, member) => {
    const type = body.tools?.[at]?.type;
    return type === undefined ? 'web_search_options' : `tools[${at}].${type}.${member}`;
  };
  assertTools(tools, toolChoice, tool);
  const request = {
    ...shared,
    ...messages,
    ...omitNull({ toolChoice }),
    providerOptions: samplingOptions({ stop, seed, logit_bias, top_k }, providerOf(shared.model), name =>
      invalid(name, 'unsupported_parameter', `'${name}' is not supported for this model.`),
    ),
    tools,
    settings: {
      ...settings,
      ...omitNull({
        maxOutputTokens: limitOf(body),
        reasoningEffort: effortOf(body, () => providerOf(shared.model)),
      }),
    },
    openai,
    text: { format: body.response_format ?? { type: 'text' as const }, verbosity: body.verbosity ?? null },
    store: body.store !== false,
    api: 'chat-completions' as const,
    names: { input: 'messages', tool },
  };
  return { request, includeUsage: body.stream_options?.include_usage === true };
}

function readBody(value: unknown): Parsed {
  const parsed = known.safeParse(value);
  const [issue] = parsed.error?.issues ?? [];
  if (issue !== undefined && !isGiven(value, issue.path)) throw missing(describeIssue(issue).param);
  if (!parsed.success) throw describeIssue(issue);
  return parsed.data;
}

function isGiven(value: unknown, path: readonly PropertyKey[]): boolean {
  let at = value;
  for (const key of path) at = (at as Record<PropertyKey, unknown> | undefined)?.[key];
  return at !== undefined;
}

function readChatTool(tool: ChatTool, at: number): RequestTool {
  const place = `tools[${at}].${tool.type}`;
  if (tool.type === 'function') return readTool({ ...tool.function, type: 'function' }, place);
  const { format, ...custom } = tool.custom;
  const { grammar } = isJsonObject(format) ? format : {};
  const flat = isJsonObject(grammar) ? { ...grammar, type: 'grammar' } : (format ?? null);
  return readTool({ ...custom, format: flat, type: 'custom' }, place);
}

function webSearchOf({ web_search_options: options }: Parsed): RequestTool[] {
  if (options == null) return [];
  const { search_context_size = null, user_location: place } = options;
  const location = place == null ? null : { ...place.approximate, type: 'approximate' };
  return [
    readTool({ type: 'web_search', search_context_size, user_location: location }, 'web_search_options'),
  ];
}

function effortOf(body: Parsed, providerOf: () => string): string | undefined {
  const { reasoning_effort, reasoning, thinking, enable_thinking, chat_template_kwargs: template } = body;
  const named = reasoning_effort ?? reasoning?.effort ?? template?.reasoning_effort;
  const effort = named ?? (typeof thinking === 'string' ? thinking : undefined);
  if (effort !== undefined) return effort;
  const isOff =
    [reasoning?.enabled, enable_thinking, template?.enable_thinking, template?.thinking].includes(false) ||
    (typeof thinking === 'object' && thinking?.type === 'disabled');
  return isOff && takesNoEffort(providerOf()) ? 'none' : undefined;
}

const limit = tokens.nullish();

/** The limit that counts has to be valid. */
function limitOf(body: Parsed): number | null | undefined {
  const name = body.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens';
  const parsed = limit.safeParse(body[name]);
  if (!parsed.success) throw describeIssue(parsed.error.issues[0], name);
  return parsed.data;
}

/** Throws a `ResponsesError` unless every call is directly followed by its result, as OpenAI requires. */
function readMessages(messages: readonly ChatMessage[]): Pick<GatewayRequest, 'input' | 'answered'> {
  const calls = new OpenCalls();
  const read = messages.map((message, at) => readMessage(message, at, calls));
  calls.assertNone();
  const last = messages.findLastIndex(({ role }) => role === 'assistant');
  if (last === -1) return { input: read.flat() };
  const from = read.slice(0, last).flat().length;
  return { input: read.flat(), answered: { from, to: from + (read[last]?.length ?? 0) } };
}

function readMessage(message: ChatMessage, at: number, calls: OpenCalls): SentItem[] {
  const place = `messages[${at}]`;
  if (message.role === 'tool') {
    const [result] = itemsOf(message);
    return result === undefined ? [] : [withCallId(result, calls.close(message.tool_call_id, place))];
  }
  calls.assertNone();
  if (message.role !== 'assistant') {
    assertContent(message, place);
    return itemsOf(message);
  }
  const { content, refusal, tool_calls } = message;
  if (content == null && refusal == null && !tool_calls?.length) throw missing(`${place}.content`);
  return itemsOf(message).map(item => {
    const [made] = item.items;
    return made?.type === 'tool_call' ? withCallId(item, calls.open(made.callId, place)) : item;
  });
}

/** With the ids that the client gave to calls. */
const itemsOf = oncePer((message: ChatMessage): SentItem[] => {
  if (message.role === 'tool') {
    const { tool_call_id: callId, content } = message;
    return [sent({ type: 'tool_result', callId, output: joinTexts(content), isError: false })];
  }
  if (message.role !== 'assistant')
    return [sent({ type: 'message', role: message.role, content: message.content })];
  const { content, refusal, tool_calls } = message;
  const made = (tool_calls ?? []).map(readCall);
  const text = joinTexts(content ?? []) + (refusal ?? '');
  if (text === '') return made;
  return [sent({ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }), ...made];
});

function withCallId(item: SentItem, callId: string): SentItem {
  const items = item.items.map(made =>
    'callId' in made && made.callId !== callId ? { ...made, callId } : made,
  );
  return items.every((made, at) => made === item.items[at]) ? item : { ...item, items };
}

function joinTexts(parts: readonly Part[]): string {
  return parts.map(part => (part.type === 'text' ? part.text : '')).join('');
}

function readCall(call: ChatToolCall): SentItem {
  const { id: callId } = call;
  if (call.type === 'custom') return customCall({ callId, ...call.custom });
  const { name, arguments: written } = call.function;
  return sent({ type: 'tool_call', callId, name, arguments: written });
}

/** Clients may use an id again in a later message; the ids of a transcript are unique, so repeated ones get a suffix. */
class OpenCalls {
  readonly #taken = new Set<string>();
  readonly #open = new Map<string, string>();
  #place = '';

  /** Returns the id in the transcript of a call of the message at `place`. */
  open(id: string, place: string): string {
    this.#place = place;
    if (this.#open.has(id))
      throw invalid(`${place}.tool_calls`, 'invalid_value', `Two calls have the id ${id}.`);
    let unique = id;
    for (let again = 2; this.#taken.has(unique); again += 1) unique = `${id}_${again}`;
    this.#taken.add(unique);
    this.#open.set(id, unique);
    return unique;
  }

  close(id: string, place: string): string {
    const callId = this.#open.get(id);
    this.#open.delete(id);
    if (callId !== undefined) return callId;
    const message = `'${place}' must answer a call of the assistant message before it: no call has the id ${id}.`;
    throw invalid(`${place}.tool_call_id`, 'tool_call_not_found', message);
  }

  assertNone(): void {
    if (this.#open.size === 0) return;
    const param = `${this.#place}.tool_calls`;
    const ids = [...this.#open.keys()].join(', ');
    const message = `'${param}' must be followed by a tool message for each call. There is none for: ${ids}.`;
    throw invalid(param, 'tool_output_missing', message);
  }
}
