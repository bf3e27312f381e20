/*
 * engine/driver: carrying out the effects of a run. `supervisor.ts` decides when this process claims and drives a run,
 * `driver.ts` starts and stops its services, `lease.ts` renews its lease, and `owner.ts` judges other processes.
 * `live.ts` runs the services as XState actors, without a store.
 */

import { pendingServices } from '../../machines/snapshot.ts';
import { hasEnded, isAtRest } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { Effect, ServiceName } from '../../protocol/effect.ts';
import { isThrown } from '../../protocol/error.ts';
import type { ReportEvent } from '../../protocol/event.ts';
import { describeEventFault, isRunEvent } from '../../protocol/is-run-event.ts';
import type { Item } from '../../protocol/item.ts';
import type { PastCall } from '../../protocol/rule.ts';
import type { CancelOptions } from '../../protocol/run-command.ts';
import type { RunEvents } from '../events/run-events.ts';
import { SharedText } from '../events/shared-text.ts';
import { POLL_MS, runSoon, settledWithin } from '../host/host.ts';
import { findLiveAttempt } from '../journal/find-live-attempt.ts';
import { playFrom } from '../journal/recorded-calls.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import { CALLS_MS, cancelRun } from '../log/command.ts';
import type { AppendOutcome } from '../log/refusal.ts';
import type { RunLog } from '../log/run-log.ts';
import type { Snapshots } from '../log/snapshots.ts';
import { Cancelled, type Report, type ServiceScope, Stop, Stopped, Yielding } from '../services/service.ts';
import { findOrphan, loadOutcome } from '../sub-agents/children.ts';
import { waitsForOriginal } from '../sub-agents/sub-agent-runs.ts';
import type { Lease } from './lease.ts';
import type { RunOptions } from './run-options.ts';

type DriverOptions = Pick<
  RunOptions,
  'store' | 'host' | 'runId' | 'leaseMs' | 'durability' | 'graceMs' | 'services' | 'checkOwner'
> & {
  log: RunLog;
  lease: Lease;
  snapshots: Snapshots;
  events: RunEvents;
  inherited(): Promise<readonly Item[]>;
  past(): Promise<readonly PastCall[]>;
};

/** `at-rest`: the run rests or has ended. `superseded`: another process drives it. `yielded`: this one gave it up. */
export type DriveOutcome = 'at-rest' | 'superseded' | 'yielded';

const NONE: readonly Report[] = [];

/** Shared by all aborts: its stack trace is of no use. */
const MOVED_ON = new Stopped('The run has moved on.');

type Running = { service: ServiceName; generation: number; stop: Stop; done: Promise<void> };

/**
 * Drives one run while this process holds its lease.
 *
 * D1 The running services are those that the state waits for. Effects start and stop them; after entries of other
 *    processes, the driver compares them with the state.
 * D2 A service acts on the outside only after `durable()`, and calls a tool only after `assertDriving()` too. A call
 *    that may run unrecorded (`mayRunUnrecorded`) does not wait for `durable()`, but everything that follows from its
 *    result does. A process that is suspended between that check and the end of the call, for longer than its lease,
 *    cannot be stopped from acting. The next driver's attempt has the same idempotency key, or a `once` call is in doubt there.
 * D3 A driver that lost its lease reports nothing more.
 * D4 Driving ends when the run rests or has ended, everything is durable, and no new input has arrived.
 * D5 A driver that yields starts nothing more. It releases the lease once what its services reported is durable. It does
 *    not wait for a run that is cancelled after its calls: the next driver ends that.
 */
export class Driver {
  readonly #options: DriverOptions;
  readonly #log: RunLog;
  readonly #lease: Lease;
  readonly #blobs: RunBlobs;
  readonly #shared: SharedText | null;
  readonly #running = new Map<string, Running>();
  readonly #outcome = Promise.withResolvers<DriveOutcome>();
  #isOver = false;
  readonly #yielding = new AbortController();
  #isYielding = false;
  #cancelling: Promise<AppendOutcome> | null = null;
  /** While a cancelled run waits for its calls: ends that wait. */
  #endCalls: (() => void) | null = null;
  #endLooking = () => {};
  #isCommitScheduled = false;
  #isChecking = false;

