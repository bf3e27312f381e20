import type { ChartState } from '../../machines/step.ts';
import type { Item } from '../../protocol/item.ts';
import { hasEnded, isAtRest, type LoadedRun } from '../journal/load-run.ts';
import type { RunLog } from '../journal/run-log.ts';
import { Snapshots } from '../journal/snapshots.ts';
import { cancelRun, type MakeCommand } from '../run/command.ts';
import type { SubmitResult } from '../run/explain-refusal.ts';
import type { RunEvents } from '../run/run-events.ts';
import type { RunOptions } from '../run/run-options.ts';
import { describeNow, type Settled } from '../run/settled.ts';
import { suspendedCalls } from '../sub-agents/child-runs.ts';
import { addChildren, deliverToParent, findOrphan, type RunChildren } from '../sub-agents/run-children.ts';
import { agentChart } from './agent-chart.ts';
import { detectCrashLoop } from './detect-crash-loop.ts';
import { type DriveOutcome, Driver, POLL_MS } from './driver.ts';
import { LONGEST_NAP_MS, type Moment, momentOf, sleep } from './host.ts';
import { Lease } from './lease.ts';

/** `failed`: driving here failed, and has not begun again. */
type Stage =
  | { type: 'idle' }
  | { type: 'claiming'; claimed: Promise<boolean> }
  | { type: 'driving'; driver: Driver<ChartState>; done: Promise<DriveOutcome> }
  | { type: 'failed'; error: unknown };

export type SupervisorParts = {
  options: RunOptions;
  log: RunLog<ChartState>;
  events: RunEvents;
  children: RunChildren;
  loaded: LoadedRun;
  /** The transcript this run continues, as it was read; it is looked at again when the run is driven. */
  inherited: readonly Item[] | undefined;
};

