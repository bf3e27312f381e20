/**
 * `agentchart/hosts/restate`: runs as virtual objects of Restate.
 *
 * - `services.ts` defines the services of a worker. `run-object.ts` is the object of a run: it stores the entries and
 *   decides when the run has to be driven. `drive-run.ts` drives a run for one delivery, with the engine's driver and
 *   services.
 * - `restate-store.ts` is the store for workers and handles, and calls Restate through `ingress.ts`. `text-object.ts`
 *   holds the text of the running turn.
 * - `followed-run.ts` is the host of handles: it appends inputs and follows the journal.
 */
import type { Agent } from '../../tools/agent/agent.ts';
import { Deliveries } from './drive-run.ts';
import { hostAgent } from './host-agent.ts';
import { callsOver, type RestateAddress } from './ingress.ts';
import { RestateStore } from './restate-store.ts';
import { makeServices } from './services.ts';

export type { RestateAddress } from './ingress.ts';

/**
 * Returns a copy of an agent whose runs are driven by the workers that Restate knows. `start`, `open` and the methods
 * of a `Run` work as usual; this process drives no runs. See docs/restate.md for the differences.
 *
 * @example
 * const hosted = restateAgent(agent, { ingress: 'http://127.0.0.1:8080' });
 * const run = await hosted.start('Refund order A-1001');
 * const settled = await run.settled();
 */
export function restateAgent<Hosted extends Agent>(agent: Hosted, address: RestateAddress = {}): Hosted {
  const calls = callsOver(address);
  return hostAgent(agent, { store: new RestateStore(calls), calls }) as Hosted;
}

/**
 * Returns the services that a worker serves: the objects of runs, and the service that drives the runs of these agents
 * and their sub-agents.
 *
 * @example
 * import { serve } from '@restatedev/restate-sdk';
 * await serve({ services: await restateServices([agent], { ingress: 'http://127.0.0.1:8080' }), port: 9080 });
 */
export async function restateServices(
  agents: readonly Agent[],
  address: RestateAddress = {},
): Promise<{ name: string }[]> {
  return await makeServices(new Deliveries(agents, callsOver(address)));
}
