import { mergeOptions } from '../../../adapters/turn/merge-options.ts';
import type { Host } from '../../../engine/driver/host.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { type Tool, type ToolSource, toolDefinition } from '../../../protocol/tool.ts';
import type { ModelRequest, OutputFormat, Settings, ToolChoice } from '../../../protocol/turn.ts';
import { type Agent, createAgent } from '../../../tools/agent/agent.ts';
import { invalid } from '../api-error.ts';
import { compactsContext } from '../compaction/compaction-items.ts';
import type { CreateBody } from '../request/request-body.ts';
import { type BuiltinTool, builtinKind, type ChosenTool } from '../request/tool-schemas.ts';
import {
  builtinOf,
  type Exposed,
  type ExposedTool,
  isServerTool,
  modelNameOf,
  RESPONSES,
} from '../wire/response-spec.ts';
import { passedOptions } from './builtins/passed-options.ts';
import { withOutput } from './gateway-models.ts';

/** The maximum number of MCP calls between two inputs of the client. An approval is not such an input. */
const MOST_TOOL_CALLS = 10;
const MOST_TURNS = 20;

/** The maximum number of MCP calls that a response may run, including the ones it approves. */
export function mostToolCalls({ max_tool_calls: wanted }: CreateBody): number {
  return Math.min(wanted ?? MOST_TOOL_CALLS, MOST_TOOL_CALLS);
}

/**
 * The run's limits for a response: what the run has spent so far plus the response's own budget. `toolCalls` is the
 * number of further calls that the response may make; `callsBefore` counts the calls before the client's last input.
 */
export function budgetOf(
  toolCalls: number,
  spent: { toolCalls: number; turns: number; callsBefore: number },
) {
  return {
    toolCalls: Math.min(spent.toolCalls + toolCalls, spent.callsBefore + MOST_TOOL_CALLS),
    turns: spent.turns + MOST_TURNS,
  };
}

/** The tools of an agent, and which of the names are tools of MCP servers. */
export type AgentTools = { tools: readonly (Tool | ToolSource)[]; exposed: Exposed };

/** Creates the agent that a request describes. `turnsBefore` is the number of turns in its run before the request. */
export function makeRequestAgent(options: {
  body: CreateBody;
  toolset: AgentTools;
  model: ModelAdapter;
  store: Store;
  host: Host;
  turnsBefore: number;
  /** The built-in tools that the provider runs. */
  passed: readonly BuiltinTool[];
  /** Merged over the options that follow from the body. */
  providerOptions?: JsonObject;
}): Agent {
  const { body, toolset, model, store, host, turnsBefore } = options;
  const choice = readChoice(body, toolset.exposed);
  const asked = mergeOptions(optionsFor(model.provider, options), options.providerOptions);
  // The journal has the history, so a provider that would keep responses keeps none, and each call sends all of it.
  const providerOptions = model.capabilities.continuation ? { ...asked, store: false } : asked;
  return createAgent({
    name: RESPONSES,
    model: withOutput(model, outputOf(body)),
    tools: toolset.tools,
    settings: settingsOf(body),
    // A request has to get a response, so a message without a decision does not wait for one.
    onMessage: 'supersede',
    limits: budgetOf(mostToolCalls(body), { toolCalls: 0, turns: 0, callsBefore: 0 }),
    providerOptions,
    ...omitUndefined({ instructions: body.instructions ?? undefined }),
    prepareTurn: ({ turns }) => ({
      toolChoice: turns === turnsBefore || choice.first === 'none' ? choice.first : 'auto',
      ...omitUndefined({ tools: choice.tools }),
    }),
    store,
    host,
  });
}

/** The first model call of the response to a request, without the run that makes it. */
export function describeFirstCall(options: {
  body: CreateBody;
  tools: readonly Tool[];
  exposed: Exposed;
  provider: string;
  transcript: readonly Item[];
  passed: readonly BuiltinTool[];
  /** As for `makeRequestAgent`. */
  providerOptions: JsonObject;
}): ModelRequest {
  const { body, tools, exposed, provider, transcript } = options;
  const choice = readChoice(body, exposed);
  const offered = tools.filter(({ name }) => choice.tools?.includes(name) ?? true);
  return {
    transcript,
    tools: offered.map(toolDefinition),
    toolChoice: choice.first,
    settings: settingsOf(body),
    providerOptions: mergeOptions(optionsFor(provider, options), options.providerOptions),
    ...omitUndefined({ instructions: body.instructions ?? undefined, output: outputOf(body) }),
  };
}

