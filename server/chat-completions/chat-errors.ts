import { ResponsesError } from '../responses/api-error.ts';
import type { ChatBody } from './chat-body.ts';
import type { MessageInput } from './chat-input.ts';

/** The chat request's names of parameters of the Responses API, by the beginning of their path. */
const NAMES: readonly (readonly [pattern: RegExp, name: string])[] = [
  [/^input$/, 'messages'],
  [/^text\.verbosity/, 'verbosity'],
  [/^text(\.format)?/, 'response_format'],
  [/^reasoning(\.effort)?/, 'reasoning_effort'],
];

type Request = { body: ChatBody; input: readonly MessageInput[] };

/** The error with the chat request's name of its parameter. Values that are no `ResponsesError` are returned unchanged. */
export function inChatTerms(thrown: unknown, request: Request): unknown {
  if (!(thrown instanceof ResponsesError) || thrown.param === null) return thrown;
  const { param, status, type, code } = thrown;
  const name = chatName(param, request);
  const message = thrown.message.replaceAll(`'${param}'`, `'${name}'`);
  return new ResponsesError(message, { status, type, code, param: name });
}

function chatName(param: string, { body, input }: Request): string {
  const [, list, place, rest = ''] = /^(input|tools)\[(\d+)\](.*)$/.exec(param) ?? [];
  if (list === 'input') {
    const at = input.flatMap(({ at, items }) => items.map(() => at))[Number(place)] ?? 0;
    return `messages[${at}]${rest}`;
  }
  if (list === 'tools') {
    const tool = body.tools?.[Number(place)];
    return tool === undefined ? 'web_search_options' : `tools[${place}].${tool.type}${rest}`;
  }
  if (param === 'max_output_tokens')
    return body.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens';
  const [pattern, name] = NAMES.find(([known]) => known.test(param)) ?? [];
  return pattern === undefined || name === undefined ? param : param.replace(pattern, name);
}
