import * as z from 'zod';
import { ANTHROPIC } from '../../adapters/anthropic/messages.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { isJsonObject, type JsonObject, omitNull, omitUndefined } from '../../protocol/json.ts';
import { shortenToolName } from '../../tools/unique-tool-names.ts';
import { maybe, object, openFields, readGiven } from '../fields.ts';
import type { GatewayRequest } from '../gateway/request/gateway-request.ts';
import { KnownMessages, type ReadBody } from '../gateway/request/known-bodies.ts';
import {
  assertTools,
  MOST_TOOLS,
  type RequestTool,
  type RequestToolChoice,
  readTool,
  type ToolNames,
} from '../gateway/request/request-tools.ts';
import { fitId, samplingOptions, takesNoEffort } from '../gateway/request/shared-parameters.ts';
import { cacheMarksOf } from './cache-marks.ts';
import { assertNoPause, readEdits } from './context-edits.ts';
import { describeProblem, invalidAt } from './message-error.ts';
import { assertOneEffort, foundTools, message, readMessages } from './message-input.ts';
import { isWebSearch } from './web-search.ts';

const MOST_MESSAGES = 10_000;

/** A field that the server cannot leave out without changing what the request asks for. */
const NOT_SUPPORTED = 'This field is not supported.';

const textBlock = openFields({ type: z.literal('text'), text: z.string() });

const clientTool = openFields({
  type: maybe(z.string()),
  name: z.string().min(1).max(128),
  description: maybe(z.string()),
  input_schema: z.exactOptional(object),
  strict: maybe(z.boolean()),
  allowed_domains: maybe(z.array(z.string().min(1)).max(100)),
  blocked_domains: maybe(z.array(z.string())),
  max_uses: maybe(z.int().positive()),
  user_location: maybe(object),
  defer_loading: maybe(z.boolean()),
  allowed_callers: maybe(
    z.array(z.string()).refine(callers => callers.includes('direct'), 'expected the caller "direct"'),
  ),
});

const isSingle = { disable_parallel_tool_use: maybe(z.boolean()) };
const toolChoice = z.discriminatedUnion('type', [
  openFields({ type: z.literal('auto'), ...isSingle }),
  openFields({ type: z.literal('any'), ...isSingle }),
  openFields({ type: z.literal('tool'), name: z.string(), ...isSingle }),
  openFields({ type: z.literal('none') }),
]);

const display = { display: maybe(z.enum(['summarized', 'omitted'])) };
const thinking = z.discriminatedUnion('type', [
  openFields({ type: z.literal('enabled'), budget_tokens: z.int().min(1_024), ...display }),
  openFields({ type: z.literal('adaptive'), ...display }),
  openFields({ type: z.literal('between_tools') }),
  openFields({ type: z.literal('disabled') }),
]);

const format = openFields({ type: z.literal('json_schema'), schema: object });

/** What the input tokens depend on. */
const prompt = {
  model: z.string().min(1),
  messages: z.array(message).min(1, 'at least one message is required').max(MOST_MESSAGES),
  system: maybe(z.union([z.string(), z.array(textBlock)], 'expected a string or a list of text blocks')),
  tools: maybe(z.array(clientTool).max(MOST_TOOLS)),
  tool_choice: maybe(toolChoice),
  thinking: maybe(thinking),
  cache_control: maybe(object),
  output_config: maybe(
    z.object({
      effort: maybe(z.enum(['low', 'medium', 'high', 'xhigh', 'max'])),
      format: maybe(format),
      task_budget: maybe(object),
    }),
  ),
  output_format: maybe(format),
  context_management: maybe(object),
  speed: maybe(z.enum(['standard', 'fast'])),
};

const countBody = z.object(prompt);

