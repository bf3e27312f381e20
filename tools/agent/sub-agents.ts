import { readPage } from '../../engine/journal/read-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import type { ChildRequest, ChildRuns } from '../../engine/sub-agents/child-runs.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool, ToolSource } from '../../protocol/tool.ts';
import { type AgentOptions, defineAgent } from './agent-options.ts';

type Tools = readonly (Tool | ToolSource)[];

/** How an agent begins a run for a call of another agent's run. */
export const BEGIN_CHILD = Symbol('agentchart.beginChild');

/** An agent as the one above has it. */
export interface SubAgent {
  readonly name: string;
  readonly options: AgentOptions;
  open(runId: string): Promise<Run>;
  close(): Promise<void>;
  [BEGIN_CHILD](request: ChildRequest): Promise<Run>;
}

/** The agents behind an agent's tools, each made anew on that agent's store when it is first needed. */
export class SubAgents<Agent extends SubAgent> implements ChildRuns {
  readonly #store: Store;
  readonly #byTool: ReadonlyMap<string, Agent>;
  readonly #place: (agent: Agent) => Agent;
  readonly #placed = new Map<Agent, Agent>();

  /** `place` makes an agent like the given one, for a parent. Throws `agent-invalid` for two of one name. */
  constructor(own: { name: string; store: Store; tools: Tools }, place: (agent: Agent) => Agent) {
    this.#store = own.store;
    this.#byTool = agentsBehind<Agent>(own.tools);
    this.#place = place;
    assertNamesDiffer(own.name, [...new Set(this.#byTool.values())]);
  }

  has(tool: string): boolean {
    return this.#byTool.has(tool);
  }

  async begin(tool: string, request: ChildRequest): Promise<Run> {
    const agent = this.#byTool.get(tool);
    if (agent === undefined) throw new EngineError('agent-invalid', `No agent is behind the tool "${tool}".`);
    return await this.#on(agent)[BEGIN_CHILD](request);
  }

  async open(runId: string): Promise<Run> {
    const record = await this.#store.get(runId);
    const agent = record && this.findAbove(record.agent);
    if (agent === undefined) throw new EngineError('run-unknown', `No sub-agent here has a run ${runId}.`);
    return await agent.open(runId);
  }

  async lookFor(runId: string, parentId: string): Promise<'there' | 'none' | 'unknown'> {
    if ((await this.#store.get(runId)) !== undefined) return 'there';
    const [first] = await readPage(this.#store, parentId, 0, { entries: 1 });
    return first?.event.type === 'run.started' ? 'none' : 'unknown';
  }

  /** The agent right below that has this name, or has one of this name below it. */
  findAbove(name: string): Agent | undefined {
    const agent = [...this.#byTool.values()].find(one => namesOf(one).includes(name));
    return agent && this.#on(agent);
  }

  /** Throws `agent-invalid` where an agent right below could not keep to a limit on the cost. */
  assertPriced(): void {
    for (const agent of new Set(this.#byTool.values())) {
      const { options } = this.#on(agent);
      defineAgent({ ...options, limits: { ...options.limits, cost: 1 } });
    }
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

/** The names of an agent and of all agents below it: its runs and theirs are found by them. */
export function namesOf({ name, options }: SubAgent): string[] {
  return [name, ...[...agentsBehind(options.tools ?? []).values()].flatMap(namesOf)];
}

/** The agent itself or one below it, by its name. */
export function agentNamed<Agent extends SubAgent>(agent: Agent, name: string): Agent | undefined {
  if (agent.name === name) return agent;
  for (const below of agentsBehind<Agent>(agent.options.tools ?? []).values()) {
    const found = agentNamed(below, name);
    if (found !== undefined) return found;
  }
  return undefined;
}

function agentsBehind<Agent extends SubAgent>(tools: Tools): Map<string, Agent> {
  return new Map(
    tools.flatMap(tool =>
      'name' in tool && 'subAgent' in tool && tool.subAgent !== undefined
        ? [[tool.name, tool.subAgent as Agent]]
        : [],
    ),
  );
}

/** One agent may be a tool of several; two agents may not have one name. */
function assertNamesDiffer(own: string, agents: readonly SubAgent[]): void {
  const known = new Map<string, SubAgent>();
  const meet = (agent: SubAgent) => {
    if (agent.name === own || (known.get(agent.name) ?? agent) !== agent) {
      throw new EngineError(
        'agent-invalid',
        `Agent "${own}" and its sub-agents need names of their own: "${agent.name}" is there twice.`,
      );
    }
    known.set(agent.name, agent);
    for (const below of agentsBehind(agent.options.tools ?? []).values()) meet(below);
  };
  for (const agent of agents) meet(agent);
}

/** Why an agent does not take a run: it belongs to `owner`, and `agent` would drive it with its own model and tools. */
export function foreignRun(runId: string, owner: string, agent: string): EngineError {
  return new EngineError(
    'run-foreign',
    `Run ${runId} belongs to agent "${owner}", and this is agent "${agent}", which would go on with its own model and tools. ` +
      `Open the run with agent "${owner}", or with an agent that has "${owner}" as a sub-agent. ` +
      `To hand the conversation over, wait until the run has ended and begin one with { continues: '${runId}' }.`,
    { runId, owner, agent },
  );
}
