import { agentNamed } from '../../agent/sub-agents.ts';
import { RELEASE_MS } from '../../engine/driver/drives.ts';
import { type Host, LONGEST_NAP_MS, settledWithin } from '../../engine/host/host.ts';
import { messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { WorkRequest } from '../../protocol/store.ts';
import { Strandings } from './find-stranding.ts';
import { OrphanMigrator } from './migrate-orphans.ts';
import { findRecord, RunRegistry } from './run-registry.ts';
import { ServedAgents, type ServedAgentsOptions } from './served-agents.ts';
import { RunTaker } from './take-runs.ts';

export type RunWorkerOptions = ServedAgentsOptions & {
  host: Host;
  slots?: number;
  /** Whether runs are driven in this process. Default true; else `store` must grant no leases. */
  drives?: boolean;
  /** Runs of other agent versions: `own` leaves them to other processes. Default `any`; `own` if runs are not driven here. */
  versions?: 'any' | 'own';
  /** Receives one line per problem, for the operator; never a secret. */
  log(line: string): void;
};

export type RunWorker = { agents: ServedAgents; held: RunRegistry; taker: RunTaker; strandings: Strandings };

/** Creates the parts that drive runs in this process. No run is taken before `taker.start()`. */
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
  const work = agents.workFor(options.versions ?? (options.drives === false ? 'own' : 'any'));
  const migrationsOf = (name: string) => targetOf(name, options, work)?.migrations;
  const deployed = { work, migrationsOf, place: 'this process' };
  const strandings = new Strandings({ ...options, deployed });
  const orphans = new OrphanMigrator({
    ...options,
    agents: work,
    targetOf: name => targetOf(name, options, work),
    strandings,
  });
  const leases = [...options.agents.values()].flatMap(agent => agent.options.host?.leaseMs ?? []);
  const leaseMs = leases.length === 0 ? undefined : Math.min(...leases);
  return {
    agents,
    held,
    strandings,
    taker: new RunTaker({ ...options, leaseMs, agents: work, drive, migrate: () => orphans.look() }),
  };
}

/**
 * Drives runs until `stop`, which hands them over and resolves with the number of those whose leases the store did not
 * release within `graceMs` and 5 seconds. The process stays alive meanwhile.
 */
export function startWorker(options: RunWorkerOptions) {
  const { host, log } = options;
  const { taker, held } = createRunWorker({ ...options, versions: 'own' });
  taker.start().catch(error => log(`Cannot look for runs to drive: ${messageOf(error)}`));
  // Without runs and a port, nothing else keeps the process alive.
  const stayAlive = setInterval(() => {}, LONGEST_NAP_MS);
  return {
    busy: () => taker.busy,
    async stop(graceMs: number): Promise<number> {
      clearInterval(stayAlive);
      const work = [taker.stop(), held.handOver(graceMs)];
      return (await settledWithin(host, graceMs + RELEASE_MS, work)) ? 0 : taker.busy;
    },
    countWork: (limit: number) => taker.countWork(limit),
    countLeft: (limit: number) => taker.countLeft(limit),
  };
}

/** How runs of an agent are migrated: with its own migrations. The runs of `/v1` requests are not, as clients have their ids. */
function targetOf(name: string, { agents }: RunWorkerOptions, work: WorkRequest['agents']) {
  const [agent] = [...agents.values()].flatMap(top => agentNamed(top, name) ?? []);
  if (agent === undefined) return undefined;
  const versions = work.find(taken => taken.name === name)?.versions;
  return { migrations: agent.options.migrations ?? [], ...omitUndefined({ versions }) };
}
