import type { Host } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { suspendedCalls } from '../../engine/sub-agents/child-runs.ts';
import { findEndedChild } from '../../engine/sub-agents/run-children.ts';
import { type EngineError, messageOf } from '../../protocol/error.ts';
import { isDriven, listAll, type RunRecord, type Store } from '../../protocol/store.ts';

type RunRecoveryOptions = {
  store: Store;
  host: Host;
  isServed(agent: string): boolean;
  drive(runId: string): void;
  log(line: string): void;
};

/** The interval between scans of the store, and the first wait before a run is driven again, in ms. */
export const POLL_INTERVAL_MS = 5_000;

/** The longest wait before a run without progress is driven again, in ms. */
const LONGEST_WAIT_MS = 10 * 60_000;

/** How many logged lines are remembered, so that none is repeated. */
const MOST_LOGGED = 1_000;

/** The sub-agents' runs that a waiting run waits for, as of its entry `seq`. */
type Waiting = { seq: number; children: string[] };

/**
 * Resumes runs of served agents that no process drives.
 *
 * K1 The store is scanned periodically, so that runs of processes that die later are found too.
 * K2 It finds runs whose driver is gone, runs with approvals that expire, and runs that wait for a sub-agent's
 *    run that has ended. A driver that may still be alive keeps its run until its lease expires.
 * K3 A waiting run is loaded once per `seq`. A run without progress is driven again after waits that double.
 * K4 A run that cannot be read is logged once and does not affect the others.
 */
export class RunRecovery {
  readonly #options: RunRecoveryOptions;
  readonly #waiting = new Map<string, Waiting>();
  readonly #tried = new Map<string, { next: number; waitMs: number }>();
  readonly #logged = new Set<string>();
  #cancelTimer = () => {};
  #stopped = false;

  constructor(options: RunRecoveryOptions) {
    this.#options = options;
  }

  /**
   * Scans now, and periodically until `stop`. Returns the ids of the runs that were left without a driver and are
   * now resumed; rejects if the store cannot be read now.
   */
  async start(): Promise<string[]> {
    try {
      return await this.#scan();
    } finally {
      this.#schedule();
    }
  }

  /** Stops scanning. */
  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#cancelTimer();
    const scan = () => {
      this.#scan()
        .catch(error => this.#logOnce(`Cannot look for runs to resume: ${messageOf(error)}`))
        .finally(() => this.#schedule());
    };
    this.#cancelTimer = this.#options.host.setTimer(POLL_INTERVAL_MS, scan, { keepAlive: false });
  }

  async #scan(): Promise<string[]> {
    const { store, host, isServed } = this.#options;
    const onDamaged = (error: EngineError) => this.#logOnce(`Cannot resume a run: ${error.message}`);
    const running = await collect(listAll(store, { status: 'running', onDamaged }));
    const isOrphan = (record: RunRecord) => !isDriven(record, host.now(), isOwnerDead);
    const orphans = running.filter(record => isServed(record.agent) && isOrphan(record));
    const resumed = orphans.filter(({ runId }) => this.#drive(runId)).map(({ runId }) => runId);
    const waiting = await collect(listAll(store, { status: 'waiting', onDamaged }));
    for (const record of waiting) if (isServed(record.agent)) await this.#checkWaiting(record);
    forgetOthers(this.#waiting, waiting);
    forgetOthers(this.#tried, [...orphans, ...waiting]);
    return resumed;
  }

  /** Drives the run; returns false if it was driven recently for the same reason. */
  #drive(runId: string, reason = runId): boolean {
    const { host, drive } = this.#options;
    const { next, waitMs } = this.#tried.get(reason) ?? { next: 0, waitMs: POLL_INTERVAL_MS };
    if (this.#stopped || host.now() < next) return false;
    this.#tried.set(reason, { next: host.now() + waitMs, waitMs: Math.min(2 * waitMs, LONGEST_WAIT_MS) });
    drive(runId);
    return true;
  }

  async #checkWaiting({ runId, seq }: RunRecord): Promise<void> {
    try {
      const known = this.#waiting.get(runId);
      const children = known?.seq === seq ? known.children : await this.#readChildren(runId, seq);
      const ended = await findEndedChild(this.#options.store, children);
      if (ended !== undefined) this.#drive(runId, `${runId} ${ended}`);
    } catch (error) {
      this.#logOnce(`Cannot resume run ${runId}: ${messageOf(error)}`);
    }
  }

  /** Also opens a run with a deadline, so that the registry drives it then. */
  async #readChildren(runId: string, seq: number): Promise<string[]> {
    const { store, drive } = this.#options;
    const { context } = (await loadRun(store, runId)).state;
    const children = suspendedCalls(context).map(({ childRunId }) => childRunId);
    this.#waiting.set(runId, { seq, children });
    if (context.timer !== null && !this.#stopped) drive(runId);
    return children;
  }

  #logOnce(line: string): void {
    if (this.#logged.has(line)) return;
    if (this.#logged.size >= MOST_LOGGED) this.#logged.clear();
    this.#logged.add(line);
    this.#options.log(line);
  }
}

async function collect(records: AsyncIterable<RunRecord>): Promise<RunRecord[]> {
  const collected: RunRecord[] = [];
  for await (const record of records) collected.push(record);
  return collected;
}

/** Deletes the keys of all other runs; a key begins with its run's id. */
function forgetOthers(known: Map<string, unknown>, records: readonly RunRecord[]): void {
  const kept = new Set(records.map(({ runId }) => runId));
  for (const key of known.keys()) if (!kept.has(key.split(' ', 1)[0] ?? '')) known.delete(key);
}
