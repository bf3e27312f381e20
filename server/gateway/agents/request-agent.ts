import { ANTHROPIC } from '../../../adapters/anthropic/messages.ts';
import { callTypeDeclaredAs } from '../../../adapters/responses/item-kinds.ts';
import { mergeOptions, objectOf, objectsOf } from '../../../adapters/turn/json-access.ts';
import type { Agent } from '../../../agent/agent.ts';
import type { AgentOptions, CompactionOptions } from '../../../agent/agent-options.ts';
import type { Host } from '../../../engine/host/host.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import { type JsonObject, omitUndefined, toJson } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { type Tool, type ToolSource, toolDefinition } from '../../../protocol/tool.ts';
import type { ModelRequest, OutputFormat, ToolChoice, Usage } from '../../../protocol/turn.ts';
import { searchTool } from '../../../tools/search-tools.ts';
import { type BuiltinTool, builtinKind, builtinKindOf } from '../../builtins/builtin-schemas.ts';
import { invalid, missing } from '../../openai-error.ts';
import type { Opening } from '../live/opening.ts';
import { cacheKeyOf } from '../request/client-session.ts';
import { compactsContext, thresholdIn } from '../request/compaction-items.ts';
import { isTakenBy } from '../request/field-table.ts';
import { type GatewayRequest, OPENAI, OPENAI_CHAT } from '../request/gateway-request.ts';
import {
  type ChosenTool,
  clientTools,
  isDeclaredAsSent,
  isOfResponses,
  isSearch,
  type RequestTool,
} from '../request/request-tools.ts';
import {
  builtinOf,
  callTypeFor,
  type Exposed,
  type ExposedTool,
  isClientTool,
  isOwnTool,
  isServerTool,
  modelNameOf,
  RESPONSES,
  type RecordedRequest,
  type ResponseSpec,
} from '../runs/response-spec.ts';
import { modelFor } from './gateway-models.ts';

/** MCP calls between two inputs of the client. An approval is not such an input. */
const MOST_TOOL_CALLS = 10;
const MOST_TURNS = 20;

export function mostToolCalls({ maxToolCalls: wanted }: RecordedRequest): number {
  return Math.min(wanted ?? MOST_TOOL_CALLS, MOST_TOOL_CALLS);
}

/** The limits of a response that may make `toolCalls` more; `callsBefore` precede the last input. */
export function budgetOf(
  toolCalls: number,
  spent: { toolCalls: number; turns: number; callsBefore: number },
) {
  return {
    toolCalls: Math.min(spent.toolCalls + toolCalls, spent.callsBefore + MOST_TOOL_CALLS),
    turns: spent.turns + MOST_TURNS,
  };
}

export type AgentTools = { tools: readonly (Tool | ToolSource)[]; exposed: Exposed };

/** The options of the agent that carries a request out. */
export function agentOptionsFor(
  spec: ResponseSpec,
  options: {
    request: RecordedRequest;
    toolset: AgentTools;
    models: readonly ModelAdapter[];
    /** The agent that the request names as its model: its runs do what it does, with what the request adds. */
    base?: Agent;
    record(usage: Usage | null): void;
    /** How often a model call is tried, if the configuration says so. */
    attempts?: number;
    /** Of the client that waits for the answer. */
    opening?: Opening;
    store: Store;
    host: Host;
    passed: readonly BuiltinTool[];
  },
): AgentOptions {
  const { turnsBefore, lifetime, providerOptions: added } = spec;
  const { request, toolset, models, base, record, attempts, opening, store, host } = options;
  const onBegin = opening?.begin ?? (() => {});
  const [model] = models;
  if (model === undefined) throw new TypeError('Expected a model.');
  const choice = readChoice(request, toolset.exposed);
  const given = mergeOptions(optionsFor(model, { ...options, exposed: toolset.exposed }), added);
  const asked = mergeOptions(base?.options.providerOptions ?? {}, given);
  // The journal has the history, so a provider that would keep responses keeps none, and each call sends all of it.
  const providerOptions = model.capabilities.continuation ? { ...asked, store: false } : asked;
  const output = base?.options.output === undefined ? outputOf(request) : undefined;
  const budget = budgetOf(mostToolCalls(request), { toolCalls: 0, turns: 0, callsBefore: 0 });
  return {
    ...base?.options,
    name: RESPONSES,
    model: models.map(one => modelFor(one, { output, record, onBegin, clearings: request.clearings })),
    retry: { ...base?.options.retry, ...omitUndefined({ attempts }) },
    // The client repeats a request that has done nothing yet, and would repeat each of our attempts.
    callerRetries: ({ turns }) =>
      attempts === undefined &&
      lifetime === 'connection' &&
      opening?.isOpen === false &&
      turns === turnsBefore,
    tools: toolset.tools,
    settings: { ...base?.options.settings, ...request.settings },
    // A request has to get a response, so a message without a decision does not wait for one.
    onMessage: 'supersede',
    limits: { ...base?.options.limits, ...budget },
    providerOptions,
    ...omitUndefined({
      instructions: instructionsOf(base, request),
      compaction: compactionFor(spec, models, base?.options.compaction),
    }),
    prepareTurn: async turn => ({
      ...(request.toolChoice === undefined && base !== undefined
        ? {}
        : { toolChoice: turn.turns === turnsBefore || choice.first === 'none' ? choice.first : 'auto' }),
      ...omitUndefined({ tools: choice.tools }),
      ...(await base?.options.prepareTurn?.(turn)),
    }),
    store,
    host,
  };
}

