import { memory } from '../../stores/memory.ts';
import { Agent } from './agent.ts';
import { type AgentOptions, defineAgent } from './agent-options.ts';

/** An agent from its options; throws `agent-invalid` for what cannot work. Without a `store`, runs live in memory. */
export function createAgent(options: AgentOptions): Agent {
  return new Agent(defineAgent(options), options, options.store ?? memory());
}