export const messageBody = z.object({
  ...prompt,
  max_tokens: z.int().positive(),
  stream: maybe(z.boolean()),
  temperature: maybe(z.number().min(0).max(1)),
  top_p: maybe(z.number().min(0).max(1)),
  top_k: maybe(z.int().nonnegative()),
  stop_sequences: maybe(z.array(z.string().min(1)).max(8_191)),
  metadata: maybe(openFields({ user_id: maybe(z.string().max(512)) })),
  service_tier: maybe(z.enum(['auto', 'standard_only'])),
  fallbacks: maybe(z.union([z.literal('default'), z.array(object)])),
});

type Prompt = z.infer<typeof countBody>;
type Create = z.infer<typeof messageBody>;

const known = new KnownMessages<Create>(readGiven(messageBody), MOST_MESSAGES);

type MessageRequest = {
  request: GatewayRequest;
  /** Of thinking: its text, only its signature, or nothing. */
  thinking: 'shown' | 'omitted' | 'none';
  /** The client's name of a tool, by its name for providers: not all of them accept Anthropic's 128 characters. */
  toolName(name: string): string;
  managesContext: boolean;
};

type ModelOf = (model: string) => Pick<ModelAdapter, 'provider' | 'capabilities'>;

/** Throws a `ResponsesError` with the path of the first problem, such as `messages.3.content.0`. */
export function readMessageRequest(value: unknown, modelOf: ModelOf, betas?: string): MessageRequest {
  const body = parse(known, value);
  const { request: prompt, provider } = readPrompt(body, modelOf);
  const { temperature, top_p: topP, max_tokens: maxOutputTokens, service_tier } = body;
  const request = {
    ...prompt,
    providerOptions: { ...providerOptionsOf(body, provider), ...betasFor(provider, betas) },
    settings: { ...prompt.settings, ...omitNull({ temperature, topP, maxOutputTokens }) },
    openai: omitNull({
      ...prompt.openai,
      safety_identifier: userOf(body),
      service_tier: service_tier === 'standard_only' ? 'default' : undefined,
    }),
    stream: body.stream === true,
  };
  const toolName = (name: string) =>
    body.tools?.find(tool => shortenToolName(tool.name) === name)?.name ?? name;
  const managesContext = body.context_management != null;
  return { request, thinking: shownThinking(body), toolName, managesContext };
}

export function readCountRequest(value: unknown, modelOf: ModelOf): GatewayRequest {
  const body = parse(countBody, value);
  const { request, provider } = readPrompt(body, modelOf);
  return { ...request, providerOptions: provider === ANTHROPIC ? promptOptions(body) : {} };
}

function parse<Body>(schema: { safeParse(value: unknown): ReadBody<Body> }, value: unknown): Body {
  // A field that is `null` counts as absent.
  const parsed = schema.safeParse(isJsonObject(value) ? omitNull(value) : value);
  if (!parsed.success) throw describeProblem(parsed.error.issues[0]);
  return parsed.data;
}

function readPrompt(body: Prompt, modelOf: ModelOf): { request: GatewayRequest; provider: string } {
  const { provider, capabilities } = modelOf(body.model);
  const messages = readMessages(body.messages, { isForAnthropic: provider === ANTHROPIC });
  const { tool_choice: choice, output_config: config, output_format } = body;
  const format = config?.format ?? output_format;
  const search = body.tools?.find(isWebSearch);
  const single = choice != null && choice.type !== 'none' && choice.disable_parallel_tool_use === true;
  assertOneEffort(body.messages, config?.effort ?? undefined);
  assertNoPause(body.context_management ?? {});
  // A provider that keeps deferred tools out of the prompt gets all of them, so that the prompt stays as it was.
  const keepsApart = provider === ANTHROPIC && capabilities.toolSearch === true;
  const { tools, searchesTools } = toolsOf(body, { keepsApart });
  const toolChoice = choiceOf(choice, search?.name);
  assertTools(tools, toolChoice, toolName);
  const { effort: reasoningEffort, summary: reasoningSummary } = reasoningOf(body, provider);
  const { clearings, compactAt } = provider === ANTHROPIC ? {} : readEdits(body.context_management ?? {});
  const request: GatewayRequest = {
    ...messages,
    model: body.model,
    tools,
    include: [
      ...(shownThinking(body) === 'none' ? [] : ['reasoning.encrypted_content']),
      ...(search === undefined ? [] : ['web_search_call.action.sources']),
    ],
    ...omitNull({
      instructions: instructionsOf(body, provider),
      searchesTools,
      clearings,
      toolChoice,
      maxToolCalls: search?.max_uses,
      reasoningSummary,
    }),
    ...(format == null
      ? {}
      : { text: { format: { type: 'json_schema', name: 'answer', schema: format.schema } } }),
    settings: omitUndefined({ parallelToolCalls: single ? false : undefined, reasoningEffort }),
    openai: omitUndefined({
      context_management:
        compactAt === undefined ? undefined : [{ type: 'compaction' as const, compact_threshold: compactAt }],
    }),
    api: 'messages' as const,
    names: { input: 'messages', tool: toolName },
  };
  return { request, provider };
}

