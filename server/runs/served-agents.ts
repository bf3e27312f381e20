import type { Run } from '../../engine/run/run.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { filterText } from '../../text/text-filter.ts';
import { type Agent, createAgent } from '../../tools/agent/agent.ts';
import { agentNamed, namesOf } from '../../tools/agent/sub-agents.ts';
import { ApiError } from '../error-envelope.ts';

/** What a later process needs to make an agent again. */
export type Launch = { module?: string; model?: string };

export type AgentSummary = {
  name: string;
  version?: string;
  models: { provider: string; model: string }[];
  /** How many tools it has, where that is known without asking tool servers. */
  tools?: number;
};

export type ServedAgentsOptions = {
  store: Store;
  /** By name; on `store`. */
  agents: ReadonlyMap<string, Agent>;
  launches?: ReadonlyMap<string, Launch>;
  /** By name: agents that are made for each run of theirs, and begin none here. */
  agentsByRun?: ReadonlyMap<string, (record: RunRecord) => Promise<Agent | undefined>>;
  /** Makes the agent that reads and ends runs whose own is not served. It must not drive. */
  fallbackAgentFor?: (record: RunRecord) => Agent;
};

/** The agents of a server, and what stands in for those it does not have. */
export class ServedAgents {
  readonly #options: ServedAgentsOptions;

  constructor(options: ServedAgentsOptions) {
    this.#options = options;
  }

  list(): AgentSummary[] {
    return [...this.#options.agents.values()].map(summarizeAgent);
  }

  has(name: string): boolean {
    return this.#find(name) !== undefined || this.#options.agentsByRun?.has(name) === true;
  }

  launchOf(name: string): Launch | undefined {
    return this.#options.launches?.get(name);
  }

  /** The agent to begin a run with: the one named, or the only one. */
  choose(name: string | undefined): Agent {
    const { agents } = this.#options;
    const [only, second] = agents.values();
    if (only === undefined) {
      throw new ApiError(
        'model-missing',
        'This server has no agent: it shows runs and begins none. Start it with --agent MODULE, or set AGENTCHART_MODEL.',
      );
    }
    const names = [...agents.keys()].join(', ');
    if (name === undefined && second !== undefined)
      throw new ApiError('input-invalid', `Name the agent: "agent" is one of ${names}.`);
    const agent = name === undefined ? only : agents.get(name);
    if (agent !== undefined) return agent;
    throw new ApiError('agent-unknown', `This server has no agent of that name; it has ${names}.`);
  }

  async open(record: RunRecord): Promise<Run> {
    const { agentsByRun, store, fallbackAgentFor } = this.#options;
    const made = await agentsByRun?.get(record.agent)?.(record);
    if (made !== undefined) return await made.open(record.runId);
    const standIn = () => createAgent({ name: record.agent, store: nonDrivingStore(store) });
    const agent = this.#find(record.agent) ?? fallbackAgentFor?.(record) ?? standIn();
    return await agent.open(record.runId);
  }

  /** What readers of an agent's runs get of a raw text; the text itself where the agent is not served. */
  showText(name: string, text: string): string {
    const agent = this.#find(name);
    return filterText(text, (agent && agentNamed(agent, name))?.options.textFilters ?? []);
  }

  /** The agent of this name, or the one that has a sub-agent of this name. */
  #find(name: string): Agent | undefined {
    const { agents } = this.#options;
    return agents.get(name) ?? [...agents.values()].find(agent => namesOf(agent).includes(name));
  }
}

function summarizeAgent({ name, options }: Agent): AgentSummary {
  const { version, model = [], tools = [] } = options;
  const models = 'length' in model ? model : [model];
  const isKnown = tools.every(tool => 'name' in tool);
  return {
    name,
    ...(version === undefined ? {} : { version }),
    models: models.map(({ provider, model: id }) => ({ provider, model: id })),
    ...(isKnown ? { tools: tools.length } : {}),
  };
}