/** Of the context window, for a request that leaves the threshold to the server. */
const PART_OF_WINDOW = 0.8;

/** By the provider if it has its own compaction, which each of the models can read; else by a summary of the model. */
function compactionFor(
  { compacts, request }: Pick<ResponseSpec, 'compacts' | 'request'>,
  models: readonly ModelAdapter[],
  own: CompactionOptions | undefined,
): CompactionOptions | undefined {
  const isByProvider = models.every(
    ({ compact, provider }) => compact !== undefined && provider === models[0]?.provider,
  );
  // The clients of a request would get the calls of a tool of ours.
  const how = { summarize: isByProvider ? 'provider' : 'model', ...own, tellsLedger: false } as const;
  if (compacts === true) return { ...how, at: 1, keep: 0, only: true };
  const at = thresholdIn(request);
  if (at === undefined) return own && { ...own, tellsLedger: false };
  return { ...how, at: at ?? PART_OF_WINDOW };
}

function instructionsOf(
  base: Agent | undefined,
  { instructions: given }: RecordedRequest,
): AgentOptions['instructions'] {
  const own = base?.options.instructions;
  if (own === undefined || given === undefined) return own ?? given;
  return typeof own === 'string' ? `${own}\n\n${given}` : runContext => `${own(runContext)}\n\n${given}`;
}

export function describeFirstCall(options: {
  request: RecordedRequest;
  base?: Agent;
  tools: readonly Tool[];
  exposed: Exposed;
  adapter: ModelAdapter;
  transcript: readonly Item[];
  passed: readonly BuiltinTool[];
  providerOptions: JsonObject;
}): ModelRequest {
  const { request, base, tools, exposed, adapter, transcript } = options;
  const instructions = instructionsOf(base, request);
  const choice = readChoice(request, exposed);
  const offered = tools.filter(({ name }) => choice.tools?.includes(name) ?? true);
  return {
    transcript,
    tools: (adapter.capabilities.toolSearch ? offered : withSearch(offered)).map(toolDefinition),
    toolChoice: choice.first,
    settings: request.settings,
    providerOptions: mergeOptions(optionsFor(adapter, options), options.providerOptions),
    ...omitUndefined({
      // Instructions that depend on the context of a run are not known before it.
      instructions: typeof instructions === 'function' ? request.instructions : instructions,
      output: outputOf(request),
    }),
  };
}

/** The tools before a search has found any. */
function withSearch(tools: readonly Tool[]): readonly Tool[] {
  const deferred = tools.filter(tool => tool.deferred === true);
  return deferred.length === 0
    ? tools
    : [...tools.filter(tool => tool.deferred !== true), searchTool(deferred)];
}

/** `first` applies to the first turn of the response, `tools` to all its turns. */
function readChoice(
  { toolChoice: choice }: RecordedRequest,
  exposed: Exposed,
): { first: ToolChoice; tools?: string[] } {
  if (choice === undefined) return { first: 'auto' };
  if (typeof choice === 'string') return { first: choice };
  if (choice.type === 'allowed_tools')
    return { first: choice.mode, tools: choice.tools.flatMap(tool => namesOf(exposed, tool)) };
  const names = namesOf(exposed, choice);
  const [only, second] = names;
  return only !== undefined && second === undefined
    ? { first: { name: only } }
    : { first: 'required', tools: names };
}

function namesOf(exposed: Exposed, chosen: ChosenTool): string[] {
  if (chosen.type === 'function' || chosen.type === 'custom') return [chosenName(exposed, chosen)];
  return Object.entries(exposed).flatMap(([known, tool]) => (isChosen(tool, chosen) ? [known] : []));
}

/** A name without a namespace may name a tool that has one. */
function chosenName(
  exposed: Exposed,
  { name, namespace }: { name: string; namespace?: string | null | undefined },
): string {
  if (namespace != null) return modelNameOf(exposed, { name, namespace });
  const known = modelNameOf(exposed, { name });
  if (known !== name || Object.hasOwn(exposed, name)) return known;
  const [inside] = Object.entries(exposed).find(([, tool]) => isClientTool(tool) && tool.name === name) ?? [];
  return inside ?? name;
}

function isChosen(tool: ExposedTool, chosen: ChosenTool): boolean {
  if (isOwnTool(tool)) return callTypeDeclaredAs(chosen.type) === callTypeFor(tool);
  if (chosen.type !== 'mcp')
    return builtinOf(tool) !== undefined && builtinOf(tool) === builtinKind(chosen.type);
  if (!isServerTool(tool) || tool.hidden === true || tool.label !== chosen.server_label) return false;
  return chosen.name == null || tool.name === chosen.name;
}

