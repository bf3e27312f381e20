import type { Agent } from '../../../agent/index.ts';
import { Deliveries } from '../../../hosts/restate/drive-run.ts';
import { hostAgent } from '../../../hosts/restate/followed-run.ts';
import { RestateStore } from '../../../hosts/restate/restate-store.ts';
import { makeRestateServices } from '../../../hosts/restate/services.ts';
import type { RestateStandIn } from './restate-stand-in.ts';

/** Serves agents on the stand-in, as a new worker process. */
export function serveOn(restate: RestateStandIn, agents: readonly Agent[]): void {
  restate.serve(calls => makeRestateServices(new Deliveries(agents, calls)));
}

/** A copy of the agent whose runs are driven by the workers of the stand-in. */
export function hostedOn(restate: RestateStandIn, agent: Agent): Agent {
  const calls = restate.calls();
  return hostAgent(agent, { store: new RestateStore(calls), calls });
}
