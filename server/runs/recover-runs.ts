import type { Host } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { suspendedCalls } from '../../engine/sub-agents/child-runs.ts';
import { findEndedChild } from '../../engine/sub-agents/run-children.ts';
import { type EngineError, messageOf } from '../../protocol/error.ts';
import { isDriven, type RunRecord, type Store } from '../../protocol/store.ts';

export type RunRecoveryOptions = {
  store: Store;
  host: Host;
  isServed(agent: string): boolean;
  drive(runId: string): void;
  log(line: string): void;
};

/** From one look at the store to the next, in ms; also the first wait before a run is driven once more. */
export const POLL_INTERVAL_MS = 5_000;

/** The longest wait before a run that does not get on is driven once more, in ms. */
const LONGEST_WAIT_MS = 10 * 60_000;

/** So many different lines are remembered as logged. */
const MOST_TOLD = 1_000;

/** What is known of a run that waits, as of its entry `seq`: the sub-agents' runs it waits for. */
type Waiting = { seq: number; children: string[] };

/**
 * Drives on the runs of served agents that nobody drives.
 *
 * K1 The store is looked at again and again: whatever a process leaves behind when it dies is found.
 * K2 It finds runs whose driver is gone, runs whose approvals expire, and runs that wait for a sub-agent's
 *    run that has ended. A driver that cannot be told dead is left to its lease.
 * K3 A run that waits is loaded once for each of its states, and a run that does not get on is driven again
 *    after waits that double.
 * K4 What cannot be read is logged once, and keeps no other run from being found.
 */
export class RunRecovery {
  readonly #options: RunRecoveryOptions;
  readonly #waiting = new Map<string, Waiting>();
  readonly #tried = new Map<string, { next: number; waitMs: number }>();
  readonly #told = new Set<string>();
  #cancelTimer = () => {};
  #stopped = false;

  constructor(options: RunRecoveryOptions) {
    this.#options = options;
  }

  /** Looks now, and again until `stop`. Gives the ids of the runs whose driver is gone; rejects when the store cannot be read now. */
  async start(): Promise<string[]> {
    try {
      return await this.#look();
    } finally {
      this.#schedule();
    }
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelTimer();
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#cancelTimer();
    const look = () => {
      this.#look()
        .catch(error => this.#tell(`Runs are not picked up: ${messageOf(error)}`))
        .finally(() => this.#schedule());
    };
    this.#cancelTimer = this.#options.host.setTimer(POLL_INTERVAL_MS, look, { keepAlive: false });
  }

  async #look(): Promise<string[]> {
    const { store, host, isServed } = this.#options;
    const onDamaged = (error: EngineError) => this.#tell(`A run is not picked up: ${error.message}`);
    const running = await store.list({ status: 'running', onDamaged });
    const isLeft = (record: RunRecord) => !isDriven(record, host.now(), isOwnerDead);
    const left = running.filter(record => isServed(record.agent) && isLeft(record));
    const picked = left.filter(({ runId }) => this.#drive(runId)).map(({ runId }) => runId);
    const waiting = await store.list({ status: 'waiting', onDamaged });
    for (const record of waiting) if (isServed(record.agent)) await this.#lookAtWaiting(record);
    forgetOthers(this.#waiting, waiting);
    forgetOthers(this.#tried, [...left, ...waiting]);
    return picked;
  }

  /** False where it was tried not long ago, for the same reason. */
  #drive(runId: string, reason = runId): boolean {
    const { host, drive } = this.#options;
    const { next, waitMs } = this.#tried.get(reason) ?? { next: 0, waitMs: POLL_INTERVAL_MS };
    if (this.#stopped || host.now() < next) return false;
    this.#tried.set(reason, { next: host.now() + waitMs, waitMs: Math.min(2 * waitMs, LONGEST_WAIT_MS) });
    drive(runId);
    return true;
  }

  async #lookAtWaiting({ runId, seq }: RunRecord): Promise<void> {
    try {
      const known = this.#waiting.get(runId);
      const children = known?.seq === seq ? known.children : await this.#readChildren(runId, seq);
      const ended = await findEndedChild(this.#options.store, children);
      if (ended !== undefined) this.#drive(runId, `${runId} ${ended}`);
    } catch (error) {
      this.#tell(`Run ${runId} is not picked up: ${messageOf(error)}`);
    }
  }

  /** A run with a deadline is taken in hand on the way, to be woken then. */
  async #readChildren(runId: string, seq: number): Promise<string[]> {
    const { store, drive } = this.#options;
    const { context } = (await loadRun(store, runId)).state;
    const children = suspendedCalls(context).map(({ childRunId }) => childRunId);
    this.#waiting.set(runId, { seq, children });
    if (context.timer !== null && !this.#stopped) drive(runId);
    return children;
  }

  #tell(line: string): void {
    if (this.#told.has(line)) return;
    if (this.#told.size >= MOST_TOLD) this.#told.clear();
    this.#told.add(line);
    this.#options.log(line);
  }
}

/** Keys begin with a run's id. */
function forgetOthers(known: Map<string, unknown>, records: readonly RunRecord[]): void {
  const kept = new Set(records.map(({ runId }) => runId));
  for (const key of known.keys()) if (!kept.has(key.split(' ', 1)[0] ?? '')) known.delete(key);
}
