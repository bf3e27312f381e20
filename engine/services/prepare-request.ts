import type { Context } from '../../machines/context.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { type Tool, toolDefinition } from '../../protocol/tool.ts';
import type {
  ModelRequest,
  OutputFormat,
  Settings,
  ToolChoice,
  ToolDefinition,
} from '../../protocol/turn.ts';
import type { PrepareTurn } from '../definition.ts';
import { digestOf } from '../journal/digest.ts';

export type TurnParts = {
  models: readonly ModelAdapter[];
  instructions?: string;
  tools: ReadonlyMap<string, Tool>;
  settings: Settings;
  providerOptions?: JsonObject;
  output?: OutputFormat;
  prepareTurn?: PrepareTurn;
};

export type PreparedTurn = {
  adapter: ModelAdapter;
  request: ModelRequest;
  tools: ReadonlyMap<string, Tool>;
  /** The request carries the run's history, not one made for this turn. */
  wholeHistory: boolean;
};

/** The request of the turn the context stands in; `inherited` is what the run continues. */
export async function prepareRequest(
  parts: TurnParts,
  context: Context,
  inherited: readonly Item[],
): Promise<PreparedTurn> {
  const history = inherited.length === 0 ? context.transcript : [...inherited, ...context.transcript];
  const { params } = context;
  const preparation = (await parts.prepareTurn?.({ ...context, transcript: history })) ?? {};
  const adapter = preparation.model ?? adapterAt(parts.models, context.turn.model);
  const names = preparation.tools ?? params.tools;
  const tools = names === undefined ? parts.tools : pickTools(parts.tools, names);
  const instructions = params.instructions ?? parts.instructions;
  const providerOptions = params.providerOptions ?? parts.providerOptions;
  const transcript = preparation.transcript ?? history;
  const wholeHistory = transcript === history;
  const continuation = wholeHistory ? continuationFor(adapter, context, instructions) : undefined;
  const request: ModelRequest = {
    transcript,
    tools: definitionsOf(tools),
    toolChoice: chooseTools(context, preparation.toolChoice ?? params.toolChoice),
    settings: preparation.settings ?? params.settings ?? parts.settings,
    ...(instructions === undefined ? {} : { instructions }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
    ...(continuation === undefined ? {} : { continuation }),
    ...(parts.output === undefined || !mayAnswer(context) ? {} : { output: parts.output }),
  };
  return { adapter, request, tools, wholeHistory };
}

function adapterAt(models: readonly ModelAdapter[], index: number): ModelAdapter {
  const adapter = models[index];
  if (adapter !== undefined) return adapter;
  throw new EngineError(
    'agent-invalid',
    `The run uses model ${index + 1} of its list, and the agent has ${models.length}.`,
  );
}

/** A `separate` answer is a call of its own: planning is not held to the output's schema. */
function mayAnswer({ config, turn }: Context): boolean {
  return config.finalAnswer !== 'separate' || turn.final;
}

/** Holds only while provider, model and instructions are those of the turn that gave it. */
function continuationFor({ provider, model }: ModelAdapter, { continuation }: Context, instructions = '') {
  if (continuation?.provider !== provider || continuation.model !== model) return undefined;
  return continuation.instructions === digestOf(instructions) ? continuation.token : undefined;
}

/** A forced choice of the agent holds for the first planning turn only; tools off is off whatever anybody says. */
function chooseTools({ turn, turns, config }: Context, asked: ToolChoice | undefined): ToolChoice {
  if (turn.final) return 'none';
  if (asked !== undefined) return asked;
  return turns === 0 || config.toolChoice === 'none' ? config.toolChoice : 'auto';
}

function pickTools(tools: ReadonlyMap<string, Tool>, names: readonly string[]): ReadonlyMap<string, Tool> {
  return new Map([...tools].filter(([name]) => names.includes(name)));
}

const definitions = new WeakMap<ReadonlyMap<string, Tool>, ToolDefinition[]>();

function definitionsOf(tools: ReadonlyMap<string, Tool>): ToolDefinition[] {
  const known = definitions.get(tools);
  if (known !== undefined) return known;
  const made = [...tools.values()].map(toolDefinition);
  definitions.set(tools, made);
  return made;
}
