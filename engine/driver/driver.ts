import type { Effect } from '../../protocol/effect.ts';
import { isThrown } from '../../protocol/error.ts';
import type { ReportEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import type { AppendOutcome, RunLog } from '../journal/run-log.ts';
import type { Snapshots } from '../journal/snapshots.ts';
import type { CommandOptions } from '../run/command.ts';
import type { RunEvents } from '../run/run-events.ts';
import type { RunOptions } from '../run/run-options.ts';
import { Cancelled, type Report, type ServiceScope, Stopped } from '../services/service.ts';
import type { Chart } from './chart.ts';
import { findLiveAttempt } from './find-live-attempt.ts';
import { sleep } from './host.ts';
import type { Lease } from './lease.ts';

/**
 * Drives one run while this process holds its lease.
 *
 * D1 What runs is what the state waits for: services are started and stopped by effects alone, and
 *    checked against the state whenever somebody else's events came in between.
 * D2 A service touches the outside only behind `durable()` (E1), and a tool only behind `assertDriving()` too (E2).
 *    A call that may run unrecorded (`mayRunUnrecorded`) does not wait for `durable()`; what follows from it does.
 *    A process that is stopped between that check and the end of the call, for longer than its lease, cannot
 *    be held back: what another then starts again has the same key, and a `once` call is in doubt there.
 * D3 A driver that lost its lease reports nothing more (E4).
 * D4 Driving ends when the run rests or has ended, everything is durable, and nobody has said anything since.
 */

/** How often foreign events are looked for, in ms; they are seen within 200. */
export const POLL_MS = 150;

export type DriverOptions<State> = Pick<
  RunOptions,
  'store' | 'host' | 'runId' | 'durability' | 'graceMs' | 'services' | 'judgeOwner'
> & {
  chart: Chart<State>;
  log: RunLog<State>;
  lease: Lease;
  snapshots: Snapshots<State>;
  events: RunEvents;
  inherited: readonly Item[];
};

/** `at-rest`: nothing more to do now; `superseded`: another process drives the run. */
export type DriveOutcome = 'at-rest' | 'superseded';

/** One for all: a stack trace of it would tell nobody anything. */
const MOVED_ON = new Stopped('The run has moved on.');

type Running = { generation: number; abort: AbortController; done: Promise<void> };

export class Driver<State> {
  readonly #options: DriverOptions<State>;
  readonly #chart: Chart<State>;
  readonly #log: RunLog<State>;
  readonly #lease: Lease;
  readonly #blobs: RunBlobs;
  readonly #running = new Map<string, Running>();
  readonly #outcome = Promise.withResolvers<DriveOutcome>();
  #over = false;
  #cancelling: Promise<AppendOutcome> | null = null;
  #cancelTick = () => {};
  #flushScheduled = false;
  #checking = false;

  constructor(options: DriverOptions<State>) {
    this.#options = options;
    this.#chart = options.chart;
    this.#log = options.log;
    this.#lease = options.lease;
    this.#blobs = new RunBlobs(options);
    this.#outcome.promise.catch(() => {});
  }

  get state(): State {
    return this.#log.state;
  }

  /** Starts what the state waits for and goes on until the run rests or has ended. Rejects with the store's error. */
  async drive(): Promise<DriveOutcome> {
    this.#log.follow({
      onInput: effects => {
        this.#apply(effects);
        this.#honourCancel();
        this.#commitInBackground();
      },
      onDropped: effects => {
        for (const effect of effects) if (effect.type === 'start') this.#stop(effect.id);
      },
      onRefolded: () => {
        this.#honourCancel();
        this.#matchServices();
        this.#commitInBackground();
      },
      onSuperseded: () => this.#end('superseded'),
      onFailed: error => this.#giveUp(error),
    });
    this.#honourCancel();
    this.#matchServices();
    this.#scheduleTick();
    void this.#endIfQuiet();
    return await this.#outcome.promise;
  }

  /** Aborts what runs, waits for it to settle within the grace time, then puts the cancellation to the chart. */
  async cancel(said: CommandOptions & { reason?: string }): Promise<AppendOutcome> {
    if (this.#over) return { type: 'driver-changed' };
    this.#cancelling ??= this.#cancel(said);
    return await this.#cancelling;
  }

  async #cancel(said: CommandOptions & { reason?: string }): Promise<AppendOutcome> {
    const running = [...this.#running.values()];
    for (const { abort } of running) abort.abort(new Cancelled('The run was cancelled.'));
    const settled = Promise.allSettled(running.map(({ done }) => done));
    const grace = new AbortController();
    await Promise.race([settled, sleep(this.#options.host, this.#options.graceMs, grace.signal)]);
    grace.abort();
    return this.#over
      ? { type: 'driver-changed' }
      : await this.#log.append([state => this.#chart.cancel(state, said)]);
  }

  /** Another process asked this one to cancel the run: it does, with the grace time. */
  #honourCancel(): void {
    const said = this.#chart.cancellation(this.state);
    if (said === null || this.#cancelling !== null || this.#chart.hasEnded(this.state)) return;
    this.cancel(said).catch(error => this.#giveUp(error));
  }

  #apply(effects: readonly Effect[]): void {
    for (const effect of effects) {
      switch (effect.type) {
        case 'start':
          this.#start(effect);
          break;
        case 'stop':
          this.#stop(effect.id);
          break;
        case 'publish':
          this.#options.events.publishDelta(effect.notice);
          break;
      }
    }
  }

  #matchServices(): void {
    const wanted = this.#chart.pending(this.state);
    for (const [id, { generation }] of [...this.#running]) {
      if (!wanted.some(service => service.id === id && service.input.generation === generation))
        this.#stop(id);
    }
    for (const service of wanted) if (!this.#running.has(service.id)) this.#start(service);
    void this.#endIfQuiet();
  }

  #start(effect: Extract<Effect, { type: 'start' }>): void {
    if (this.#over || this.#cancelling !== null) return;
    this.#options.host.reach?.('effect.before');
    const abort = new AbortController();
    const scope = this.#makeScope(effect, abort.signal);
    const done = Promise.resolve()
      .then(() => this.#options.services[effect.service](scope))
      .catch(error => this.#serviceFailed(error, abort.signal));
    this.#running.set(effect.id, { generation: effect.input.generation, abort, done });
    this.#options.host.reach?.('effect.after');
  }

  #stop(id: string): void {
    const running = this.#running.get(id);
    this.#running.delete(id);
    running?.abort.abort(MOVED_ON);
  }

  /** A service that throws is a defect, or a store that failed: the run stays as it is, resumable. */
  #serviceFailed(error: unknown, signal: AbortSignal): void {
    if (isThrown(error, Stopped) || signal.aborted) return;
    this.#giveUp(error);
  }

  #makeScope({ input }: Extract<Effect, { type: 'start' }>, signal: AbortSignal): ServiceScope {
    const { host, inherited, events, store, runId, judgeOwner } = this.#options;
    return {
      host,
      signal,
      until: input.until,
      context: () => this.#chart.contextOf(this.state),
      inherited: () => inherited,
      report: report => this.#report(report, input.generation),
      durable: () => this.#durable(signal),
      assertDriving: () => this.#assertDriving(),
      publish: events.publishDelta,
      blobs: this.#blobs,
      recordLate: outcome => this.#log.recordLate(outcome),
      findLiveAttempt: call => findLiveAttempt({ store, judgeOwner }, runId, call),
    };
  }

  #report(report: Report, generation: number): boolean {
    if (this.#over) return false;
    this.#options.host.reach?.('report.before');
    const event = { ...report, at: this.#options.host.now(), generation } as ReportEvent;
    const effects = this.#log.report(event);
    if (effects === null) return false;
    this.#apply(effects);
    if (event.type !== 'text.started' && event.type !== 'calls.started') this.#commitInBackground();
    this.#options.host.reach?.('report.after');
    return true;
  }

  async #durable(signal: AbortSignal): Promise<void> {
    this.#throwIfStopped(signal);
    if (this.#options.durability === 'relaxed') this.#commitInBackground();
    else await this.#log.commit();
    this.#saveSnapshot();
    await this.#renewAfter(1 / 2);
    this.#throwIfStopped(signal);
  }

  #throwIfStopped(signal: AbortSignal): void {
    if (this.#over || signal.aborted) throw new Stopped('This work is not wanted any more.');
  }

  #assertDriving(): void {
    if (!this.#over && this.#lease.isValid) return;
    this.#end('superseded');
    throw new Stopped('The lease ran out before the tool was called.');
  }

  /** What was reported in one go is committed in one go, soon. */
  #commitInBackground(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    setImmediate(() => {
      this.#flushScheduled = false;
      this.#log
        .commit()
        .then(() => {
          this.#saveSnapshot();
          return this.#endIfQuiet();
        })
        .catch(error => this.#giveUp(error));
    });
  }

  #scheduleTick(): void {
    this.#cancelTick = this.#options.host.setTimer(POLL_MS, () => void this.#tick());
  }

  async #tick(): Promise<void> {
    if (this.#over) return;
    try {
      await this.#renewAfter(1 / 3);
      await this.#log.catchUp();
    } catch (error) {
      return this.#giveUp(error);
    }
    if (!this.#over) this.#scheduleTick();
  }

  async #renewAfter(part: number): Promise<void> {
    if (!this.#over && !(await this.#lease.renewAfter(part))) this.#end('superseded');
  }

  /** Nothing left to do: snapshot, release, and one more look for what was said meanwhile. */
  async #endIfQuiet(): Promise<void> {
    if (this.#over || this.#checking || !this.#isQuiet()) return;
    this.#checking = true;
    try {
      await this.#log.catchUp();
      if (this.#over || !this.#isQuiet()) return;
      await this.#options.snapshots.saveAtRest(this.#log.durable);
      if (this.#over || !this.#isQuiet()) return;
      this.#end('at-rest');
    } catch (error) {
      this.#giveUp(error);
    } finally {
      this.#checking = false;
    }
  }

  #isQuiet(): boolean {
    if (!this.#log.isDurable) return false;
    if (this.#chart.hasEnded(this.state)) return true;
    const wakeAt = this.#chart.wakeAt(this.state);
    return this.#chart.isAtRest(this.state) && (wakeAt === null || wakeAt > this.#options.host.now());
  }

  #saveSnapshot(): void {
    if (!this.#over) this.#options.snapshots.saveInBackground(this.#log.durable);
  }

  #end(outcome: DriveOutcome): void {
    if (this.#over) return;
    this.#close();
    const { resolve, reject } = this.#outcome;
    if (outcome === 'superseded') return resolve(outcome);
    this.#lease.release().then(() => resolve(outcome), reject);
  }

  #giveUp(error: unknown): void {
    if (this.#over) return;
    this.#close();
    this.#lease
      .release()
      .catch(() => {})
      .finally(() => this.#outcome.reject(error));
  }

  #close(): void {
    this.#over = true;
    this.#cancelTick();
    for (const id of [...this.#running.keys()]) this.#stop(id);
    this.#log.stopDriving();
  }
}