/** `first` applies to the first turn of the response, `tools` to all its turns. */
function readChoice(
  { tool_choice: choice }: CreateBody,
  exposed: Exposed,
): { first: ToolChoice; tools?: string[] } {
  if (choice == null) return { first: 'auto' };
  if (typeof choice === 'string') return { first: choice };
  switch (choice.type) {
    case 'allowed_tools':
      return { first: choice.mode, tools: choice.tools.flatMap(tool => namesOf(exposed, tool)) };
    default: {
      const names = namesOf(exposed, choice);
      const [only, second] = names;
      if (only !== undefined && second === undefined) return { first: { name: only } };
      return { first: 'required', tools: names };
    }
  }
}

/** The names for the model of the tools that a choice names; none for a tool that the provider runs. */
function namesOf(exposed: Exposed, chosen: ChosenTool): string[] {
  if (chosen.type === 'function' || chosen.type === 'custom') return [modelNameOf(exposed, chosen.name)];
  return Object.entries(exposed).flatMap(([known, tool]) => (isChosen(tool, chosen) ? [known] : []));
}

function isChosen(tool: ExposedTool, chosen: ChosenTool): boolean {
  if (chosen.type !== 'mcp')
    return builtinOf(tool) !== undefined && builtinOf(tool) === builtinKind(chosen.type);
  if (!isServerTool(tool) || tool.hidden === true || tool.label !== chosen.server_label) return false;
  return chosen.name == null || tool.name === chosen.name;
}

function settingsOf(body: CreateBody): Settings {
  return omitUndefined({
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    maxOutputTokens: body.max_output_tokens ?? undefined,
    parallelToolCalls: body.parallel_tool_calls ?? undefined,
    reasoningEffort: body.reasoning?.effort ?? undefined,
  });
}

function outputOf({ text }: CreateBody): OutputFormat | undefined {
  const format = text?.format;
  if (format?.type === 'json_object') return { name: 'answer', schema: { type: 'object' } };
  if (format?.type !== 'json_schema') return undefined;
  const { name, schema, strict } = format;
  return { name, schema, ...omitUndefined({ strict: strict ?? undefined }) };
}

/** Providers that take penalties as members of the request body. */
const TAKE_PENALTIES: readonly string[] = [
  'openai-chat',
  'groq',
  'mistral',
  'deepseek',
  'openrouter',
  'cerebras',
  'harmony',
  'vllm',
];

/**
 * Throws a `ResponsesError` for a parameter that the model's provider does not have, because ignoring it would change
 * the result.
 */
export function assertSupported({ provider, capabilities }: ModelAdapter, body: CreateBody): void {
  const unsupported = (param: string) => {
    const message = `'${param}' is not supported for this model.`;
    return invalid(param, 'unsupported_parameter', message);
  };
  for (const param of ['presence_penalty', 'frequency_penalty'] as const)
    if ((body[param] ?? 0) !== 0 && !TAKE_PENALTIES.includes(provider)) throw unsupported(param);
  if ((body.top_logprobs ?? 0) !== 0) throw unsupported('top_logprobs');
  for (const [at, tool] of body.tools.entries())
    if (tool.type === 'custom' && tool.format?.type === 'grammar' && capabilities.customTools !== true)
      throw unsupported(`tools[${at}].format`);
  if (body.context_management != null && !compactsContext(provider)) throw unsupported('context_management');
}

/** The options that only some providers have. */
function optionsFor(
  provider: string,
  { body, passed }: { body: CreateBody; passed: readonly BuiltinTool[] },
): JsonObject {
  if (TAKE_PENALTIES.includes(provider)) return penaltiesOf(body);
  if (provider !== 'openai-responses') return {};
  const { reasoning, text } = body;
  const options = omitUndefined<Record<string, JsonValue | undefined>>({
    reasoning: reasoning?.summary == null ? undefined : { summary: reasoning.summary },
    text: text?.verbosity == null ? undefined : { verbosity: text.verbosity },
    service_tier: body.service_tier ?? undefined,
    prompt_cache_key: body.prompt_cache_key ?? undefined,
    safety_identifier: body.safety_identifier ?? undefined,
    truncation: body.truncation ?? undefined,
    context_management: body.context_management ?? undefined,
  }) as JsonObject;
  return { ...options, ...passedOptions(body, passed) };
}

function penaltiesOf({ presence_penalty, frequency_penalty }: CreateBody): JsonObject {
  return omitUndefined<Record<string, JsonValue | undefined>>({
    presence_penalty: presence_penalty ?? undefined,
    frequency_penalty: frequency_penalty ?? undefined,
  }) as JsonObject;
}
