// fronts/served: what fronts need of the server that hosts them: runs, their open calls and their events.

import type { Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import type { StartOptions } from '../../agent/begin-journal.ts';
import { type Host, systemHost } from '../../engine/host/host.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import type { Admission } from '../../server/access/admission.ts';
import { type Agents, byName, listAgents } from '../../server/agent-names.ts';
import { describeError } from '../../server/error-envelope.ts';
import { type BeginRun, beginWithin } from '../../server/runs/begin-run.ts';
import { findRecord, type Hold, type RunRegistry } from '../../server/runs/run-registry.ts';
import { createRunWorker } from '../../server/runs/run-worker.ts';
import type { Launch } from '../../server/runs/served-agents.ts';
import type { RunTaker } from '../../server/runs/take-runs.ts';

export type ServedRunsOptions = {
  store: Store;
  agents: ReadonlyMap<string, Agent>;
  launches?: ReadonlyMap<string, Launch>;
  /** Lets callers begin runs, within the limits of the server. Default: without limits. */
  admission?: Admission;
  host?: Host;
  /** Receives one line per problem, for the operator; never a secret. */
  log?(line: string): void;
};

type Start = Pick<StartOptions, 'thread' | 'labels' | 'runContext'>;

/** The runs of a protocol's clients, driven in the background; a caller finds those with its labels. */
export class ServedRuns {
  readonly store: Store;
  readonly agents: ReadonlyMap<string, Agent>;
  readonly host: Host;
  readonly #begin: BeginRun;
  readonly #held: RunRegistry;
  readonly #taker: RunTaker;

  constructor({ host = systemHost, log = () => {}, ...options }: ServedRunsOptions) {
    const { store, agents } = options;
    this.store = store;
    this.agents = agents;
    this.host = host;
    this.#begin = beginWithin(options);
    const { held, taker } = createRunWorker({ ...options, host, log });
    this.#held = held;
    this.#taker = taker;
  }

  /**
   * Starts a run and drives it, or gives the input to the open run of the thread; release the result. Throws the errors of
   * `agent.start`, and `rate-limit-exceeded`.
   */
  async begin(
    agent: Agent,
    input: string | readonly Item[],
    caller: Caller,
    start: Start = {},
  ): Promise<Hold> {
    const { labels } = caller;
    this.#held.assertOpen();
    const options = { labels, ...start };
    const thread =
      start.thread === undefined ? undefined : agent.thread(start.thread, { labels: options.labels });
    const run = await this.#begin(caller, agent, more => agent.start(input, { ...options, ...more }), thread);
    return await this.#held.keep(run);
  }

  /** Opens a run of a served agent; release the result. Throws `run-unknown`, also for runs of others. */
  async hold(runId: string, caller: Caller): Promise<Hold> {
    const record = await this.record(runId, caller);
    if (!this.agents.has(record.agent))
      throw new EngineError('run-foreign', `Run ${runId} belongs to no agent of this server.`);
    return await this.#held.hold(runId);
  }

  async record(runId: string, caller: Caller): Promise<RunRecord> {
    return await findRecord(this.store, runId, caller);
  }

  drive(runId: string): void {
    this.#held.drive(runId);
  }

  /** Resumes runs whose process is gone, now and periodically until `close`. Returns the ids of those resumed now. */
  async pickUp(): Promise<string[]> {
    return await this.#taker.start();
  }

  close(): void {
    this.#taker.stop();
    this.#held.close();
  }
}

/** The runs of a front that is served by itself; resumes those whose process is gone. */
export function serveRunsOf(agents: Agents, log: (line: string) => void): ServedRuns {
  const all = listAgents(agents);
  const runs = new ServedRuns({ store: all[0].store, agents: byName(all), log });
  runs.pickUp().catch(error => log(`Cannot resume runs: ${messageOf(error)}`));
  return runs;
}

/** The error text for clients: the message of our own errors. Other errors are only logged. */
export function messageForClient(thrown: unknown, log: (line: string) => void): string {
  const { code, message } = describeError(thrown).envelope.error;
  if (code === 'internal') log(thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown));
  return message;
}
