import { createHash } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { shortenToolName } from '../../../tools/unique-tool-names.ts';
import { samplingOptions } from '../../responses/gateway/sampling-options.ts';
import { builtinSearchOf, isWebSearch } from '../web-search.ts';
import { type CountBody, invalidAt, type MessageBody } from './message-body.ts';
import { reasoningOf, thinkingOptions } from './thinking.ts';

const ANTHROPIC = 'anthropic';

/**
 * Converts a request for a message to the body of a request for a response. `input` are the input items of its
 * messages; `provider` is that of its model.
 */
export function createBodyOf(body: MessageBody, input: JsonObject[], provider: string): JsonObject {
  return {
    ...promptOf(body, input, provider),
    max_output_tokens: body.max_tokens,
    stream: body.stream === true,
    ...omitUndefined({
      temperature: body.temperature ?? undefined,
      top_p: body.top_p ?? undefined,
      safety_identifier: userOf(body),
      service_tier: body.service_tier === 'standard_only' ? 'default' : undefined,
    }),
  };
}

/** The part of the body that a count of input tokens needs. */
export function promptOf(body: CountBody, input: JsonObject[], provider: string): JsonObject {
  const { model, tool_choice: choice, output_config: config, output_format } = body;
  const format = config?.format ?? output_format;
  const tools = body.tools ?? [];
  const search = tools.find(isWebSearch);
  const single = choice != null && choice.type !== 'none' && choice.disable_parallel_tool_use === true;
  const isShown = body.thinking?.type === 'enabled' || body.thinking?.type === 'adaptive';
  return {
    model,
    input,
    tools: tools.map(readTool),
    include: [
      ...(isShown ? ['reasoning.encrypted_content'] : []),
      ...(search === undefined ? [] : ['web_search_call.action.sources']),
    ],
    ...omitUndefined({
      instructions: instructionsOf(body),
      tool_choice: choiceOf(choice, search?.name),
      max_tool_calls: search?.max_uses ?? undefined,
      parallel_tool_calls: single ? false : undefined,
      reasoning: provider === ANTHROPIC ? undefined : reasoningOf(body, provider),
      text:
        format == null
          ? undefined
          : { format: { type: 'json_schema', name: 'answer', schema: format.schema } },
    }),
  };
}

function instructionsOf({ system }: CountBody): string | undefined {
  const text = typeof system === 'string' ? system : (system ?? []).map(({ text }) => text).join('\n\n');
  return text === '' ? undefined : text;
}

type AnyTool = NonNullable<CountBody['tools']>[number];

/**
 * A tool that the client runs, or the built-in web search. Throws a `ResponsesError` for Anthropic's other tools, by
 * their type.
 */
function readTool(tool: AnyTool, at: number): JsonObject {
  const { type, name, description, input_schema: parameters, strict } = tool;
  if (isWebSearch(tool)) {
    if (tool.blocked_domains?.length)
      throw invalidAt(`tools.${at}.blocked_domains`, 'This field is not supported.');
    return builtinSearchOf(tool);
  }
  if (type != null && type !== 'custom')
    throw invalidAt(`tools.${at}.type`, `Tools of type ${JSON.stringify(type)} are not supported.`);
  if (parameters === undefined) throw invalidAt(`tools.${at}.input_schema`, 'Field required');
  return {
    type: 'function',
    name: shortenToolName(name),
    parameters,
    strict: strict === true,
    ...omitUndefined({ description: description ?? undefined }),
  };
}

function choiceOf(choice: CountBody['tool_choice'], search: string | undefined): JsonValue | undefined {
  switch (choice?.type) {
    case undefined:
      return undefined;
    case 'any':
      return 'required';
    case 'tool':
      return choice.name === search
        ? { type: 'web_search' }
        : { type: 'function', name: shortenToolName(choice.name) };
    default:
      return choice?.type;
  }
}

/** The client's name of a tool, by its name for providers: not all of them accept Anthropic's 128 characters. */
export function toolNameIn({ tools }: CountBody): (name: string) => string {
  return name => tools?.find(tool => shortenToolName(tool.name) === name)?.name ?? name;
}

/** The user for OpenAI's abuse detection, which takes 64 characters: a longer id becomes its digest. */
function userOf({ metadata }: MessageBody): string | undefined {
  const user = metadata?.user_id ?? undefined;
  return user === undefined || user.length <= 64 ? user : createHash('sha256').update(user).digest('hex');
}

/**
 * The members of the provider's own request body for what the Responses API has no field for. Throws a `ResponsesError`
 * for `top_k` and `stop_sequences` if the provider does not have them.
 */
export function providerOptionsOf(body: MessageBody, provider: string): JsonObject | undefined {
  const { top_k, stop_sequences } = body;
  const stop = stop_sequences?.length ? stop_sequences : undefined;
  const options = {
    ...samplingOptions({ stop, top_k }, provider, name =>
      invalidAt(name === 'stop' ? 'stop_sequences' : name, 'This parameter is not supported for this model.'),
    ),
    ...(provider === ANTHROPIC ? anthropicOptions(body) : {}),
  };
  return Object.keys(options).length === 0 ? undefined : options;
}

/** Like `providerOptionsOf`, for a count of input tokens. */
export function promptOptionsOf(body: CountBody, provider: string): JsonObject | undefined {
  return provider === ANTHROPIC ? { ...thinkingOptions(body) } : undefined;
}

/** What Anthropic's API takes as the client sent it. */
function anthropicOptions(body: MessageBody): JsonObject {
  const { metadata, service_tier: tier } = body;
  return {
    ...thinkingOptions(body),
    ...omitUndefined({
      metadata: metadata?.user_id == null ? undefined : { user_id: metadata.user_id },
      service_tier: tier ?? undefined,
      cache_control: cacheControlOf(body),
    }),
  };
}

/** Breakpoints on single blocks become one for the whole prompt, because the transcript does not keep them. */
function cacheControlOf(body: MessageBody): JsonObject | undefined {
  if (body.cache_control != null) return body.cache_control;
  const blocks: unknown[] = [
    ...(Array.isArray(body.system) ? body.system : []),
    ...(body.tools ?? []),
    ...body.messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content)),
  ];
  const marked = blocks.findLast(block => isJsonObject(block) && isJsonObject(block.cache_control));
  return isJsonObject(marked) && isJsonObject(marked.cache_control) ? marked.cache_control : undefined;
}
