/**
 * `agentchart/hosts/restate`: runs as virtual objects of Restate.
 *
 * - `services.ts` defines the services of a worker. `run-object.ts` is the object of a run: it stores the entries and
 *   decides when the run has to be driven. `drive-run.ts` drives a run for one delivery, with the engine's driver and
 *   services.
 * - `restate-store.ts` is the store for workers and handles, and calls Restate through `ingress.ts`. `remove-runs.ts`
 *   deletes runs. `text-object.ts` holds the text of the running turn.
 * - `followed-run.ts` is the supervisor of handles: it appends inputs and follows the journal.
 */

import type { Agent } from '../../agent/agent.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { Deliveries } from './drive-run.ts';
import { hostAgent } from './followed-run.ts';
import { callsOver, type RestateAddress } from './ingress.ts';
import { RestateStore } from './restate-store.ts';
import { makeRestateServices } from './services.ts';

export type { RestateAddress } from './ingress.ts';

const NAMES: NamesOf<RestateAddress> = { ingress: true, admin: true, headers: true };

/** How long calls in progress may continue while a worker drains, by default, in ms. */
const GRACE_MS = 10_000;

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
  refuseUnknownOptions('restateAgent', address, NAMES);
  const calls = callsOver(address);
  return hostAgent(agent, { store: new RestateStore(calls), calls }) as Hosted;
}

/** What a worker process serves, and how it is stopped. */
export type RestateWorker = {
  /** The objects of runs, and the service that drives the runs of the agents and their sub-agents. */
  services: { name: string }[];
  /**
   * Takes no further runs and gives up those that this process drives, so that other workers continue them. Model calls
   * and tool calls in progress may end within `graceMs`, by default 10,000; the others are aborted. Keep serving until it
   * resolves, then exit. Resolves with the number of runs that could not be given up, because Restate did not answer.
   */
  drain(graceMs?: number): Promise<number>;
};

/**
 * Returns a worker that drives the runs of these agents. Loads `@restatedev/restate-sdk`.
 *
 * @example
 * import { serve } from '@restatedev/restate-sdk';
 * const worker = await restateWorker([agent], { ingress: 'http://127.0.0.1:8080' });
 * await serve({ services: worker.services, port: 9080 });
 * process.once('SIGTERM', () => worker.drain().finally(() => process.exit()));
 */
export async function restateWorker(
  agents: readonly Agent[],
  address: RestateAddress = {},
): Promise<RestateWorker> {
  refuseUnknownOptions('restateWorker', address, NAMES);
  const deliveries = new Deliveries(agents, callsOver(address));
  return {
    services: await makeRestateServices(deliveries),
    drain: async (graceMs = GRACE_MS) => await deliveries.drain(graceMs),
  };
}
