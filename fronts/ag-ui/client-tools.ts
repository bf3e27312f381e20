import * as z from 'zod';
import { isJsonObject } from '../../protocol/json.ts';
import type { AgentTool, Tool } from '../../protocol/tool.ts';
import { type Agent, createAgent } from '../../tools/agent/agent.ts';
import { tool } from '../../tools/tool.ts';
import type { DeclaredTool } from './run-input.ts';

/** The most sets of declared tools for which an endpoint caches an agent. */
const MOST_AGENTS = 100;

/**
 * Extends an agent with the tools that clients declare and run themselves. A client cannot replace a tool that the
 * agent already has.
 */
export class AgentsByTools {
  readonly #agent: Agent;
  readonly #made = new Map<string, Agent>();

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  /** Returns the agent with a request's tools. Throws `agent-invalid` for a tool without a usable name or schema. */
  for(declared: readonly DeclaredTool[]): Agent {
    const key = JSON.stringify(declared);
    if (declared.length === 0) return this.#agent;
    const known = this.#made.get(key);
    if (known !== undefined) return known;
    const { options, store } = this.#agent;
    const own: readonly AgentTool[] = options.tools ?? [];
    const taken = new Set(own.flatMap(one => ('name' in one ? [one.name] : [])));
    const added = declared.filter(({ name }) => !taken.has(name)).map(clientToolOf);
    const agent = createAgent({ ...options, store, tools: [...own, ...added] });
    if (this.#made.size >= MOST_AGENTS) this.#made.delete(this.#made.keys().next().value ?? '');
    this.#made.set(key, agent);
    return agent;
  }
}

function clientToolOf({ name, description, parameters }: DeclaredTool): Tool {
  const inputSchema = isJsonObject(parameters ?? null)
    ? { type: 'object', ...(parameters as object) }
    : { type: 'object', properties: {} };
  return tool({ name, description: description || name, input: z.looseObject({}), inputSchema });
}
