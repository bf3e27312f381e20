import type { Item } from '../../protocol/item.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, Settings, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import type { Input } from '../turn/growing-input.ts';
import { integerIn, mergeOptions, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { isObjectSchema, LOST_KEYWORDS, rewriteSubschemas, withOutputSchema } from '../turn/strict-schema.ts';
import { acceptedForm, BUDGETS, LEAST_BUDGET, thinksIn, withoutThinking } from './accepted-form.ts';
import { type CacheMarks, markAuto, markMessages, marksIn, markTools, systemInput } from './cache-marks.ts';
import { keepBlock, keptBlock, waitingContainer } from './messages.ts';
import { familyOf, type ModelFamily } from './model-family.ts';

type BodyOptions = {
  model: string;
  stream: boolean;
  conversationOf(transcript: readonly Item[]): Input;
};

export function bodyOf(
  request: ModelRequest,
  plan: Plan,
  { model, stream, conversationOf }: BodyOptions,
): JsonObject {
  const marks = plan.marks === 'auto' ? undefined : plan.marks;
  const tools = markTools(toolsInput(request, plan), marks);
  const { opening, input: conversation } = conversationOf(
    withSearches(request.transcript, [...tools, ...objectsOf(plan.providerOptions.tools)], plan.family),
  );
  const { instructions = '', output } = request;
  const schema = plan.output.type === 'words' && output ? [withOutputSchema(undefined, output)] : [];
  const messages = markMessages(conversation, marks);
  const merged = mergeOptions(
    mergeOptions(
      {
        model,
        max_tokens: plan.maxTokens,
        ...omitUndefined({
          system: systemInput(instructions, [...schema, ...opening], marks),
          container: waitingContainer(request.transcript),
        }),
        messages,
        ...(stream ? { stream: true } : {}),
        ...(tools.length > 0 ? { tools } : {}),
        ...samplingInput(request.settings),
        ...(plan.output.type === 'native'
          ? { output_config: { format: { type: 'json_schema', schema: plan.output.schema } } }
          : {}),
      },
      plan.thinking,
    ),
    plan.providerOptions,
  );
  const accepted = acceptedForm(merged, plan.family);
  const body = plan.marks === 'auto' ? markAuto(accepted) : accepted;
  if (objectsOf(body.tools).length > 0) return { tool_choice: choiceInput(request, plan), ...body };
  const called = calledTools(messages);
  return called.length > 0 ? { tool_choice: { type: 'none' }, ...body, tools: called } : body;
}

/** Without the tools that the options declare, such as `{ type: 'memory_20250818', name: 'memory' }`. */
function toolsInput({ tools, output }: ModelRequest, plan: Plan): JsonObject[] {
  const own = new Set(objectsOf(plan.providerOptions.tools).map(({ name }) => name));
  const searchesItself = searches(plan.providerOptions);
  const inputs = declarationsOf(tools, plan.family).filter(
    one => !own.has(one.name) && !(searchesItself && one === SEARCH),
  );
  if (plan.output.type !== 'tool' || !output) return inputs;
  const answer = {
    name: plan.output.name,
    description:
      'Gives the final answer. Call it once, when the answer is known, instead of writing the answer.',
    input_schema: objectSchema(output.schema),
  };
  return [...inputs, answer];
}

const SEARCH: JsonObject = { type: 'tool_search_tool_bm25_20251119', name: 'tool_search_tool_bm25' };

function searches({ tools }: JsonObject): boolean {
  return objectsOf(tools).some(({ type }) => /^tool_search_tool_/.test(textIn(type)));
}

/**
 * The transcript with the searches that the model can read. Of their results it has the references whose tool the request
 * declares: the API refuses others. A toolset does not say which tools it has. See
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool.
 */
function withSearches(
  transcript: readonly Item[],
  tools: readonly JsonObject[],
  { toolSearch }: ModelFamily,
): readonly Item[] {
  if (!toolSearch && !searches({ tools: [...tools] }))
    return transcript.some(isSearch) ? transcript.filter(item => !isSearch(item)) : transcript;
  const names = new Set(tools.map(({ name }) => name));
  const isKnown = (reference: JsonObject) => names.has(reference.tool_name);
  const hasUnknown = (item: Item) => referencesIn(item).some(reference => !isKnown(reference));
  const isSure = tools.length > 0 && tools.every(({ name }) => name !== undefined);
  if (!isSure || !transcript.some(hasUnknown)) return transcript;
  return transcript.map(item => {
    const block = item.type === 'provider_item' ? keptBlock(item.opaque) : undefined;
    if (item.type !== 'provider_item' || !block || !hasUnknown(item)) return item;
    const content = { ...objectOf(block.content), tool_references: referencesIn(item).filter(isKnown) };
    return { ...item, opaque: keepBlock({ ...block, content }) };
  });
}

function isSearch(item: Item): boolean {
  if (item.type !== 'provider_item') return false;
  return (
    item.kind === 'tool_search_tool_result' ||
    (item.kind === 'server_tool_use' && /^tool_search_tool_/.test(textIn(keptBlock(item.opaque)?.name)))
  );
}

function referencesIn(item: Item): JsonObject[] {
  if (item.type !== 'provider_item' || item.kind !== 'tool_search_tool_result') return [];
  return objectsOf(objectOf(keptBlock(item.opaque)?.content).tool_references);
}

/** With the provider's search if a tool is deferred. */
export function declarationsOf(
  tools: readonly ToolDefinition[],
  { nativeOutput }: ModelFamily,
): JsonObject[] {
  return nativeOutput ? nativeToolInputs(tools) : plainToolInputs(tools);
}

const nativeToolInputs = convertOnce<ToolDefinition>(tools =>
  toolInputs(tools, tool => (tool.strict === true ? nativeSchema(tool.inputSchema) : undefined)),
);
const plainToolInputs = convertOnce<ToolDefinition>(tools => toolInputs(tools, () => undefined));

function toolInputs(
  tools: readonly ToolDefinition[],
  strictFormOf: (tool: ToolDefinition) => JsonObject | undefined,
): JsonObject[] {
  const inputs = tools.map(tool => toolInput(tool, strictFormOf(tool)));
  return tools.some(({ deferred }) => deferred === true) ? [...inputs, SEARCH] : inputs;
}

function toolInput(
  { name, description, inputSchema, deferred }: ToolDefinition,
  strictForm: JsonObject | undefined,
): JsonObject {
  return {
    name,
    ...omitUndefined({ description: description || undefined }),
    input_schema: objectSchema(strictForm ?? inputSchema),
    ...(strictForm ? { strict: true } : {}),
    ...(deferred ? { defer_loading: true } : {}),
  };
}

function objectSchema(schema: JsonObject): JsonObject {
  return { ...schema, type: 'object' };
}

/** Returns declarations for the called tools: the API refuses calls in a transcript if no tool is declared. */
function calledTools(messages: readonly JsonObject[]): JsonObject[] {
  const names = new Set<string>();
  for (const { content } of messages) {
    for (const block of objectsOf(content)) if (block.type === 'tool_use') names.add(textIn(block.name));
  }
  return [...names].map(name => ({ name, input_schema: { type: 'object' } }));
}

function choiceInput({ tools, toolChoice, settings }: ModelRequest, { output, mayForce }: Plan): JsonObject {
  const single: JsonObject = settings.parallelToolCalls === false ? { disable_parallel_tool_use: true } : {};
  if (output.type === 'tool' && mayForce) {
    return tools.length > 0 && toolChoice === 'auto'
      ? { type: 'any', ...single }
      : { type: 'tool', name: output.name, disable_parallel_tool_use: true };
  }
  if (toolChoice === 'none' && output.type !== 'tool') return { type: 'none' };
  if (toolChoice === 'auto' || toolChoice === 'none') return { type: 'auto', ...single };
  return toolChoice === 'required'
    ? { type: 'any', ...single }
    : { type: 'tool', name: toolChoice.name, ...single };
}

/** Other providers take a `temperature` up to 2. */
function samplingInput({ temperature, topP: top_p }: Settings): JsonObject {
  const limited = temperature === undefined ? undefined : Math.min(1, Math.max(0, temperature));
  return omitUndefined({ temperature: limited, top_p });
}

type PlanOptions = {
  model: string;
  /** Whether the model can enforce an output schema. Default: judged by its name. */
  nativeOutput: boolean | undefined;
  providerOptions: JsonObject | undefined;
  display: ThinkingDisplay | undefined;
};

/** How much of the thinking the model returns; `updates` is only what it says between calls (a beta feature). */
export type ThinkingDisplay = 'summarized' | 'updates' | 'omitted';

/**
 * How the output schema is enforced:
 * - `free`: not at all, because there is none or another call is forced;
 * - `native`: with `output_config.format`;
 * - `tool`: with an additional tool called `name`, whose input is the answer;
 * - `words`: with instructions, when tools are turned off and a call cannot be forced.
 */
type OutputPlan =
  | { type: 'free' }
  | { type: 'native'; schema: JsonObject }
  | { type: 'tool'; name: string }
  | { type: 'words' };

/** Decisions that the request and the reading of the response share. Derived from the request alone. */
type Plan = {
  family: ModelFamily;
  providerOptions: JsonObject;
  marks: CacheMarks | 'auto' | undefined;
  maxTokens: number;
  thinking: JsonObject;
  mayForce: boolean;
  output: OutputPlan;
};

export function planOf(request: ModelRequest, options: PlanOptions): Plan {
  const family = familyOf(options.model);
  const merged = mergeOptions(options.providerOptions ?? {}, request.providerOptions);
  // They are not members of the body: see `markMessages` and `requestHeaders`.
  const { cache_marks: _, betas: __, ...providerOptions } = merged;
  const maxTokens = request.settings.maxOutputTokens ?? defaultMaxTokens(family, providerOptions);
  // A forced call is written without thinking, also by models that accept both.
  const isUnthinking = family.forcedChoice === 'unthinking' && forcesCall(request);
  const effort = isUnthinking ? 'none' : request.settings.reasoningEffort;
  const thinking = thinkingInput(effort, family, {
    maxTokens: integerIn(providerOptions.max_tokens) ?? maxTokens,
    display: options.display,
  });
  const thinks = thinksIn(acceptedForm(mergeOptions(thinking, providerOptions), family), family);
  const mayForce = family.forcedChoice === 'always' || (family.forcedChoice === 'unthinking' && !thinks);
  const native = options.nativeOutput ?? family.nativeOutput;
  const output = outputPlan(request, { native, mayForce });
  return { family, providerOptions, marks: marksIn(merged), maxTokens, thinking, mayForce, output };
}

function forcesCall({ tools, toolChoice }: Pick<ModelRequest, 'tools' | 'toolChoice'>): boolean {
  return tools.length > 0 && toolChoice !== 'auto' && toolChoice !== 'none';
}

/** A large thinking budget is added to the default, because it must be below `max_tokens`. */
function defaultMaxTokens({ maxOutputTokens }: ModelFamily, providerOptions: JsonObject): number {
  const budget = integerIn(objectOf(providerOptions.thinking).budget_tokens) ?? 0;
  return budget < maxOutputTokens ? maxOutputTokens : maxOutputTokens + budget;
}

function outputPlan(
  { output, tools, toolChoice }: ModelRequest,
  { native, mayForce }: { native: boolean; mayForce: boolean },
): OutputPlan {
  if (!output) return { type: 'free' };
  const schema = native ? nativeSchema(output.schema) : undefined;
  if (schema) return { type: 'native', schema };
  if (tools.length > 0) {
    if (forcesCall({ tools, toolChoice }) && mayForce) return { type: 'free' };
    if (toolChoice === 'none' && !mayForce) return { type: 'words' };
  }
  let name = 'structured_output';
  while (tools.some(tool => tool.name === name)) name = `${name}_`;
  return { type: 'tool', name };
}

/**
 * Nothing, a budget that leaves room for the answer, or an effort. An unknown one means `medium`, or is sent. Where
 * thinking is left without its text, the text is asked for: the newest models also write there what they say between
 * calls. See https://platform.claude.com/docs/en/build-with-claude/thinking#controlling-thinking-display.
 */
function thinkingInput(
  effort: string | undefined,
  family: ModelFamily,
  { maxTokens, display }: { maxTokens: number; display: ThinkingDisplay | undefined },
): JsonObject {
  const input = effortInput(effort, family, maxTokens);
  const shown = display ?? (family.hidesThinking ? 'summarized' : undefined);
  if (shown === undefined || !thinksIn(input, family)) return input;
  return { ...input, thinking: { type: 'adaptive', ...objectOf(input.thinking), display: shown } };
}

function effortInput(effort: string | undefined, family: ModelFamily, maxTokens: number): JsonObject {
  const { thinkingModes } = family;
  if (effort === undefined || thinkingModes.length === 0) return {};
  if (effort === 'none') return family.thinksByDefault ? withoutThinking({}, family) : {};
  if (thinkingModes.includes('adaptive')) {
    return { thinking: { type: 'adaptive' }, output_config: { effort: effortOf(effort, family) } };
  }
  const largest = Math.max(LEAST_BUDGET, Math.floor(maxTokens * 0.75));
  const budget = Math.min(BUDGETS[effort] ?? 10_000, largest);
  return budget < maxTokens ? { thinking: { type: 'enabled', budget_tokens: budget } } : {};
}

function effortOf(effort: string, { extraHighEffort }: ModelFamily): string {
  if (effort === 'minimal') return 'low';
  return effort === 'xhigh' && !extraHighEffort ? 'high' : effort;
}

/** Keywords that the API refuses and that only narrow a value: they become part of its description. */
const NARROWING = [
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minLength', 'maxLength'],
  ...['pattern', 'maxItems', 'uniqueItems'],
];

const FORMATS = ['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'];

/**
 * Closes every object, and writes limits of numbers, texts and lists into descriptions. Returns `undefined` for a schema
 * that is open, recursive, or has an unsupported keyword. See
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations.
 */
export function nativeSchema(schema: JsonObject): JsonObject | undefined {
  if (LOST_KEYWORDS.some(keyword => keyword in schema) || isRecursive(schema)) return undefined;
  const { $schema: _, additionalProperties, oneOf, ...form } = schema;
  if (oneOf !== undefined) form.anyOf = oneOf;
  if (isObjectSchema(schema)) {
    if ((additionalProperties ?? false) !== false) return undefined;
    form.properties = objectOf(schema.properties);
    form.additionalProperties = false;
  }
  describeLimits(form);
  return rewriteSubschemas(form, nativeSchema);
}

function isRecursive(schema: JsonObject): boolean {
  if (schema.$ref === '#') return true;
  return ['$defs', 'definitions'].some(keyword =>
    Object.entries(objectOf(schema[keyword])).some(([name, definition]) =>
      JSON.stringify(definition).includes(`"#/${keyword}/${name}"`),
    ),
  );
}

function describeLimits(form: JsonObject): void {
  const limits: string[] = [];
  for (const keyword of [...NARROWING, 'format', 'minItems']) {
    const limit = form[keyword];
    if (limit === undefined || isSupported(keyword, limit)) continue;
    limits.push(`${keyword}: ${JSON.stringify(limit)}`);
    delete form[keyword];
  }
  if (limits.length === 0) return;
  const description = textIn(form.description);
  form.description = `${description}${description === '' ? '' : '\n\n'}{${limits.join(', ')}}`;
}

function isSupported(keyword: string, limit: JsonValue): boolean {
  if (keyword === 'format') return FORMATS.includes(textIn(limit));
  return keyword === 'minItems' && (limit === 0 || limit === 1);
}
