import type { Host } from '../../engine/driver/host.ts';
import { findRecord, RunRegistry } from './run-registry.ts';
import { ServedAgents, type ServedAgentsOptions } from './served-agents.ts';
import { RunTaker } from './take-runs.ts';

export type RunWorkerOptions = ServedAgentsOptions & {
  host: Host;
  /** How many runs are driven at once. Default: as many as there are. */
  slots?: number;
  /** Whether runs are driven in this process. Default true; else `store` must grant no leases. */
  drives?: boolean;
  /** Whether runs of other versions of an agent are left to others (`own`), or continue with this one. Default `any`. */
  versions?: 'any' | 'own';
  /** Receives one line per problem, for the operator; never a secret. */
  log(line: string): void;
};

/** What drives runs in a process: its agents, the runs that it has open, and what takes other runs. */
export type RunWorker = { agents: ServedAgents; held: RunRegistry; taker: RunTaker };

/** Creates what drives runs in this process. Nothing is taken before `taker.start()`. */
export function createRunWorker(options: RunWorkerOptions): RunWorker {
  const { store } = options;
  const agents = new ServedAgents(options);
  const held = new RunRegistry({
    ...options,
    async open(runId) {
      const record = await findRecord(store, runId);
      return { run: await agents.open(record), isServed: agents.has(record.agent) };
    },
  });
  const drive = (runId: string) => held.driveTaken(runId);
  const leases = [...options.agents.values()].flatMap(agent => agent.options.host?.leaseMs ?? []);
  const leaseMs = leases.length === 0 ? undefined : Math.min(...leases);
  return {
    agents,
    held,
    taker: new RunTaker({ ...options, leaseMs, agents: agents.workFor(options.versions ?? 'any'), drive }),
  };
}