const toolName: ToolNames = (at, member) =>
  `tools.${at}.${member === 'filters' ? 'allowed_domains' : member}`;

function shownThinking({ thinking }: Prompt): MessageRequest['thinking'] {
  if (thinking?.type !== 'enabled' && thinking?.type !== 'adaptive') return 'none';
  return thinking.display === 'omitted' ? 'omitted' : 'shown';
}

/** Claude Code tells Anthropic here what it is and, in some versions, a digest that no other request has. */
const BILLING = 'x-anthropic-billing-header:';

function instructionsOf({ system }: Prompt, provider: string): string | undefined {
  const blocks = typeof system === 'string' ? [{ text: system }] : (system ?? []);
  const read = provider === ANTHROPIC ? blocks : blocks.filter(({ text }) => !text.startsWith(BILLING));
  return read.map(({ text }) => text).join('\n\n') || undefined;
}

/**
 * The tools of the request. Deferred ones are found by Anthropic's search, if the request has it, or else by a tool of
 * the client, whose results refer to them (`searchesTools`); a provider that shows every tool gets them as they are found,
 * after the others.
 */
function toolsOf(
  { tools = [], messages }: Prompt,
  { keepsApart }: { keepsApart: boolean },
): { tools: RequestTool[]; searchesTools?: true } {
  const given = (tools ?? []).map((tool, at) => ({ ...tool, at }));
  const deferred = given.filter(tool => tool.defer_loading === true);
  const isSearchedByProvider = given.some(isToolSearch);
  if (deferred.length === 0 || isSearchedByProvider || keepsApart)
    return {
      tools: given.map(toolOf),
      ...(deferred.length > 0 && !isSearchedByProvider ? { searchesTools: true } : {}),
    };
  const found = foundTools(messages).flatMap(name => deferred.find(tool => tool.name === name) ?? []);
  const shown = given.filter(tool => tool.defer_loading !== true);
  return { tools: [...shown, ...found.map(tool => ({ ...tool, defer_loading: false }))].map(toolOf) };
}

/** Such as `tool_search_tool_bm25_20251119`. */
function isToolSearch({ type }: { type?: string | null | undefined }): boolean {
  return /^tool_search_tool_(?:regex|bm25)(?:_\d{8})?$/.test(type ?? '');
}

/** A tool of the client, the built-in web search, or the search for tools. Throws a `ResponsesError` for Anthropic's other tools. */
function toolOf({ at, ...tool }: z.infer<typeof clientTool> & { at: number }): RequestTool {
  const { type, name, description, input_schema: parameters, strict, defer_loading } = tool;
  if (isToolSearch(tool)) return { type: 'tool_search' };
  if (isWebSearch(tool)) {
    const { allowed_domains: domains, blocked_domains: blocked, user_location } = tool;
    if (blocked?.length) throw invalidAt(`tools.${at}.blocked_domains`, NOT_SUPPORTED);
    const filters = domains?.length ? { allowed_domains: domains } : undefined;
    return { type: 'web_search', ...omitNull({ filters, user_location }) };
  }
  if (type != null && type !== 'custom')
    throw invalidAt(`tools.${at}.type`, `Tools of type ${JSON.stringify(type)} are not supported.`);
  if (parameters === undefined) throw invalidAt(`tools.${at}.input_schema`, 'Field required');
  const own = {
    parameters,
    strict: strict === true,
    ...omitNull({ description, defer_loading: defer_loading || null }),
  };
  return readTool({ type: 'function', name: shortenToolName(name), ...own }, `tools.${at}`);
}

