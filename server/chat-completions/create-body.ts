import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { ChatBody, ChatTool, ChatToolChoice } from './chat-body.ts';

type ChosenTool = Exclude<ChatToolChoice, string | { type: 'allowed_tools' }>;

/**
 * Converts a chat request to the body of a request for a response. It is stored unless the client sends
 * `store: false`, so that its run survives the process. Fields that the client did not send are `null`.
 */
export function createBodyOf(body: ChatBody, input: readonly JsonObject[]): JsonObject {
  return {
    ...body.same,
    input: [...input],
    tools: [...(body.tools ?? []).map(toolOf), ...webSearchOf(body)],
    tool_choice: choiceOf(body.tool_choice),
    max_output_tokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    text: { format: formatOf(body.response_format), verbosity: body.verbosity ?? null },
    reasoning: { effort: body.reasoning_effort ?? null },
    store: body.store !== false,
    stream: body.stream === true,
  };
}

function toolOf(tool: ChatTool): JsonObject {
  if (tool.type === 'function') return { ...tool.function, type: 'function' };
  const { format, ...custom } = tool.custom;
  const { grammar } = isJsonObject(format) ? format : {};
  const flat = isJsonObject(grammar) ? { ...grammar, type: 'grammar' } : (format ?? null);
  return { ...custom, format: flat, type: 'custom' };
}

/** The built-in tool for `web_search_options`. It comes after the tools of the request. */
function webSearchOf({ web_search_options: options }: ChatBody): JsonObject[] {
  if (options == null) return [];
  const { search_context_size = null, user_location: place } = options;
  const location = place == null ? null : { ...place.approximate, type: 'approximate' };
  return [{ type: 'web_search', search_context_size, user_location: location }];
}

function choiceOf(choice: ChatToolChoice | null | undefined): JsonValue {
  if (choice == null || typeof choice === 'string') return choice ?? null;
  if (choice.type !== 'allowed_tools') return chosen(choice);
  const { mode, tools } = choice.allowed_tools;
  return { type: 'allowed_tools', mode, tools: tools.map(chosen) };
}

function chosen(tool: ChosenTool): JsonObject {
  return { type: tool.type, name: tool.type === 'custom' ? tool.custom.name : tool.function.name };
}

function formatOf(format: ChatBody['response_format']): JsonObject {
  if (format?.type !== 'json_schema') return { type: format?.type ?? 'text' };
  const { name, schema, description = null, strict = null } = format.json_schema;
  return { type: 'json_schema', name, schema, description, strict };
}
