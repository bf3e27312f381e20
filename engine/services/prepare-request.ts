import type { Context } from '../../machines/context.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { oncePer } from '../../protocol/once-per.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { ModelRequest, OutputFormat, ToolChoice } from '../../protocol/turn.ts';
import type { AgentDefinition, Instructions } from './definition.ts';
import { definitionsOf, growRequest } from './grow-request.ts';

/** The parts of an agent that make up a request. */
export type TurnParts = Pick<
  AgentDefinition,
  'models' | 'instructions' | 'settings' | 'providerOptions' | 'prepareTurn'
> & {
  /** Default: none. */
  forkModels?: readonly ModelAdapter[];
  tools: ReadonlyMap<string, Tool>;
  output?: OutputFormat;
};

/**
 * `isFullHistory`: the request has the run's full history, not a transcript prepared for this turn. `transcript`: what
 * it has of it, with what is left out since a break.
 */
export type PreparedTurn = Awaited<ReturnType<typeof prepareRequest>>;

/** Returns the request for the current turn. `inherited` is the transcript that the run continues. */
export async function prepareRequest(
  parts: TurnParts,
  context: Context,
  { inherited, newId }: { inherited: readonly Item[]; newId(kind: string): string },
) {
  const history = inherited.length === 0 ? context.transcript : [...inherited, ...context.transcript];
  const { params } = context;
  const preparation =
    (await parts.prepareTurn?.({ ...context, transcript: history, runContext: context.runContext })) ?? {};
  const adapter = preparation.model ?? adapterOf(parts, context);
  if (adapter === undefined) {
    const { code, reason, advice } = describeMissing(parts, context);
    const { runId } = context;
    throw new EngineError(code, `Run ${runId} has no model here: ${reason}. ${advice}`, { runId });
  }
  const tools = toolsNamed(parts.tools, preparation.tools ?? params.tools);
  const toolChoice = chooseTools(context, preparation.toolChoice ?? params.toolChoice);
  const providerOptions = params.providerOptions ?? parts.providerOptions;
  const transcript = preparation.transcript ?? history;
  const isFullHistory = transcript === history;
  // With a `separate` answer, the output schema applies only to the final turn.
  const output = context.config.finalAnswer !== 'separate' || context.turn.final ? parts.output : undefined;
  const choices = [context.config.toolChoice, params.toolChoice, preparation.toolChoice];
  const chosen = choices.flatMap(choice => (typeof choice === 'object' ? choice.name : []));
  const seen = toolsSeen(tools, parts.tools, { adapter, context, history, chosen });
  const offered =
    adapter.capabilities.toolChoice === false ? offeredTools(seen.tools, toolChoice) : seen.tools;
  const settings = preparation.settings ?? params.settings ?? parts.settings;
  const asked = {
    tools: definitionsOf(offered),
    toolChoice,
    settings,
    ...omitUndefined({ providerOptions, output }),
  };
  const { sent, appended, broken, instructions, ...grown } = growRequest({
    adapter,
    context,
    history,
    transcript,
    instructions: params.instructions ?? writeInstructions(parts.instructions, context),
    ownInstructions: typeof parts.instructions === 'string' ? parts.instructions : undefined,
    tools: offered,
    allTools: seen.allTools,
    schema: promptedSchema(adapter, { ...asked, transcript: [] }),
    newId,
  });
  // A token stands for all that was sent, so also for what is void since the break.
  const canContinue = isFullHistory && !(broken && adapter.capabilities.bindsReasoning);
  const request: ModelRequest = {
    ...asked,
    ...grown,
    ...omitUndefined({
      instructions,
      continuation: canContinue ? continuationFor(adapter, context, instructions) : undefined,
      afterDraft: context.turn.final && context.lastTurn?.draft ? true : undefined,
      members: membersOf(offered),
    }),
  };
  return { adapter, request, tools, transcript, isFullHistory, sent, appended, broken };
}

function promptedSchema(adapter: ModelAdapter, request: ModelRequest): JsonValue | undefined {
  if (adapter.promptedSchema !== undefined) return adapter.promptedSchema(request);
  const isPrompted = request.output !== undefined && adapter.capabilities.structuredOutput !== 'native';
  return isPrompted ? toJson(request.output) : undefined;
}

type ToolMap = TurnParts['tools'];

const membersOf = oncePer((tools: ToolMap) => {
  const members = [...tools].flatMap(([name, { member }]) =>
    member === undefined ? [] : [[name, member] as const],
  );
  return members.length === 0 ? undefined : Object.fromEntries(members);
});

/** The tools with these names; with a deferred one also the search for it. */
function toolsNamed(tools: ToolMap, names: readonly string[] | undefined): ToolMap {
  if (names === undefined) return tools;
  const named = [...tools].filter(([name]) => names.includes(name));
  const search = named.some(([, { deferred }]) => deferred) ? searchIn(tools) : undefined;
  return new Map(search === undefined ? named : named.concat([[search.name, search]]));
}

const searchIn = oncePer((tools: ToolMap) => [...tools.values()].find(({ finds }) => finds !== undefined));

/**
 * The tools of a turn as its model gets them, and all tools in that form. A provider that searches gets the deferred ones
 * declared as such; elsewhere the model gets the search, and those that were found, called or chosen before. What was
 * found is in the journal: in the transcript, and what a compaction or an edit took from there in the head that was sent.
 */
