import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { ResponsesError } from '../responses/api-error.ts';
import type { ChatBody, ChatToolChoice } from './chat-body.ts';
import type { MessageInput } from './chat-input.ts';

/**
 * The body of the request for a response that a chat request stands for. It is stored unless the client sends
 * `store: false`, so that its run survives the process. Fields that the client did not send are `null`.
 */
export function createBodyOf(body: ChatBody, input: readonly JsonObject[]): JsonObject {
  return {
    ...body.same,
    input: [...input],
    tools: (body.tools ?? []).map(({ function: definition }) => ({ ...definition, type: 'function' })),
    tool_choice: choiceOf(body.tool_choice),
    max_output_tokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    text: { format: formatOf(body.response_format), verbosity: body.verbosity ?? null },
    reasoning: { effort: body.reasoning_effort ?? null },
    store: body.store !== false,
    stream: body.stream === true,
  };
}

function choiceOf(choice: ChatToolChoice | null | undefined): JsonValue {
  if (choice == null || typeof choice === 'string') return choice ?? null;
  if (choice.type === 'function') return { type: 'function', name: choice.function.name };
  const { mode, tools } = choice.allowed_tools;
  return {
    type: 'allowed_tools',
    mode,
    tools: tools.map(({ function: { name } }) => ({ type: 'function', name })),
  };
}

function formatOf(format: ChatBody['response_format']): JsonObject {
  if (format?.type !== 'json_schema') return { type: format?.type ?? 'text' };
  const { name, schema, description = null, strict = null } = format.json_schema;
  return { type: 'json_schema', name, schema, description, strict };
}

/** The chat request's names of parameters of the Responses API, by the beginning of their path. */
const NAMES: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^input$/, 'messages'],
  [/^tools\[(\d+)\](?!\.type)/, 'tools[$1].function'],
  [/^text\.verbosity/, 'verbosity'],
  [/^text(\.format)?/, 'response_format'],
  [/^reasoning(\.effort)?/, 'reasoning_effort'],
  [/^max_output_tokens/, 'max_completion_tokens'],
];

/** The error with the chat request's name of its parameter. Values that are no `ResponsesError` are returned unchanged. */
export function inChatTerms(thrown: unknown, messages: readonly MessageInput[]): unknown {
  if (!(thrown instanceof ResponsesError) || thrown.param === null) return thrown;
  const { param, status, type, code } = thrown;
  const name = chatName(param, messages);
  const message = thrown.message.replaceAll(`'${param}'`, `'${name}'`);
  return new ResponsesError(message, { status, type, code, param: name });
}

function chatName(param: string, messages: readonly MessageInput[]): string {
  const [, place, rest = ''] = /^input\[(\d+)\](.*)$/.exec(param) ?? [];
  if (place !== undefined) {
    const at = messages.flatMap(({ at, items }) => items.map(() => at))[Number(place)] ?? 0;
    return `messages[${at}]${rest}`;
  }
  const [pattern, name] = NAMES.find(([known]) => known.test(param)) ?? [];
  return pattern === undefined || name === undefined ? param : param.replace(pattern, name);
}