function choiceOf(choice: Prompt['tool_choice'], search: string | undefined): RequestToolChoice | undefined {
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

function userOf({ metadata }: Create): string | undefined {
  return metadata?.user_id == null ? undefined : fitId(metadata.user_id);
}

/** Throws a `ResponsesError` for `top_k` and `stop_sequences` if the provider does not have them. */
function providerOptionsOf(body: Create, provider: string): JsonObject {
  const { top_k, stop_sequences, metadata, service_tier } = body;
  const stop = stop_sequences?.length ? stop_sequences : undefined;
  const sampling = samplingOptions({ stop, top_k }, provider, name =>
    invalidAt(name === 'stop' ? 'stop_sequences' : name, 'This parameter is not supported for this model.'),
  );
  if (provider !== ANTHROPIC) return sampling;
  return {
    ...sampling,
    ...promptOptions(body),
    ...omitNull({
      fallbacks: body.fallbacks,
      metadata: metadata?.user_id == null ? undefined : { user_id: metadata.user_id },
      service_tier,
      cache_control: body.cache_control,
    }),
  };
}

/** Beta features that no field of a request asks for: the adapter turns on those of the fields. */
const BETAS =
  /^(?:interleaved-thinking|context-1m|effort|advanced-tool-use|extended-cache-ttl)-\d{4}-\d{2}-\d{2}$/;
const MOST_BETAS = 50;

function betasFor(provider: string, header = ''): { betas?: string[] } {
  if (provider !== ANTHROPIC) return {};
  const asked = header.split(',', MOST_BETAS).map(beta => beta.trim());
  const betas = asked.filter(beta => beta.length < 100 && BETAS.test(beta));
  return betas.length === 0 ? {} : { betas };
}

/** In tokens, by effort; above the last it is `high`. */
const BUDGETS: readonly (readonly [effort: string, most: number])[] = [
  ['low', 4_096],
  ['medium', 16_384],
];

/**
 * For providers other than Anthropic, which gets `promptOptions`. `output_config.effort` counts first, with `high` for
 * the efforts above; then a thinking budget, by its size. `disabled` is the effort `none` where every model takes it.
 * Adaptive thinking leaves the effort to the model. Shown thinking asks for a summary.
 */
function reasoningOf(body: Prompt, provider: string): { effort?: string; summary?: string } {
  if (provider === ANTHROPIC) return {};
  const { thinking, output_config: config } = body;
  return omitUndefined({
    effort: effortOf(config?.effort) ?? budgetEffort(thinking, provider),
    summary: shownThinking(body) === 'shown' ? 'auto' : undefined,
  });
}

function effortOf(effort: string | null | undefined): string | undefined {
  return effort === 'xhigh' || effort === 'max' ? 'high' : (effort ?? undefined);
}

function budgetEffort(thinking: Prompt['thinking'], provider: string): string | undefined {
  if (thinking?.type === 'disabled') return takesNoEffort(provider) ? 'none' : undefined;
  if (thinking?.type !== 'enabled') return undefined;
  return BUDGETS.find(([, most]) => thinking.budget_tokens <= most)?.[0] ?? 'high';
}

/** What a prompt has for models of Anthropic beside the fields of other requests. */
function promptOptions(body: Prompt): JsonObject {
  const { thinking, output_config: config, context_management, speed } = body;
  const how: JsonObject = omitNull({ effort: config?.effort, task_budget: config?.task_budget });
  const given = omitNull({
    thinking,
    output_config: Object.keys(how).length === 0 ? undefined : how,
    context_management,
    speed,
  });
  return { ...given, cache_marks: cacheMarksOf(body) ?? null };
}