function toolsSeen(
  tools: ToolMap,
  allTools: ToolMap,
  about: { adapter: ModelAdapter; context: Context; history: readonly Item[]; chosen: readonly string[] },
): { tools: ToolMap; allTools: ToolMap } {
  const { adapter, context, history, chosen } = about;
  const search = searchIn(allTools);
  if (search === undefined) return { tools, allTools };
  if (adapter.capabilities.toolSearch === true) {
    const all = withoutSearch(allTools);
    if (chosen.length === 0) return { tools: tools === allTools ? all : withoutSearch(tools), allTools: all };
    // Providers refuse a choice of a deferred tool.
    return { tools: loadTools(withoutSearch(tools), chosen), allTools: loadTools(all, chosen) };
  }
  const offered = new Map([...tools].filter(([, { deferred }]) => !deferred));
  for (const name of [...namesHeld(context, search), ...chosen, ...namesFound(history, search)]) {
    const tool = tools.get(name);
    if (tool?.deferred) offered.set(name, loaded(tool));
  }
  return { tools: offered, allTools: loadAll(allTools) };
}

const withoutSearch = oncePer(
  (tools: ToolMap): ToolMap => new Map([...tools].filter(([, { finds }]) => finds === undefined)),
);

/** The tools, those with these names no longer deferred. */
function loadTools(tools: ToolMap, names: readonly string[]): ToolMap {
  return new Map([...tools].map(([name, tool]) => [name, names.includes(name) ? loaded(tool) : tool]));
}

const loadAll = oncePer((tools: ToolMap): ToolMap => loadTools(tools, [...tools.keys()]));

const loaded = oncePer((tool: Tool): Tool => {
  const { deferred, ...rest } = tool;
  return deferred ? rest : tool;
});

/** What the last request had besides a search of ours. With a provider's search, it had every tool. */
function namesHeld({ sent }: Context, search: Tool): string[] {
  if (sent === null) return [];
  const { first, now = first } = sent.setup;
  return [first, now].flatMap(({ names }) => (names.includes(search.name) ? names : []));
}

/** The tools that searches of the transcript have found, and those that were called without. */
function namesFound(history: readonly Item[], { name: ofSearch, finds }: Tool): string[] {
  const searches = new Set<string>();
  return history.flatMap(item => {
    if (item.type === 'tool_call') {
      if (item.name !== ofSearch) return item.name;
      searches.add(item.callId);
    }
    return item.type === 'tool_result' && searches.has(item.callId) ? (finds?.(item.output) ?? []) : [];
  });
}

function writeInstructions(instructions: Instructions | undefined, { runContext }: Context) {
  if (typeof instructions !== 'function') return instructions;
  const written: unknown = instructions(runContext);
  if (typeof written === 'string') return written;
  throw new EngineError(
    'agent-invalid',
    `instructions: expected its function to return a string, got ${typeof written}.`,
  );
}

type Models = Pick<TurnParts, 'models' | 'forkModels' | 'prepareTurn'>;

/** The model of the turn, if this process has it. A fork on another model is driven by that one, or not at all. */
function adapterOf(
  { models, forkModels = [] }: Models,
  { turn, config: { forkModel } }: Context,
): ModelAdapter | undefined {
  if (forkModel === undefined) return models[turn.model];
  const { provider, model } = forkModel;
  return [...models, ...forkModels].find(one => one.provider === provider && one.model === model);
}

/** Why these models cannot make the run's next turn, and what to do; `undefined` if one can. */
export function explainMissingModel(parts: Models, context: Context): MissingModel | undefined {
  if (parts.prepareTurn !== undefined || adapterOf(parts, context) !== undefined) return undefined;
  return describeMissing(parts, context);
}

/** Why this process has no model for a run. */
export type MissingModel = { code: 'model-missing' | 'agent-invalid'; reason: string; advice: string };

function describeMissing({ models }: Models, { turn, config: { forkModel } }: Context): MissingModel {
  if (forkModel !== undefined)
    return {
      code: 'model-missing',
      reason: `it was forked on the model ${forkModel.provider}:${forkModel.model}, which this process does not have`,
      advice: 'Add it to forkModels of the agent, or give it with --fork-model.',
    };
  return {
    code: 'agent-invalid',
    reason: `it uses model ${turn.model + 1} of its list, and the agent has ${models.length}`,
    advice: 'Give the agent as many models as it had, or leave the run to a process whose agent has them.',
  };
}

/** The token is valid only for the provider, model and instructions of the turn that returned it. */
function continuationFor({ provider, model }: ModelAdapter, { continuation }: Context, instructions = '') {
  if (continuation?.provider !== provider || continuation.model !== model) return undefined;
  return continuation.instructions === digestOf(instructions) ? continuation.token : undefined;
}

/** What a model without a tool choice sees: no tools if none may be called, or the one that it must call. */
function offeredTools(tools: ReadonlyMap<string, Tool>, choice: ToolChoice): ReadonlyMap<string, Tool> {
  if (choice !== 'none' && typeof choice === 'string') return tools;
  return new Map([...tools].filter(([name]) => choice !== 'none' && name === choice.name));
}

/** The final turn has tools off. A choice forced by the agent applies only to the first planning turn. */
function chooseTools({ turn, turns, config }: Context, asked: ToolChoice | undefined): ToolChoice {
  if (turn.final) return 'none';
  if (asked !== undefined) return asked;
  return turns === 0 || config.toolChoice === 'none' ? config.toolChoice : 'auto';
}
