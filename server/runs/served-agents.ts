import { type Agent, createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import { agentNamed, namesOf } from '../../agent/sub-agents.ts';
import type { ForkModel } from '../../engine/run/forks/copy-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import type { AgentSummary, AgentView } from '../../protocol/agent-view.ts';
import type { RunRecord, Store, WorkRequest } from '../../protocol/store.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { filterText } from '../../text/text-filter.ts';
import { ApiError } from '../error-envelope.ts';
import { forkModelsOf, summarizeAgent, viewAgent } from './reading/agent-view.ts';

/** The data with which a later process recreates an agent; stored with each run. */
export type Launch = { module?: string; model?: string };

export type ServedAgentsOptions = {
  store: Store;
  /** By name. Each uses `store`. */
  agents: ReadonlyMap<string, Agent>;
  launches?: ReadonlyMap<string, Launch>;
  /** By `provider:model`: the model string that a later command creates the model of a fork with. */
  modelLaunches?: ReadonlyMap<string, string>;
  /** By name: agents that are created per run from its record. They start no runs through this API. */
  agentsByRun?: ReadonlyMap<string, (record: RunRecord) => Promise<Agent | undefined>>;
  /** Creates the agent that reads and ends runs whose own agent is not served. It must not drive them. */
  fallbackAgentFor?: (record: RunRecord) => Agent;
};

/** The agents of a server, with substitutes for the agents of runs that it cannot drive. */
export class ServedAgents {
  readonly #options: ServedAgentsOptions;

  constructor(options: ServedAgentsOptions) {
    this.#options = options;
  }

  list(): AgentSummary[] {
    return [...this.#options.agents.values()].map(summarizeAgent);
  }

  /** An agent that can start runs, or a sub-agent of one. Throws `agent-unknown`. */
  describe(name: string): AgentView {
    const agent = this.#find(name);
    const named = agent === undefined ? undefined : (agentNamed(agent, name) ?? agent);
    if (named !== undefined) return viewAgent(named);
    throw new ApiError('agent-unknown', 'This server has no agent of that name. GET /agents lists them.');
  }

  /** The name of the agent that can start runs and is this one, or has it as a sub-agent. Throws `agent-unknown`. */
  nameServing(name: string): string {
    const agent = this.#find(name);
    if (agent !== undefined) return agent.name;
    throw new ApiError('agent-unknown', 'This server does not have the agent of this run.');
  }

  /** The agent that can start runs and is this one, or has it as a sub-agent; `undefined` if there is none. */
  serving(name: string): Agent | undefined {
    return this.#find(name);
  }

  all(): Agent[] {
    return [...this.#options.agents.values()];
  }

  has(name: string): boolean {
    return this.#find(name) !== undefined || this.#options.agentsByRun?.has(name) === true;
  }

  /** The agents whose runs this process can drive: of any version, or with `own` of the versions that it has. */
  workFor(versions: 'any' | 'own'): WorkRequest['agents'] {
    const { agents, agentsByRun } = this.#options;
    const names = [...agents.values()].flatMap(agent => namesOf(agent).map(name => ({ name, agent })));
    return [
      ...names.map(({ name, agent }) => {
        const version = agentNamed(agent, name)?.options.version;
        return version === undefined || versions === 'any' ? { name } : { name, versions: [version] };
      }),
      ...[...(agentsByRun?.keys() ?? [])].map(name => ({ name })),
    ];
  }

  launchOf(name: string): Launch | undefined {
    return this.#options.launches?.get(name);
  }

  /** The named agent, or the only one. Throws `model-missing`, `input-invalid` or `agent-unknown`. */
  choose(name: string | undefined): Agent {
    const { agents } = this.#options;
    const [only, second] = agents.values();
    if (only === undefined) {
      throw new ApiError(
        'model-missing',
        'This server has no agent and cannot start runs. Restart it with --agent MODULE, or set AGENTCHART_MODEL.',
      );
    }
    const names = [...agents.keys()].join(', ');
    if (name === undefined && second !== undefined)
      throw new ApiError('input-invalid', `This server has several agents. Set "agent" to one of: ${names}.`);
    const agent = name === undefined ? only : agents.get(name);
    if (agent !== undefined) return agent;
    throw new ApiError(
      'agent-unknown',
      `This server has no agent of that name. Set "agent" to one of: ${names}.`,
    );
  }

  /** By its name in `forkModels` of `GET /agents/NAME`. Throws `input-invalid` for any other. */
  forkModel(name: string, asked: string): ForkModel {
    const agent = this.#find(name);
    const named = agent && (agentNamed(agent, name) ?? agent);
    const models = named === undefined ? new Map<string, ForkModel>() : forkModelsOf(named);
    const model = models.get(asked);
    if (model !== undefined) return { ...model, launch: this.#options.modelLaunches?.get(asked) };
    const names = [...models.keys()].join(', ') || 'none';
    throw new ApiError(
      'input-invalid',
      `model: this server does not fork runs of this agent on that model. Expected one of: ${names}.`,
    );
  }

  async open(record: RunRecord): Promise<Run> {
    const { agentsByRun, store, fallbackAgentFor } = this.#options;
    const made = await agentsByRun?.get(record.agent)?.(record);
    if (made !== undefined) return await made.open(record.runId);
    const substitute = () => createAgent({ name: record.agent, store: nonDrivingStore(store) });
    const agent = this.#find(record.agent) ?? fallbackAgentFor?.(record) ?? substitute();
    return await agent.open(record.runId);
  }

  /** The agent with this name, to read what its runs show to readers; another one if it is not served. */
  reading(name: string): Agent {
    const agent = this.#find(name);
    const named = agent && (agentNamed(agent, name) ?? agent);
    return named ?? createAgent({ name, store: nonDrivingStore(this.#options.store) });
  }

  showText(name: string, text: string): string {
    return filterText(text, this.filtersOf(name) ?? []);
  }

  /** The text filters of the agent with this name; `undefined` if it is not served. */
  filtersOf(name: string): AgentOptions['textFilters'] {
    const agent = this.#find(name);
    if (agent === undefined) return this.has(name) ? [] : undefined;
    return (agentNamed(agent, name) ?? agent).options.textFilters ?? [];
  }

  #find(name: string): Agent | undefined {
    const { agents } = this.#options;
    return agents.get(name) ?? [...agents.values()].find(agent => namesOf(agent).includes(name));
  }
}
