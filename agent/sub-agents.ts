import { readPage } from '../engine/journal/read-journal.ts';
import type { Run } from '../engine/run/run.ts';
import type { ChildRequest, StoryAgent, SubAgentRuns } from '../engine/sub-agents/sub-agent-runs.ts';
import { limitsUsage } from '../machines/limits.ts';
import type { Limits } from '../protocol/config.ts';
import { EngineError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Store } from '../protocol/store.ts';
import type { Tool, ToolSource } from '../protocol/tool.ts';
import type { AgentOptions } from './agent-options.ts';

type Tools = readonly (Tool | ToolSource)[];

export const BEGIN_CHILD = Symbol('agentchart.beginChild');
export const ASSERT_BOUND = Symbol('agentchart.assertBound');

export interface SubAgent {
  readonly name: string;
  readonly options: AgentOptions;
  open(runId: string): Promise<Run>;
  close(): Promise<void>;
  [BEGIN_CHILD](request: ChildRequest): Promise<Run>;
  [ASSERT_BOUND](limits: Limits): void;
}

/** The sub-agents of an agent, by tool. Each is copied onto the agent's store when it is first needed. */
export class SubAgents<Agent extends SubAgent> implements SubAgentRuns {
  readonly #self: Agent;
  readonly #store: Store;
  readonly #byTool: ReadonlyMap<string, Agent>;
  readonly #place: (agent: Agent) => Agent;
  readonly #placed = new Map<Agent, Agent>();

  /** `place` copies an agent onto the parent's store. Throws `agent-invalid` for duplicate names. */
  constructor(
    own: { self: Agent; name: string; store: Store; tools: Tools },
    place: (agent: Agent) => Agent,
  ) {
    this.#self = own.self;
    this.#store = own.store;
    this.#byTool = subAgentsOf<Agent>(own.tools);
    this.#place = place;
    assertNamesDiffer(own.name, [...new Set(this.#byTool.values())]);
  }

  has(tool: string): boolean {
    return this.#byTool.has(tool);
  }

  readonly subAgent = (tool: string): StoryAgent | undefined => {
    const agent = this.#byTool.get(tool);
    return agent && storyAgentOf(agent);
  };

  async begin(tool: string, request: ChildRequest): Promise<Run> {
    if (request.onlyCall !== undefined) return await this.#self[BEGIN_CHILD](request);
    const agent = this.#byTool.get(tool);
    if (agent === undefined) throw new EngineError('agent-invalid', `Tool "${tool}" is not a sub-agent.`);
    return await this.#on(agent)[BEGIN_CHILD](request);
  }

  async open(runId: string): Promise<Run> {
    const record = await this.#store.get(runId);
    const isOwn = record?.agent === this.#self.name;
    const agent = isOwn ? this.#self : record && this.findAbove(record.agent);
    if (agent === undefined) throw new EngineError('run-unknown', `No sub-agent has a run ${runId}.`);
    return await agent.open(runId);
  }

  /** Looks for a child run; `unknown` if the journal of its parent has no start here, so it may be elsewhere. */
  async lookFor(runId: string, parentId: string): Promise<'there' | 'none' | 'unknown'> {
    if ((await this.#store.get(runId)) !== undefined) return 'there';
    const [first] = await readPage(this.#store, parentId, 0, { entries: 1 });
    return first?.event.type === 'run.started' ? 'none' : 'unknown';
  }

  findAbove(name: string): Agent | undefined {
    const agent = [...this.#byTool.values()].find(candidate => namesOf(candidate).includes(name));
    return agent && this.#on(agent);
  }

  /** Throws `agent-invalid` if a limit on tokens or cost cannot bind for a sub-agent, which gets a share of it. */
  assertBoundBy(limits: Limits): void {
    if (!limitsUsage(limits)) return;
    for (const agent of new Set(this.#byTool.values())) this.#on(agent)[ASSERT_BOUND](limits);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#placed.values()].map(agent => agent.close()));
  }

  #on(agent: Agent): Agent {
    const placed = this.#placed.get(agent) ?? this.#place(agent);
    this.#placed.set(agent, placed);
    return placed;
  }
}

export function placedOptions(own: AgentOptions, parent: AgentOptions & { store: Store }): AgentOptions {
  const { durability, host, makeSupervisor } = parent;
  const model = own.model ?? parent.model;
  const prices = own.prices ?? parent.prices;
  const onUnknownUsage = own.onUnknownUsage ?? parent.onUnknownUsage;
  const forkModels = own.forkModels ?? (own.model === undefined ? parent.forkModels : undefined);
  const defaults = { model, forkModels, prices, onUnknownUsage, durability, host, makeSupervisor };
  return { ...own, store: parent.store, ...omitUndefined(defaults) };
}

export function storyAgentOf({ name, options }: SubAgent): StoryAgent {
  const { textFilters: filters = [], tools = [] } = options;
  const subAgent = (tool: string) => {
    const below = subAgentsOf(tools).get(tool);
    return below && storyAgentOf(below);
  };
  return { name, filters, subAgent };
}

export function namesOf({ name, options }: SubAgent): string[] {
  return [name, ...[...subAgentsOf(options.tools ?? []).values()].flatMap(namesOf)];
}

/** The tool sources of an agent and of its sub-agents. */
export function toolSourcesOf({ options: { tools = [] } }: SubAgent): ToolSource[] {
  const own = tools.filter(tool => 'connect' in tool);
  return [...own, ...[...subAgentsOf(tools).values()].flatMap(toolSourcesOf)];
}

export function agentNamed<Agent extends SubAgent>(agent: Agent, name: string): Agent | undefined {
  if (agent.name === name) return agent;
  for (const below of subAgentsOf<Agent>(agent.options.tools ?? []).values()) {
    const found = agentNamed(below, name);
    if (found !== undefined) return found;
  }
  return undefined;
}

function subAgentsOf<Agent extends SubAgent>(tools: Tools): Map<string, Agent> {
  return new Map(
    tools.flatMap(tool =>
      'name' in tool && 'subAgent' in tool && tool.subAgent !== undefined
        ? [[tool.name, tool.subAgent as Agent]]
        : [],
    ),
  );
}

/** The same agent may occur several times; different agents need different names. */
function assertNamesDiffer(own: string, agents: readonly SubAgent[]): void {
  const known = new Map<string, SubAgent>();
  const visit = (agent: SubAgent) => {
    if (agent.name === own || (known.get(agent.name) ?? agent) !== agent) {
      throw new EngineError(
        'agent-invalid',
        `Agent "${own}" and its sub-agents need different names: "${agent.name}" is used twice.`,
      );
    }
    known.set(agent.name, agent);
    for (const below of subAgentsOf(agent.options.tools ?? []).values()) visit(below);
  };
  for (const agent of agents) visit(agent);
}

export function foreignRun(runId: string, owner: string, agent: string): EngineError {
  return new EngineError(
    'run-foreign',
    `Run ${runId} belongs to agent "${owner}"; agent "${agent}" would drive it with its own model and tools. ` +
      `Open the run with agent "${owner}", or with an agent that has "${owner}" as a sub-agent. ` +
      `To hand the conversation over, wait until the run has ended and start one with { continues: '${runId}' }.`,
    { runId, owner, agent },
  );
}
