import type { Agent } from '../../agent/agent.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { A2A_VERSION } from './wire.ts';

/** The card of an agent whose operations are at `url`. `hasToken`: requests need a bearer token. */
export function agentCard(agent: Agent, { url, hasToken }: { url: string; hasToken: boolean }): object {
  const { version, output, ...options } = agent.options;
  const description = options.description ?? `The agent "${agent.name}": give it a task in words.`;
  const outputModes = ['text/plain', ...(output === undefined ? [] : ['application/json'])];
  const bind = (protocolBinding: string) => ({ url, protocolBinding, protocolVersion: A2A_VERSION });
  const security = {
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
  };
  return {
    name: agent.name,
    description,
    version: version ?? '1',
    supportedInterfaces: [bind('JSONRPC'), bind('HTTP+JSON')],
    capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false },
    ...omitUndefined({ ...(hasToken && security) }),
    defaultInputModes: ['text/plain', 'application/json'],
    defaultOutputModes: outputModes,
    skills: [{ id: 'task', name: agent.name, description, tags: ['agent'], outputModes }],
  };
}
