import type { Agent } from '../agent/agent.ts';
import { EngineError } from '../protocol/error.ts';
import { ApiError } from './error-envelope.ts';

/** The agents of a front: one, or several by their names. */
export type Agents = Agent | readonly Agent[];

export function listAgents(agents: Agents): readonly [Agent, ...Agent[]] {
  const [first, ...rest] = [agents].flat() as Agent[];
  if (first !== undefined) return [first, ...rest];
  throw new TypeError('Expected an agent, or a list of at least one.');
}

/** A name that protocols accept: letters, digits, `_`, `-` and `.`, at most 64 characters. */
export function plainName(name: string): string {
  return name.slice(0, 64).replace(/[^\w.-]/g, '_');
}

/** The agents by their names. Throws `agent-invalid` if two have the same. */
export function byName(agents: Iterable<Agent>): ReadonlyMap<string, Agent> {
  return nameAgents(agents, name => name);
}

/** The agents by the names that clients use. Throws `agent-invalid` if two have the same. */
export function byPlainName(agents: Iterable<Agent>): ReadonlyMap<string, Agent> {
  return nameAgents(agents, plainName);
}

function nameAgents(agents: Iterable<Agent>, nameFor: (name: string) => string): ReadonlyMap<string, Agent> {
  const named = new Map<string, Agent>();
  for (const agent of agents) {
    const name = nameFor(agent.name);
    const other = named.get(name);
    if (other !== undefined) {
      const problem =
        other.name === agent.name
          ? `Two agents are named "${name}". Runs find their agent by name:`
          : `The agents "${other.name}" and "${agent.name}" would both be named "${name}":`;
      throw new EngineError('agent-invalid', `${problem} rename one of them.`);
    }
    named.set(name, agent);
  }
  return named;
}

export function partFor<Part>(parts: ReadonlyMap<string, Part>, name = ''): Part {
  const part = parts.get(name);
  if (part !== undefined) return part;
  throw new ApiError(
    'agent-unknown',
    `There is no agent "${name.slice(0, 100)}" here. The agents: ${[...parts.keys()].join(', ')}.`,
  );
}

/** The path of a request below `prefix`: the name of its agent, then its last `own` segments. A single agent is at any path. */
export function pathBelow(prefix: string, agents: Agents, path: readonly string[], own: number): string {
  const only = 'name' in agents ? [plainName(agents.name)] : [];
  const rest = path.slice(Math.max(0, path.length - own - (only.length === 0 ? 1 : 0)));
  return [prefix, ...only, ...(own === 0 && only.length > 0 ? [] : rest)].join('/');
}