function outputOf({ text }: RecordedRequest): OutputFormat | undefined {
  const format = text?.format;
  if (format?.type === 'json_object') return { name: 'answer', schema: { type: 'object' } };
  if (format?.type !== 'json_schema') return undefined;
  const { name, schema, strict } = format;
  return { name, schema, ...omitUndefined({ strict: strict ?? undefined }) };
}

export function assertSupported(
  { provider }: ModelAdapter,
  request: GatewayRequest,
  { models }: { models: readonly ModelAdapter[] },
): void {
  const { openai, tools, names, input, store } = request;
  const unsupported = (param: string) =>
    invalid(param, 'unsupported_parameter', `'${param}' is not supported for this model.`);
  if (openai.context_management !== undefined && store === false && !compactsContext(provider)) {
    const message = "For this model, 'context_management' requires 'store' to be true.";
    throw invalid('context_management', 'context_management_requires_store', message);
  }
  if (
    thresholdIn(request) === null &&
    models.some(({ capabilities: { contextWindow } }) => contextWindow === undefined)
  )
    throw missing('context_management[0].compact_threshold');
  if (provider === OPENAI) return;
  for (const [at, tool] of tools.entries())
    if (isOfResponses(tool)) {
      if (tool.type === 'function') throw unsupported(names.tool(at, 'allowed_callers'));
      const message = `Tools of type "${tool.type}" are only for models of OpenAI's Responses API.`;
      throw invalid(names.tool(at, 'type'), 'unsupported_tool', message);
    }
  for (const item of input) {
    const { type = '', place = '' } = (item.type === 'sent' && item.onlyFor) || {};
    const message = `Input items of type "${type}" are only for models of OpenAI's Responses API.`;
    if (type !== '') throw invalid(`${place}.type`, 'unsupported_input_item', message);
  }
}

function optionsFor(
  { provider, capabilities: { toolSearch = false } }: ModelAdapter,
  {
    request,
    passed,
    ...others
  }: { request: RecordedRequest; passed: readonly BuiltinTool[]; exposed: Exposed },
): JsonObject {
  const { context_management, truncation, ...named } = request.openai;
  const { reasoningSummary: summary, reasoningContext: context, text } = request;
  const reasoning = omitUndefined({ summary, context });
  const verbosity = text?.verbosity ?? undefined;
  const taken: JsonObject = {};
  for (const [name, value] of Object.entries({ prompt_cache_key: cacheKeyOf(request.session), ...named }))
    if (value !== undefined && isTakenBy(provider, name)) taken[name] = value;
  // Messages has its clients' marks, or `null`, in options that count before these.
  if (provider === ANTHROPIC) return { cache_marks: 'auto' };
  if (provider === OPENAI_CHAT) return { ...taken, ...omitUndefined({ verbosity }) };
  if (provider !== OPENAI) return taken;
  const compacts = thresholdIn(request) === undefined ? context_management : undefined;
  return {
    ...(Object.keys(reasoning).length === 0 ? {} : { reasoning }),
    ...(verbosity === undefined ? {} : { text: { verbosity } }),
    ...taken,
    ...omitUndefined({ truncation, context_management: compacts }),
    ...passedOptions(request, passed, { ...others, toolSearch }),
  };
}

const ABOUT_BUILTINS = /^(?:web_search|file_search|code_interpreter)_call\./;

function passedOptions(
  request: RecordedRequest,
  passed: readonly BuiltinTool[],
  { exposed, toolSearch }: { exposed: Exposed; toolSearch: boolean },
): JsonObject {
  const { include = [], toolChoice: choice } = request;
  const allowed =
    choice === undefined || typeof choice === 'string' || choice.type !== 'allowed_tools'
      ? undefined
      : choice.tools;
  const builtins = passed.filter(
    tool => allowed?.some(({ type }) => builtinKind(type) === builtinKindOf(tool)) ?? true,
  );
  const declared = request.tools.filter(tool =>
    isSearch(tool)
      ? toolSearch
      : isDeclaredAsSent(tool) &&
        (allowed === undefined ||
          clientTools(tool).some(({ name }) =>
            allowed.some(one => ('name' in one ? one.name : one.type) === name),
          )),
  );
  const tools = [
    ...builtins.map(tool => toJson(tool)),
    ...declared.map(tool => declarationOf(tool, exposed)),
  ];
  if (tools.length === 0) return {};
  const wanted = builtins.length === 0 ? [] : include.filter(value => ABOUT_BUILTINS.test(value));
  return { tools, ...(wanted.length > 0 ? { include: wanted } : {}) };
}

/**
 * By the name that the model knows; `strict` is the default of the API, which few schemas satisfy. Calls of `async` tools
 * have their results before the next turn here.
 */
function declarationOf(tool: RequestTool, exposed: Exposed): JsonObject {
  const { async: _, ...declared } = objectOf(toJson(tool));
  if (tool.type === 'namespace')
    return { ...declared, tools: objectsOf(declared.tools).map(({ async: _, ...member }) => member) };
  if (tool.type !== 'function') return declared;
  return { ...declared, name: modelNameOf(exposed, { name: tool.name }), strict: tool.strict ?? false };
}