/** Whether a run is driven here: takes its lease, drives it, and checks again once it rests. */
export class Supervisor {
  readonly #options: RunOptions;
  readonly #parts: SupervisorParts;
  readonly #log: RunLog<ChartState>;
  readonly #snapshots: Snapshots<ChartState>;
  #inherited: readonly Item[] | undefined;
  #stage: Stage = { type: 'idle' };
  #cancelWake = () => {};

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    this.#options = parts.options;
    this.#log = parts.log;
    this.#inherited = parts.inherited;
    this.#snapshots = new Snapshots({ ...parts.options, chart: agentChart }, parts.loaded);
  }

  /** While the run is driven here. */
  get driver(): Driver<ChartState> | null {
    return this.#stage.type === 'driving' ? this.#stage.driver : null;
  }

  /** Whether there is more to come, as far as is known here. */
  get standing(): 'running' | 'at-rest' | 'ended' {
    const { state } = this.#log;
    if (this.driver !== null) return 'running';
    return hasEnded(state) ? 'ended' : isAtRest(state) ? 'at-rest' : 'running';
  }

  /** Why driving here failed. */
  get failure(): { error: unknown } | null {
    return this.#stage.type === 'failed' ? this.#stage : null;
  }

  /** The transcript this run continues, once it is known. */
  get inherited(): readonly Item[] | undefined {
    return this.#inherited;
  }

  /** Folds what others have written: a driver here does so by itself. */
  async refresh(): Promise<void> {
    if (this.driver === null) await this.#log.catchUp();
  }

  /** Puts inputs to the run, which is driven on. */
  async put(makes: readonly MakeCommand[]): Promise<SubmitResult> {
    const result = await this.#log.put(makes);
    if (result.accepted && !this.#log.isLed) this.driveInBackground();
    return result;
  }

  /** How the run stands once it rests or has ended; drives it if nobody else does. Rejects when driving it failed. */
  async settled(): Promise<Settled> {
    for (;;) {
      if (this.#stage.type === 'driving') await this.#stage.done;
      await this.refresh();
      const settled = this.driver === null ? describeNow(this.#log.state, this.#options) : null;
      const { context } = this.#log.state;
      if (settled?.status === 'waiting' && suspendedCalls(context).length > 0) {
        if (await this.#takeEnded()) continue;
        return await addChildren(this.#options.store, this.#log.state.context, settled);
      }
      if (settled?.status === 'cancelled') return await addChildren(this.#options.store, context, settled);
      if (settled !== null) return settled;
      if (this.driver !== null || (await this.#endIfOverdue()) || (await this.tryToDrive())) continue;
      await sleep(this.#options.host, POLL_MS);
    }
  }

  /** Waits until all sub-agents rest. True when one of them has ended, and the run goes on. */
  async #takeEnded(): Promise<boolean> {
    const ended = await this.#parts.children.settle(this.#log.state.context);
    for (const command of ended) await this.put([() => command]);
    return ended.length > 0;
  }

  /** A process that was asked to cancel the run, and has not by the deadline, is not waited for. */
  async #endIfOverdue(): Promise<boolean> {
    const { cancelling } = this.#log.state.context;
    if (cancelling === null || this.#options.host.now() < cancelling.deadline) return false;
    return (await this.put([state => cancelRun(state, cancelling)])).accepted;
  }

  /** Drives a run that was just created and claimed. */
  begin(epoch: number, leasedAt: Moment, inherited: readonly Item[]): void {
    this.#inherited = inherited;
    this.#log.lead(epoch);
    this.#drive(epoch, leasedAt, inherited);
  }

  /** Claims and drives; false when another process holds the lease. */
  async tryToDrive(): Promise<boolean> {
    const stage = this.#stage;
    if (stage.type === 'driving') return true;
    if (stage.type === 'claiming') return await stage.claimed;
    const claimed = this.#claim(stage);
    this.#stage = { type: 'claiming', claimed };
    return await claimed;
  }

  /** Drives the run if it has something to do; else wakes it when it has. */
  driveInBackground(): void {
    if (describeNow(this.#log.state, this.#options) !== null) return this.wakeAtExpiry();
    this.tryToDrive().catch(() => {});
  }

  wakeAtExpiry(): void {
    this.#cancelWake();
    const { timer } = this.#log.state.context;
    if (!isAtRest(this.#log.state) || timer === null) return;
    const { host } = this.#options;
    const wake = () => {
      if (host.now() < timer) return this.wakeAtExpiry();
      this.tryToDrive().catch(() => {});
    };
    const nap = Math.min(timer - host.now(), LONGEST_NAP_MS);
    this.#cancelWake = host.setTimer(nap, wake, { keepAlive: false });
  }

  async #claim(before: Stage): Promise<boolean> {
    const { host, owner, leaseMs, isDead } = this.#options;
    const leasedAt = momentOf(host);
    let after: Stage = before;
    try {
      const epoch = await this.#log.claim({ owner, leaseMs, now: leasedAt.wall, isDead });
      if (epoch === null) return false;
      await this.#endIfOrphaned();
      await this.#parkIfPoisoned();
      const inherited = await this.#inherit();
      while (!this.#log.isDurable) await this.#log.commit();
      if (!this.#log.isLed) return false;
      after = this.#drive(epoch, leasedAt, inherited);
      return true;
    } catch (error) {
      if (this.#log.isLed) after = { type: 'failed', error };
      this.#log.letGo();
      throw error;
    } finally {
      this.#stage = after;
    }
  }

  /** What the run continues, as it is now; as it was read before, where the store has it no more. */
  async #inherit(): Promise<readonly Item[]> {
    const { inherited } = this.#parts.loaded;
    if (inherited !== undefined) return inherited;
    const before = this.#inherited;
    const loading = this.#options.loadInherited(this.#log.state.context.continues);
    this.#inherited = await (before === undefined ? loading : loading.catch(() => before));
    return this.#inherited;
  }

  /** A sub-agent does nothing more for a run that does not wait for it. */
  async #endIfOrphaned(): Promise<void> {
    const { state } = this.#log;
    const reason = hasEnded(state) ? null : await findOrphan(this.#options.store, state.context);
    if (reason !== null) await this.#log.append([now => cancelRun(now, { reason })]);
  }

  /** A run that ends one process after another is paused instead of driven. */
  async #parkIfPoisoned(): Promise<void> {
    const reason = await detectCrashLoop(this.#options.store, this.#log.durable, this.#log.runId);
    if (reason !== null) await this.#log.append([() => ({ type: 'run.quarantined', reason })]);
  }

  #drive(epoch: number, leasedAt: Moment, inherited: readonly Item[]): Stage {
    this.#cancelWake();
    const options = this.#options;
    const lease = new Lease({ ...options, epoch, leasedAt });
    const { log, events } = this.#parts;
    const snapshots = this.#snapshots;
    const driver = new Driver({ ...options, chart: agentChart, log, lease, events, inherited, snapshots });
    const done = driver.drive().then(
      outcome => {
        this.#afterDriving({ type: 'idle' });
        return outcome;
      },
      error => {
        this.#afterDriving({ type: 'failed', error });
        throw error;
      },
    );
    done.then(
      () => this.#checkForWork(),
      () => {},
    );
    this.#stage = { type: 'driving', driver, done };
    return this.#stage;
  }

  #afterDriving(stage: Stage): void {
    this.#log.letGo();
    this.#stage = stage;
    this.wakeAtExpiry();
    this.#parts.events.nudge();
    const { context } = this.#log.state;
    if (context.cancelling !== null) void this.#parts.children.cancel(context).catch(() => {});
    void this.#tellParent().catch(() => {});
  }

  /**
   * What was said after the driver's last look, and before it let go of the run, is not left lying; nor is a run
   * whose lease this process let run out, if no other took it. A sub-agent's run that ended before this one
   * waited for it could not tell it so.
   */
  async #checkForWork(): Promise<void> {
    if (hasEnded(this.#log.state)) return;
    try {
      await this.#log.catchUp();
      if (this.driver !== null) return;
      for (const command of await this.#parts.children.collect(this.#log.state.context))
        await this.#log.put([() => command]);
    } catch {
      return;
    }
    if (this.driver === null) this.driveInBackground();
  }

  /** The run that waits for this one is told how it ended, and driven on where its agent is here. */
  async #tellParent(): Promise<void> {
    const { store, host, openParent, isAwaited } = this.#options;
    const { state } = this.#log;
    const { parent } = state.context;
    if (parent === null || !hasEnded(state) || isAwaited?.() === true) return;
    const settled = describeNow(state, this.#options);
    if (settled === null || settled.status === 'waiting') return;
    if (!(await deliverToParent({ store, host }, state.context, settled))) return;
    await (await openParent?.(parent.runId))?.settled();
  }
}
