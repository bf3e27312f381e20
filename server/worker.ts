import { GRACE_MS, systemHost, warn } from '../engine/host/host.ts';
import { EngineError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { YieldOptions } from '../protocol/run-command.ts';
import { drivesRuns } from '../stores/non-driving-store.ts';
import { type Agents, byName, listAgents } from './agent-names.ts';
import { startWorker } from './runs/run-worker.ts';

/** Options of `worker`. */
export type WorkerOptions = {
  /** How many runs it drives at once, 1 or more. Default: all that have something to do. */
  slots?: number;
  /** Receives one line per problem, for the operator; never a secret. Default: a warning of the process. */
  log?(line: string): void;
};

/** A worker in this process, from `worker`. */
export type RunningWorker = AsyncDisposable & {
  /** How many runs it drives now. */
  readonly busy: number;
  /**
   * Takes no further run, and gives up those that it drives: calls in progress may end within `graceMs` (default 5,000),
   * then the leases are released, so that another process continues with them at once. Runs that this process drives
   * otherwise continue. Resolves at the latest 5 seconds after `graceMs`, with the number of runs whose leases the store did
   * not release by then: they expire.
   */
  stop(options?: YieldOptions): Promise<number>;
};

const NAMES = optionNames<WorkerOptions>()('slots log');
const STOP_NAMES = optionNames<YieldOptions>()('graceMs');

/**
 * Drives the runs of these agents and their sub-agents that have something to do and no driver, as `agentchart worker`
 * does: those whose process was killed, those that were handed over, those whose approval expires. The process stays alive
 * until `stop`. Throws `agent-invalid` for invalid options and for agents that do not share a store, or
 * whose store is that of `nonDrivingStore`.
 *
 * @example
 * const working = worker([desk, billing], { slots: 16 });
 * process.once('SIGTERM', () => void working.stop());
 */
export function worker(agents: Agents, options: WorkerOptions = {}): RunningWorker {
  refuseUnknownOptions('worker', options, NAMES);
  const { slots, log = warn } = options;
  if (slots !== undefined && !(Number.isInteger(slots) && slots > 0))
    throw new EngineError('agent-invalid', `slots of worker must be a positive integer, got ${slots}.`);
  const all = listAgents(agents);
  const [{ store }] = all;
  const other = all.find(agent => agent.store !== store);
  if (other !== undefined)
    throw new EngineError(
      'agent-invalid',
      `The agents of a worker share one store, but "${other.name}" has another than "${all[0].name}". Give both the same store, or start a worker for each.`,
    );
  if (!drivesRuns(store))
    throw new EngineError(
      'agent-invalid',
      'A worker drives runs, but its agents have a store of nonDrivingStore. Give them the store itself.',
    );
  const parts = { store, agents: byName(all), host: systemHost, log, ...omitUndefined({ slots }) };
  const { busy, stop } = startWorker(parts);
  return {
    get busy() {
      return busy();
    },
    async stop(given = {}) {
      refuseUnknownOptions('stop', given, STOP_NAMES, 'input-invalid');
      return await stop(given.graceMs ?? GRACE_MS);
    },
    [Symbol.asyncDispose]: async () => void (await stop(GRACE_MS)),
  };
}
