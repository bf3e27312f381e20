import type { Context } from '../../machines/context.ts';
import { hasEnded, isAtRest } from '../../machines/status.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import { isDriven } from '../../protocol/store.ts';
import { watchDrive, watchEnd } from '../events/watch-drive.ts';
import { type HostMoment, LONGEST_NAP_MS, momentOf, POLL_MS, sleep } from '../host/host.ts';
import { describeMigrated } from '../journal/read-journal.ts';
import { cancelRun, type MakeCommand } from '../log/command.ts';
import type { Stranded, SubmitResult } from '../log/refusal.ts';
import type { RunLog } from '../log/run-log.ts';
import { describeNow, type Settled } from '../log/settled.ts';
import { Snapshots } from '../log/snapshots.ts';
import { addChildren, deliverToParent, findOrphan } from '../sub-agents/children.ts';
import { suspendedCalls } from '../sub-agents/sub-agent-runs.ts';
import { detectCrashLoop } from './detect-crash-loop.ts';
import { type DriveOutcome, Driver } from './driver.ts';
import { type Drives, drivesOf } from './drives.ts';
import { Lease } from './lease.ts';
import type { RunOptions, RunParts, RunSupervisor } from './run-options.ts';

/** `failed`: driving failed in this process and has not been retried. */
type Stage =
  | { type: 'idle' }
  | { type: 'claiming'; claimed: Promise<boolean> }
  | { type: 'driving'; driver: Driver; done: Promise<DriveOutcome> }
  | { type: 'failed'; error: unknown };

/** When the end of a run is delivered again to a parent that does not wait for it yet, in ms: first, and at last. */
const EARLY_MS = 20;
const LATEST_MS = 1280;

/** Decides when this process drives a run: claims it, drives it until it rests, and wakes it when a timer is due. */
export class Supervisor implements RunSupervisor {
  readonly #options: RunOptions;
  readonly #parts: RunParts;
  readonly #log: RunLog;
  readonly #snapshots: Snapshots;
  readonly #drives: Drives;
  inherited: readonly Item[] | undefined;
  #stage: Stage = { type: 'idle' };
  /** How often this handle has given the run up. */
  #yields = 0;
  #cancelWake = () => {};

  constructor(parts: RunParts) {
    this.#parts = parts;
    this.#options = parts.options;
    this.#log = parts.log;
    this.#drives = drivesOf(parts.options.store);
    this.inherited = parts.inherited;
    this.#snapshots = new Snapshots(parts.options, parts.loaded);
  }

  get driver(): Driver | null {
    return this.#stage.type === 'driving' ? this.#stage.driver : null;
  }

  get activity(): 'running' | 'at-rest' | 'ended' {
    const { state } = this.#log;
    if (this.driver !== null) return 'running';
    if (hasEnded(state)) return 'ended';
    return isAtRest(state) ? 'at-rest' : 'running';
  }

  get failure(): { error: unknown } | null {
    return this.#stage.type === 'failed' ? this.#stage : null;
  }

  async refresh(): Promise<void> {
    if (this.driver === null) await this.#log.catchUp();
  }

