import type { Host } from '../../../engine/driver/host.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool, ToolSource } from '../../../protocol/tool.ts';
import type { OutputFormat, Settings, ToolChoice } from '../../../protocol/turn.ts';
import { type Agent, createAgent } from '../../../tools/agent/agent.ts';
import type { CreateBody } from '../request/request-body.ts';
import { type Exposed, RESPONSES } from '../wire/response-spec.ts';
import { withOutput } from './gateway-models.ts';

/** Tool calls of the gateway between two inputs of the client; approvals are none. */
const MOST_TOOL_CALLS = 10;
const MOST_TURNS = 20;

/** How many calls of the gateway's tools a response may run, those it approves included. */
export function mostToolCalls({ max_tool_calls: wanted }: CreateBody): number {
  return Math.min(wanted ?? MOST_TOOL_CALLS, MOST_TOOL_CALLS);
}

/** The limits of a run for one more response, which may make `toolCalls` more. */
export function budgetOf(
  toolCalls: number,
  spent: { toolCalls: number; turns: number; callsBefore: number },
) {
  return {
    toolCalls: Math.min(spent.toolCalls + toolCalls, spent.callsBefore + MOST_TOOL_CALLS),
    turns: spent.turns + MOST_TURNS,
  };
}

/** Tools with the names that servers' tools have among them. */
export type AgentTools = { tools: readonly (Tool | ToolSource)[]; exposed: Exposed };

/** The agent that a request describes. `turnsBefore` counts the turns its run had before the request. */
export function makeRequestAgent(options: {
  body: CreateBody;
  toolset: AgentTools;
  model: ModelAdapter;
  store: Store;
  host: Host;
  turnsBefore: number;
}): Agent {
  const { body, toolset, model, store, host, turnsBefore } = options;
  const choice = readChoice(body, toolset.exposed);
  const providerOptions = optionsFor(model.provider, body);
  return createAgent({
    name: RESPONSES,
    model: withOutput(model, outputOf(body)),
    tools: toolset.tools,
    settings: settingsOf(body),
    limits: budgetOf(mostToolCalls(body), { toolCalls: 0, turns: 0, callsBefore: 0 }),
    ...(body.instructions == null ? {} : { instructions: body.instructions }),
    ...(providerOptions === undefined ? {} : { providerOptions }),
    prepareTurn: ({ turns }) => ({
      toolChoice: turns === turnsBefore || choice.first === 'none' ? choice.first : 'auto',
      ...(choice.tools === undefined ? {} : { tools: choice.tools }),
    }),
    store,
    host,
  });
}

/** `first` holds for the first turn of the response; `tools` for all of them. */
function readChoice(
  { tool_choice: choice }: CreateBody,
  exposed: Exposed,
): { first: ToolChoice; tools?: string[] } {
  if (choice == null) return { first: 'auto' };
  if (typeof choice === 'string') return { first: choice };
  switch (choice.type) {
    case 'function':
      return { first: { name: choice.name } };
    case 'mcp': {
      const names = namesOf(exposed, choice.server_label, choice.name);
      const [only, second] = names;
      if (only !== undefined && second === undefined) return { first: { name: only } };
      return { first: 'required', tools: names };
    }
    case 'allowed_tools':
      return {
        first: choice.mode,
        tools: choice.tools.flatMap(tool =>
          tool.type === 'mcp' ? namesOf(exposed, tool.server_label, tool.name) : [tool.name],
        ),
      };
  }
}

function namesOf(exposed: Exposed, label: string, name: string | null | undefined): string[] {
  return Object.entries(exposed)
    .filter(
      ([, tool]) => tool.hidden !== true && tool.label === label && (name == null || tool.name === name),
    )
    .map(([known]) => known);
}

function settingsOf(body: CreateBody): Settings {
  return {
    ...(body.temperature == null ? {} : { temperature: body.temperature }),
    ...(body.top_p == null ? {} : { topP: body.top_p }),
    ...(body.max_output_tokens == null ? {} : { maxOutputTokens: body.max_output_tokens }),
    ...(body.parallel_tool_calls == null ? {} : { parallelToolCalls: body.parallel_tool_calls }),
    ...(body.reasoning?.effort == null ? {} : { reasoningEffort: body.reasoning.effort }),
  };
}

function outputOf({ text }: CreateBody): OutputFormat | undefined {
  const format = text?.format;
  if (format?.type === 'json_object') return { name: 'answer', schema: { type: 'object' } };
  if (format?.type !== 'json_schema') return undefined;
  return {
    name: format.name,
    schema: format.schema,
    ...(format.strict == null ? {} : { strict: format.strict }),
  };
}

/** What only this dialect has goes on to a provider that speaks it. */
function optionsFor(provider: string, body: CreateBody): JsonObject | undefined {
  if (provider !== 'openai-responses') return undefined;
  const options: JsonObject = {
    ...(body.reasoning?.summary == null ? {} : { reasoning: { summary: body.reasoning.summary } }),
    ...(body.text?.verbosity == null ? {} : { text: { verbosity: body.text.verbosity } }),
    ...(body.service_tier == null ? {} : { service_tier: body.service_tier }),
    ...(body.prompt_cache_key == null ? {} : { prompt_cache_key: body.prompt_cache_key }),
    ...(body.safety_identifier == null ? {} : { safety_identifier: body.safety_identifier }),
    ...(body.truncation == null ? {} : { truncation: body.truncation }),
  };
  return Object.keys(options).length === 0 ? undefined : options;
}