  constructor(options: DriverOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#lease = options.lease;
    this.#blobs = new RunBlobs({ ...options, redactions: options.log.durable.redactions });
    const { deltas } = options.store;
    const durable = () => this.#log.durable;
    this.#shared = deltas === undefined ? null : new SharedText({ ...options, deltas, durable });
    this.#outcome.promise.catch(() => {});
  }

  get #state(): ChartState {
    return this.#log.state;
  }

  async drive(): Promise<DriveOutcome> {
    this.#log.follow({
      onInput: effects => {
        this.#apply(effects);
        this.#honourCancelRequest();
        this.#commitInBackground();
      },
      onDropped: effects => {
        for (const effect of effects) if (effect.type === 'start') this.#stop(effect.id);
      },
      onRefolded: () => {
        this.#honourCancelRequest();
        this.#matchServices();
        this.#commitInBackground();
      },
      onSuperseded: () => this.#end('superseded'),
      onFailed: error => this.#giveUp(error),
    });
    this.#honourCancelRequest();
    this.#matchServices();
    this.#endLooking = lookForEntries(this.#options, () => this.#look());
    void this.#endIfQuiet();
    return await this.#outcome.promise;
  }

  async cancel(options: CancelOptions): Promise<AppendOutcome> {
    if (this.#isOver) return { type: 'driver-changed' };
    if (options.afterCalls !== true) this.#endCalls?.();
    this.#cancelling ??= this.#cancel(options);
    return await this.#cancelling;
  }

  async #cancel(options: CancelOptions): Promise<AppendOutcome> {
    if (options.afterCalls === true) await this.#finishCalls();
    for (const { stop } of this.#running.values()) stop.abort(new Cancelled());
    await this.#servicesEnd(this.#options.graceMs);
    if (this.#isOver) return { type: 'driver-changed' };
    return await this.#log.append([state => cancelRun(state, options)]);
  }

  /** Aborts everything but tool calls, and waits for the calls that have started. */
  async #finishCalls(): Promise<void> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#endCalls = resolve;
    this.#yielding.abort(new Cancelled(true));
    const calls: Promise<void>[] = [];
    for (const { service, stop, done } of this.#running.values())
      if (service === 'toolBatch') calls.push(done);
      else stop.abort(new Cancelled());
    await Promise.race([ended, settledWithin(this.#options.host, CALLS_MS, calls)]);
    this.#endCalls = null;
  }

  /** Waits up to `graceMs` for calls in progress, then aborts the others. Resolves once the lease is released. */
  async yield(graceMs: number): Promise<void> {
    if (!this.#isYielding) {
      this.#isYielding = true;
      this.#yielding.abort(new Yielding(graceMs));
      void this.#yield(graceMs).catch(error => this.#giveUp(error));
    }
    await this.#outcome.promise.catch(() => {});
  }

  async #yield(graceMs: number): Promise<void> {
    for (const { id, service } of pendingServices(this.#state)) if (service === 'timer') this.#stop(id);
    await this.#servicesEnd(graceMs);
    if (this.#cancelling !== null && this.#endCalls === null) await this.#cancelling;
    if (!this.#isOver) await this.#log.commit();
    this.#end('yielded');
  }

  async #servicesEnd(graceMs: number): Promise<void> {
    const services = [...this.#running.values()].map(({ done }) => done);
    await settledWithin(this.#options.host, graceMs, services);
  }

  #honourCancelRequest(): void {
    const request = this.#state.context.cancelling;
    if (request === null || this.#cancelling !== null || hasEnded(this.#state)) return;
    this.cancel(request).catch(error => this.#giveUp(error));
  }

  /** `reporter`: the service whose report had these effects. */
  #apply(effects: readonly Effect[], reporter?: string): void {
    for (const effect of effects) {
      if (effect.type === 'start') this.#start(effect);
      else if (effect.type === 'stop') this.#stop(effect.id, effect.id === reporter);
      else this.#options.events.publishDelta(effect.notice);
    }
  }

  #matchServices(): void {
    const wanted = pendingServices(this.#state);
    for (const [id, { generation }] of [...this.#running]) {
      if (!wanted.some(service => service.id === id && service.input.generation === generation))
        this.#stop(id);
    }
    for (const service of wanted) if (!this.#running.has(service.id)) this.#start(service);
    void this.#endIfQuiet();
  }

  #start(effect: Extract<Effect, { type: 'start' }>): void {
    if (this.#isOver || this.#cancelling !== null || this.#yielding.signal.aborted) return;
    this.#options.host.reach?.('effect.before');
    const stop = new Stop();
    const scope = this.#makeScope(effect, stop);
    const done = Promise.resolve()
      .then(() => this.#options.services[effect.service](scope))
      // A service throws because of a defect or a failed store: driving ends, and the run can be resumed.
      .catch(error => void (isThrown(error, Stopped) || stop.isStopped || this.#giveUp(error)));
    this.#running.set(effect.id, {
      service: effect.service,
      generation: effect.input.generation,
      stop,
      done,
    });
    this.#options.host.reach?.('effect.after');
  }

  #stop(id: string, reportedLast = false): void {
    const stop = this.#running.get(id)?.stop;
    this.#running.delete(id);
    if (reportedLast) stop?.end();
    else stop?.abort(MOVED_ON);
  }

  #makeScope({ id, input }: Extract<Effect, { type: 'start' }>, stop: Stop): ServiceScope {
    const { host, inherited, past, events, store, runId, checkOwner } = this.#options;
    return {
      host,
      stop,
      yielding: this.#yielding.signal,
      until: input.until,
      context: () => this.#state.context,
      inherited,
      past,
      report: report => this.#report([report], id, input.generation).length === 0,
      reportSoon: gather(reports => this.#report(reports, id, input.generation)),
      faultIn,
      durable: () => this.#durable(stop),
      committed: () => this.#committed(stop),
      commitsInBackground: true,
      assertDriving: () => this.#assertDriving(),
      publish: events.publishDelta,
      blobs: this.#blobs,
      store,
      recordLate: outcome => this.#log.recordLate(outcome),
      play: playFrom(store, host),
      loadOutcome: workId => loadOutcome({ store, host }, workId),
      findOrphan: child => findOrphan(store, child),
      findLiveAttempt: call => findLiveAttempt({ store, checkOwner }, runId, call),
    };
  }

  /** Returns the reports that the chart does not take. */
  #report(reports: readonly Report[], reporter: string, generation: number): readonly Report[] {
    if (this.#isOver) return reports;
    this.#options.host.reach?.('report.before');
    const at = this.#options.host.now();
    const events = reports.map(report => ({ ...report, at, generation }) as ReportEvent);
    const reported = this.#log.report(events);
    if (reported === null) return reports;
    const { effects, refused } = reported;
    this.#apply(effects, reporter);
    if (events.some(({ type }) => type !== 'text.started' && type !== 'calls.started'))
      this.#commitInBackground();
    this.#options.host.reach?.('report.after');
    if (refused.length === 0) return NONE;
    return reports.filter((_, index) => refused.some(event => event === events[index]));
  }

  async #durable(stop: Stop): Promise<void> {
    this.#throwIfStopped(stop);
    if (this.#options.durability === 'relaxed') this.#commitInBackground();
    else await this.#log.commit();
    this.#saveSnapshot();
    if (!this.#lease.isFreshUntil(1 / 2)) await this.#renewAfter(1 / 2);
    this.#throwIfStopped(stop);
  }

  async #committed(stop: Stop): Promise<number> {
    await this.#log.commit();
    this.#throwIfStopped(stop);
    return this.#log.durable.seq;
  }

  #throwIfStopped({ isStopped }: Stop): void {
    if (this.#isOver || isStopped) throw MOVED_ON;
  }

  #assertDriving(): void {
    if (!this.#isOver && this.#lease.isValid) return;
    this.#end('superseded');
    throw new Stopped('The lease ran out before the tool was called.');
  }

  /** Commits soon; everything reported until then is in the same commit. */
  #commitInBackground(): void {
    if (this.#isCommitScheduled) return;
    this.#isCommitScheduled = true;
    runSoon(() => {
      this.#isCommitScheduled = false;
      this.#log
        .commit()
        .then(() => {
          this.#saveSnapshot();
          return this.#endIfQuiet();
        })
        .catch(error => this.#giveUp(error));
    });
  }

  async #look(): Promise<void> {
    try {
      await this.#renewAfter(1 / 3);
      if (!this.#isOver) await this.#log.catchUp();
    } catch (error) {
      this.#giveUp(error);
    }
  }

  async #renewAfter(part: number): Promise<void> {
    if (!this.#isOver && !(await this.#lease.renewAfter(part))) this.#end('superseded');
  }

  async #endIfQuiet(): Promise<void> {
    if (this.#isOver || this.#isChecking || !this.#isQuiet()) return;
    this.#isChecking = true;
    try {
      await this.#log.catchUp();
      if (this.#isOver || !this.#isQuiet()) return;
      // Awaited with the release of the lease: a store may commit both at once.
      this.#end('at-rest', this.#options.snapshots.saveAtRest(this.#log.durable));
    } catch (error) {
      this.#giveUp(error);
    } finally {
      this.#isChecking = false;
    }
  }

  #isQuiet(): boolean {
    if (!this.#log.isDurable) return false;
    if (hasEnded(this.#state)) return true;
    const wakeAt = this.#state.context.timer;
    return isAtRest(this.#state) && (wakeAt === null || wakeAt > this.#options.host.now());
  }

  #saveSnapshot(): void {
    if (!this.#isOver) this.#options.snapshots.saveInBackground(this.#log.durable);
  }

  #end(outcome: DriveOutcome, saved = Promise.resolve()): void {
    if (this.#isOver) return;
    this.#close();
    const { resolve, reject } = this.#outcome;
    if (outcome === 'superseded') return resolve(outcome);
    Promise.all([saved, this.#release()]).then(() => resolve(outcome), reject);
  }

  #giveUp(error: unknown): void {
    if (this.#isOver) return;
    this.#close();
    this.#release()
      .catch(() => {})
      .finally(() => this.#outcome.reject(error));
  }

  async #release(): Promise<void> {
    const state = this.#state;
    if (hasEnded(state)) return await this.#lease.release();
    const wakeAt = waitsForOriginal(state.context) ? this.#options.host.now() : state.context.timer;
    await this.#lease.release(wakeAt ?? undefined);
  }

  #close(): void {
    this.#isOver = true;
    this.#endCalls?.();
    this.#endLooking();
    this.#lease.end();
    for (const id of [...this.#running.keys()]) this.#stop(id);
    this.#log.stopDriving();
    void this.#shared?.close();
  }
}

function faultIn(report: Report): string | undefined {
  const event = { ...report, at: 0, generation: 0 };
  return isRunEvent(event) ? undefined : describeEventFault(event);
}

/** Reports what is put in the same moment in one step. Each caller gets the reports that `report` returns. */
function gather(report: (reports: readonly Report[]) => readonly Report[]): ServiceScope['reportSoon'] {
  let gathered: Report[] = [];
  let reported: Promise<readonly Report[]> | null = null;
  const flush = () => {
    reported = null;
    const reports = gathered;
    gathered = [];
    return report(reports);
  };
  return one => {
    gathered.push(one);
    reported ??= Promise.resolve().then(flush);
    return reported;
  };
}

/** How often a store that notifies of inputs and claims is looked at, in ms: for what it did not report. */
const WATCHED_POLL_MS = 5_000;

/**
 * Looks when the store reports a change, and often enough to renew the lease. One look at a time. Returns a function
 * that ends it.
 */
function lookForEntries(
  { store, host, runId, leaseMs }: Pick<RunOptions, 'store' | 'host' | 'runId' | 'leaseMs'>,
  look: () => Promise<void>,
): () => void {
  let isOver = false;
  let isLooking = false;
  let isTold = false;
  let cancelTimer = () => {};
  const lookNow = async () => {
    isTold = true;
    if (isLooking) return;
    isLooking = true;
    while (isTold && !isOver) {
      isTold = false;
      await look();
    }
    isLooking = false;
  };
  const endWatching = store.watch?.(runId, () => void lookNow());
  const intervalMs = endWatching === undefined ? POLL_MS : Math.min(WATCHED_POLL_MS, Math.ceil(leaseMs / 3));
  const schedule = () => {
    cancelTimer = host.setTimer(intervalMs, () => {
      void lookNow().finally(() => isOver || schedule());
    });
  };
  schedule();
  return () => {
    isOver = true;
    cancelTimer();
    endWatching?.();
  };
}