  async put(makes: readonly MakeCommand[]): Promise<SubmitResult> {
    const result = await this.#log.put(makes);
    if (!result.accepted || this.#log.isDriving) return result;
    const { runId, store, watchers } = this.#options;
    if (hasEnded(this.#log.state)) await watchEnd(watchers?.() ?? [], { runId, store });
    const stranded = await this.#findStranding();
    if (stranded !== undefined) return { ...result, stranded };
    this.driveInBackground();
    return result;
  }

  /** Why no process drives the run, although it has something to do: this one lacks its model. */
  async #findStranding(): Promise<Stranded | undefined> {
    const { runId, store, host, isDead, explainMissingModel } = this.#options;
    const { state } = this.#log;
    if (describeNow(state, this.#options) !== null) return undefined;
    const missing = explainMissingModel(state.context);
    if (missing === undefined) return undefined;
    // The command is durable: a store that fails now must not make it look lost.
    const mayBeDriven = await store.get(runId).then(
      record => record !== undefined && isDriven(record, host.now(), isDead),
      () => true,
    );
    return mayBeDriven ? undefined : { type: 'stranded', runId, ...missing };
  }

  /** Drives the run if no other process does; once it was yielded, only waits. */
  async settled(): Promise<Settled> {
    const yields = this.#yields;
    for (;;) {
      const outcome = this.#stage.type === 'driving' ? await this.#stage.done : null;
      // Others may have continued a run that came to rest here: the caller gets the rest, and does not follow them.
      if (outcome !== 'at-rest') await this.refresh();
      const settled = this.driver === null ? describeNow(this.#log.state, this.#options) : null;
      if (settled !== null) {
        const { context } = this.#log.state;
        if (settled.status === 'waiting') {
          if (await this.#deliverAnswers(context, settled.open.length > 0)) continue;
        } else if (context.background.length > 0) await this.#parts.children.cancel(this.#log.state);
        return await addChildren(this.#options.store, this.#log.state, settled);
      }
      if (this.driver !== null || (await this.#endIfOverdue())) continue;
      if (yields === this.#yields && (await this.tryToDrive())) continue;
      await sleep(this.#options.host, POLL_MS);
    }
  }

  async drive(): Promise<void> {
    const yields = this.#yields;
    await this.refresh();
    const { state } = this.#log;
    const { timer } = state.context;
    const hasTimer = timer !== null && timer <= this.#options.host.now();
    if (isAtRest(state) && !hasTimer && (await this.#parts.children.onlyWaits(state.context))) return;
    const claim = async () => yields === this.#yields && (await this.tryToDrive());
    if (hasEnded(state) || !(await claim())) return;
    for (;;) {
      if (this.#stage.type === 'driving') await this.#stage.done;
      await this.refresh();
      if (yields !== this.#yields) return;
      if (this.driver === null && describeNow(this.#log.state, this.#options) !== null) {
        if (!(await this.#collectAnswers())) return;
      } else if (!(await this.#endIfOverdue()) && !(await claim())) return;
    }
  }

  /** Delivers the answers of the sub-agents' runs that have ended. Returns whether there were any. */
  async #collectAnswers(): Promise<boolean> {
    if (hasEnded(this.#log.state)) return false;
    const ended = await this.#parts.children.collect(this.#log.state.context);
    for (const command of ended) await this.#log.put([() => command]);
    return ended.length > 0;
  }

  /** Callers that wait for `settled()` now follow the run. See `Driver.yield`. */
  async yield(graceMs: number): Promise<void> {
    this.#yields += 1;
    const below = this.#drives.below(this.#log.runId).map(drive => drive.yield(graceMs));
    if (this.#stage.type === 'claiming') await this.#stage.claimed.catch(() => {});
    await Promise.all([...below, this.driver?.yield(graceMs)]);
  }

  get parentId(): string | undefined {
    return this.#log.state.context.parent?.runId;
  }

  /** `isAsking`: the run waits for a person, who is not kept waiting until background work has ended. */
  async #deliverAnswers(context: Context, isAsking: boolean): Promise<boolean> {
    const { children } = this.#parts;
    const all = suspendedCalls(context);
    const awaited = isAsking ? all.filter(({ inBackground }) => !inBackground) : all;
    const others = all.filter(call => !awaited.includes(call));
    if (others.length > 0) void children.settle(context, others).catch(() => {});
    if (awaited.length === 0) return false;
    const { runId } = this.#log;
    const settling = children.settle(context, awaited);
    const ended = await this.#drives.waitingFor(runId, this, settling);
    for (const command of ended) await this.put([() => command]);
    return ended.length > 0;
  }

  /** Ends the run if its driver has not honoured a cancel request by the deadline. Returns whether it did. */
  async #endIfOverdue(): Promise<boolean> {
    const { cancelling } = this.#log.state.context;
    if (cancelling === null || this.#options.host.now() < cancelling.deadline) return false;
    return (await this.put([state => cancelRun(state, cancelling)])).accepted;
  }

  /** A store that grants no leases gives epoch 0: others drive the run. */
  begin(epoch: number, leasedAt: HostMoment, inherited: readonly Item[]): void {
    this.inherited = inherited;
    if (epoch === 0) return;
    this.#log.startDriving(epoch);
    this.#drive(epoch, leasedAt);
  }

  async tryToDrive(): Promise<boolean> {
    const stage = this.#stage;
    if (stage.type === 'driving') return true;
    if (stage.type === 'claiming') return await stage.claimed;
    if (this.#drives.isDraining) return false;
    const claimed = this.#drives.claiming(this.#claim(stage));
    this.#stage = { type: 'claiming', claimed };
    return await claimed;
  }

  /** Drives the run if it has something to do; otherwise sets a timer for when it has. */
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
    const { store, runId, host, owner, leaseMs, isDead } = this.#options;
    const leasedAt = momentOf(host);
    let after: Stage = before;
    let epoch: number | 'held' | 'ended' = 'held';
    try {
      epoch = await this.#log.claim({ owner, leaseMs, now: leasedAt.wall, isDead, unlessEnded: true });
      if (epoch === 'ended') await this.#readEnd();
      if (typeof epoch === 'string') return false;
      await this.#endIfOrphaned();
      await this.#quarantineIfCrashing();
      await this.#loadInherited();
      while (!this.#log.isDurable) await this.#log.commit();
      if (!this.#log.isDriving) return false;
      after = this.#drive(epoch, leasedAt);
      return true;
    } catch (error) {
      if (this.#log.isDriving) after = { type: 'failed', error };
      this.#log.stopDriving();
      // The claim took the wake-up that was due: it is due again.
      if (typeof epoch === 'number') await store.release(runId, epoch, leasedAt.wall).catch(() => {});
      throw error;
    } finally {
      this.#stage = after;
    }
  }

  /** Reads the end of the run. A run that was migrated has none: it has ended in the store alone. */
  async #readEnd(): Promise<void> {
    await this.#log.catchUp();
    if (!hasEnded(this.#log.state)) throw describeMigrated(this.#log.runId);
  }

  /** Reloads the inherited transcript; uses the cached one if the store no longer has one of its runs. */
  async #loadInherited(): Promise<readonly Item[]> {
    if (this.#log.state.context.compaction.count > 0) return [];
    const { inherited } = this.#parts.loaded;
    if (inherited !== undefined) return inherited;
    const { inherited: cached } = this;
    const loading = this.#options.loadInherited(this.#log.state.context);
    this.inherited = await loading.catch(error => {
      if (cached !== undefined && error instanceof EngineError && error.code === 'run-unknown') return cached;
      throw error;
    });
    return this.inherited;
  }

  async #endIfOrphaned(): Promise<void> {
    const { state } = this.#log;
    const reason = hasEnded(state) ? null : await findOrphan(this.#options.store, state.context);
    if (reason !== null) await this.#log.append([current => cancelRun(current, { reason })]);
  }

  async #quarantineIfCrashing(): Promise<void> {
    const reason = await detectCrashLoop(this.#options.store, this.#log.durable, this.#log.runId);
    if (reason !== null) await this.#log.append([() => ({ type: 'run.quarantined', reason })]);
  }

  #drive(epoch: number, leasedAt: HostMoment): Stage {
    this.#cancelWake();
    const options = this.#options;
    const lease = new Lease({ ...options, epoch, leasedAt });
    const { log, events } = this.#parts;
    const snapshots = this.#snapshots;
    const inherited = () => this.#loadInherited();
    const past = () => options.loadPast(log.state.context);
    const driver = new Driver({ ...options, log, lease, events, inherited, past, snapshots });
    const watchers = options.watchers?.() ?? [];
    const endWatching = watchDrive(watchers, { ...options, epoch }, events);
    const driven = driver.drive();
    const done = (watchers.length === 0 ? driven : driven.finally(endWatching)).then(
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
      outcome => void (outcome === 'yielded' || this.#checkForWork()),
      () => {},
    );
    this.#stage = { type: 'driving', driver, done };
    this.#drives.add(this, done);
    return this.#stage;
  }

  #afterDriving(stage: Stage): void {
    this.#log.stopDriving();
    this.#stage = stage;
    this.wakeAtExpiry();
    this.#parts.events.wakeReaders();
    const { context } = this.#log.state;
    const endsWork = context.background.length > 0 && hasEnded(this.#log.state);
    if (context.cancelling !== null || endsWork)
      void this.#parts.children.cancel(this.#log.state).catch(() => {});
    void this.#deliverToParent().catch(() => {});
  }

  /** Drives again for inputs after the driver's last look, an expired lease, or answers of sub-agents that came early. */
  async #checkForWork(): Promise<void> {
    if (hasEnded(this.#log.state)) return;
    try {
      await this.#log.catchUp();
      if (this.driver !== null) return;
      await this.#collectAnswers();
    } catch {
      return;
    }
    if (this.driver === null) this.driveInBackground();
  }

  async #deliverToParent(): Promise<void> {
    const { store, host, openParent, isAwaited } = this.#options;
    const { state } = this.#log;
    const { parent } = state.context;
    if (parent === null || !hasEnded(state) || isAwaited?.() === true) return;
    const settled = describeNow(state, this.#options);
    if (settled === null || settled.status === 'waiting') return;
    let outcome = await deliverToParent({ store, host }, state.context, settled);
    // Later still, the parent looks itself, once it rests.
    for (let waitMs = EARLY_MS; outcome === 'early' && waitMs <= LATEST_MS; waitMs *= 4) {
      await sleep(host, waitMs);
      outcome = await deliverToParent({ store, host }, state.context, settled);
    }
    if (outcome !== 'delivered') return;
    const waiting = this.#drives.waiting(parent.runId);
    if (waiting !== undefined) return await waiting.goOn();
    await (await openParent?.(parent.runId))?.settled();
  }

  /** Drives the run for what a run below has delivered. */
  async goOn(): Promise<void> {
    await this.refresh();
    this.driveInBackground();
  }
}
