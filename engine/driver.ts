import { pendingServices } from '../machines/snapshot.ts';
import type { ChartState } from '../machines/step.ts';
import type { Delta, Effect, ServiceName } from '../protocol/effect.ts';
import { isThrown } from '../protocol/error.ts';
import type { ChartEvent, ReportEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import type { Store } from '../protocol/store.ts';
import { appendLate } from './append-evidence.ts';
import type { Channel } from './channel.ts';
import { cancelRun, stampCommand } from './command.ts';
import { findLiveAttempt, type JudgeOwner } from './find-live-attempt.ts';
import { elapsedSince, type Host, type Moment, momentOf, sleep } from './host.ts';
import { Journal } from './journal.ts';
import { hasEnded, isAtRest, type LoadedRun, makeImage } from './load-run.ts';
import { RunBlobs } from './run-blobs.ts';
import {
  Cancelled,
  type LateOutcome,
  type Report,
  type Service,
  type ServiceScope,
  Stopped,
} from './service.ts';
import { trackRecord } from './services/running-calls.ts';

/**
 * Drives one run while this process holds its lease.
 *
 * D1 What runs is what the state waits for: services are started and stopped by effects alone, and
 *    checked against the state whenever somebody else's events came in between.
 * D2 A service touches the outside only behind `durable()` (E1), and a tool only behind
 *    `assertDriving()` too (E2).
 *    A process that is stopped between that check and the end of the call, for longer than its lease, cannot
 *    be held back: what another then starts again has the same key, and a `once` call is in doubt there.
 * D3 A driver that lost its lease reports nothing more (E4).
 * D4 Driving ends when the run rests or has ended, everything is durable, and nobody has said anything since.
 */

/** How often foreign events are looked for, in ms; they are seen within 200. */
export const POLL_MS = 150;

export type DriverOptions = {
  store: Store;
  host: Host;
  runId: string;
  epoch: number;
  leaseMs: number;
  /** Right before the lease was asked for: it holds from then. */
  leasedAt: Moment;
  durability: 'strict' | 'relaxed';
  /** How long aborted tools may take to settle on cancel, in ms. */
  graceMs: number;
  services: Readonly<Record<ServiceName, Service>>;
  channel: Channel;
  judgeOwner: JudgeOwner;
  loaded: LoadedRun;
  inherited: readonly Item[];
};

/** Entries behind the latest snapshot of a run that does not rest, before there is another. */
const FAR = 512;

/** `at-rest`: nothing more to do now; `superseded`: another process drives the run. */
export type DriveOutcome = 'at-rest' | 'superseded';

/** `refused`: the chart does not take it; `gone`: this driver drives no more. */
export type InputAnswer = 'accepted' | 'refused' | 'gone';

/** One for all: a stack trace of it would tell nobody anything. */
const MOVED_ON = new Stopped('The run has moved on.');

type Running = { generation: number; abort: AbortController; done: Promise<void> };

export class Driver {
  readonly #options: DriverOptions;
  readonly #journal: Journal;
  readonly #blobs: RunBlobs;
  readonly #running = new Map<string, Running>();
  readonly #outcome: Promise<DriveOutcome>;
  #finish: (outcome: DriveOutcome) => void = () => {};
  #fail: (error: unknown) => void = () => {};
  #over = false;
  #cancelling: Promise<InputAnswer> | null = null;
  #renewedAt: Moment;
  #snapshotSeq: number;
  #cancelTick = () => {};
  #flushScheduled = false;
  #checking = false;

  constructor(options: DriverOptions) {
    const { store, host, runId, epoch, loaded, leasedAt } = options;
    this.#options = options;
    this.#blobs = new RunBlobs({ store, host, runId });
    this.#renewedAt = leasedAt;
    this.#snapshotSeq = loaded.snapshotSeq;
    this.#journal = new Journal({
      store,
      host,
      runId,
      epoch,
      state: loaded.state,
      seq: loaded.seq,
      listener: {
        onEntry: entry => options.channel.publishEntry(entry),
        onRefolded: () => {
          this.#honourCancel();
          this.#matchServices();
          this.#commitInBackground();
        },
        onSuperseded: () => this.#end('superseded'),
        onLate: outcome => this.#recordLate(outcome),
        onFailed: error => this.#giveUp(error),
      },
    });
    this.#outcome = new Promise((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
    this.#outcome.catch(() => {});
  }

  get state(): ChartState {
    return this.#journal.state;
  }

  /** The fold of what is durable, and the seq of its last entry. */
  get durable(): { state: ChartState; seq: number } {
    return this.#journal.durable;
  }

  /** Of the latest cached fold. */
  get snapshotSeq(): number {
    return this.#snapshotSeq;
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** Starts what the state waits for and goes on until the run rests or has ended. Rejects with the store's error. */
  drive(): Promise<DriveOutcome> {
    this.#honourCancel();
    this.#matchServices();
    this.#scheduleTick();
    void this.#endIfQuiet();
    return this.#outcome;
  }

  /** Puts inputs to the chart, all or none: `refused` if it does not take one, `gone` if this driver drives no more. */
  async input(events: readonly ChartEvent[]): Promise<InputAnswer> {
    if (this.#over) return 'gone';
    this.#options.host.reach?.('input.before');
    const admitted = this.#journal.admit(events);
    if (admitted === null) {
      await this.#journal.commit();
      return this.#over ? 'gone' : 'refused';
    }
    this.#apply(admitted.effects);
    this.#honourCancel();
    this.#commitInBackground();
    const outcome = await admitted.settled;
    this.#options.host.reach?.('input.after');
    if (outcome === 'appended') return 'accepted';
    return this.#over ? 'gone' : 'refused';
  }

  /** Aborts what runs, waits for it to settle within the grace time, then puts the cancellation to the chart. */
  async cancel(makeEvent: (state: ChartState) => ChartEvent): Promise<InputAnswer> {
    if (this.#over) return 'gone';
    this.#cancelling ??= this.#cancel(makeEvent);
    return await this.#cancelling;
  }

  async #cancel(makeEvent: (state: ChartState) => ChartEvent): Promise<InputAnswer> {
    const running = [...this.#running.values()];
    for (const { abort } of running) abort.abort(new Cancelled('The run was cancelled.'));
    const settled = Promise.allSettled(running.map(({ done }) => done));
    const grace = new AbortController();
    await Promise.race([settled, sleep(this.#options.host, this.#options.graceMs, grace.signal)]);
    grace.abort();
    return await this.input([makeEvent(this.state)]);
  }

  /** Another process asked this one to cancel the run: it does, with the grace time. */
  #honourCancel(): void {
    const { cancelling } = this.state.context;
    if (cancelling === null || this.#cancelling !== null || hasEnded(this.state)) return;
    const { deadline: _, ...said } = cancelling;
    this.cancel(state => stampCommand(cancelRun(state, said), this.#options.host.now())).catch(error =>
      this.#giveUp(error),
    );
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
          this.#options.channel.publishDelta(effect.notice);
          break;
      }
    }
  }

  #matchServices(): void {
    const wanted = pendingServices(this.state);
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
    const { host, inherited, channel, store, runId, judgeOwner } = this.#options;
    return {
      host,
      signal,
      until: input.until,
      context: () => this.state.context,
      inherited: () => inherited,
      report: report => this.#report(report, input.generation),
      durable: () => this.#durable(signal),
      assertDriving: () => this.#assertDriving(),
      publish: (delta: Delta) => channel.publishDelta(delta),
      blobs: this.#blobs,
      recordLate: outcome => this.#recordLate(outcome),
      findLiveAttempt: call => findLiveAttempt({ store, judgeOwner }, runId, call),
    };
  }

  #report(report: Report, generation: number): boolean {
    if (this.#over) return false;
    this.#options.host.reach?.('report.before');
    const event = { ...report, at: this.#options.host.now(), generation } as ReportEvent;
    const admitted = this.#journal.admit([event]);
    if (admitted === null) return false;
    admitted.settled.catch(() => {});
    this.#apply(admitted.effects);
    if (event.type !== 'text.started' && event.type !== 'calls.started') this.#commitInBackground();
    this.#options.host.reach?.('report.after');
    return true;
  }

  /** Whoever drives the run by now: nothing waits for it, and nothing depends on it. */
  #recordLate(outcome: LateOutcome): void {
    const { store, runId, host } = this.#options;
    trackRecord(appendLate(store, runId, outcome, host.now()).catch(() => {}));
  }

  async #durable(signal: AbortSignal): Promise<void> {
    this.#throwIfStopped(signal);
    if (this.#options.durability === 'relaxed') this.#commitInBackground();
    else await this.#journal.commit();
    this.#saveSnapshotOnTheWay();
    await this.#renewIfDue(this.#options.leaseMs / 2);
    this.#throwIfStopped(signal);
  }

  #throwIfStopped(signal: AbortSignal): void {
    if (this.#over || signal.aborted) throw new Stopped('This work is not wanted any more.');
  }

  #assertDriving(): void {
    const { host, leaseMs } = this.#options;
    if (!this.#over && elapsedSince(this.#renewedAt, host) < leaseMs) return;
    this.#end('superseded');
    throw new Stopped('The lease ran out before the tool was called.');
  }

  /** What was reported in one go is committed in one go, soon. */
  #commitInBackground(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    setImmediate(() => {
      this.#flushScheduled = false;
      this.#journal
        .commit()
        .then(() => {
          this.#saveSnapshotOnTheWay();
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
      await this.#renewIfDue(this.#options.leaseMs / 3);
      await this.#journal.absorb();
    } catch (error) {
      return this.#giveUp(error);
    }
    if (!this.#over) this.#scheduleTick();
  }

  async #renewIfDue(afterMs: number): Promise<void> {
    const { store, host, runId, epoch, leaseMs } = this.#options;
    if (this.#over || elapsedSince(this.#renewedAt, host) < afterMs) return;
    const asked = momentOf(host);
    host.reach?.('renew.before');
    if (await store.renew(runId, epoch, asked.wall + leaseMs)) this.#renewedAt = asked;
    else this.#end('superseded');
    host.reach?.('renew.after');
  }

  /** Nothing left to do: snapshot, release, and one more look for what was said meanwhile. */
  async #endIfQuiet(): Promise<void> {
    if (this.#over || this.#checking || !this.#isQuiet()) return;
    this.#checking = true;
    try {
      await this.#journal.absorb();
      if (this.#over || !this.#isQuiet()) return;
      await this.#saveSnapshot();
      if (this.#over || !this.#isQuiet()) return;
      this.#end('at-rest');
    } catch (error) {
      this.#giveUp(error);
    } finally {
      this.#checking = false;
    }
  }

  #isQuiet(): boolean {
    if (!this.#journal.isDurable) return false;
    if (hasEnded(this.state)) return true;
    const { timer } = this.state.context;
    return isAtRest(this.state) && (timer === null || timer > this.#options.host.now());
  }

  /** Snapshots are spaced geometrically, so that all of them together stay linear in the journal. */
  async #saveSnapshot(): Promise<void> {
    const { seq } = this.#journal;
    const due = seq - this.#snapshotSeq >= Math.max(16, this.#snapshotSeq / 2);
    if (due || hasEnded(this.state)) await this.#writeSnapshot(this.state, seq);
  }

  /**
   * While it is driven on and on too: whoever takes the run over folds a part of its journal, not all of it.
   * A cache that cannot be kept is no reason to stop.
   */
  #saveSnapshotOnTheWay(): void {
    const { state, seq } = this.#journal.durable;
    if (this.#over || seq - this.#snapshotSeq < Math.max(FAR, this.#snapshotSeq / 3)) return;
    this.#snapshotSeq = seq;
    this.#writeSnapshot(state, seq).catch(() => {});
  }

  async #writeSnapshot(state: ChartState, seq: number): Promise<void> {
    const { store, host, runId, loaded } = this.#options;
    host.reach?.('snapshot.before');
    await store.saveSnapshot(runId, { seq, state: makeImage(state, loaded.inherited) });
    this.#snapshotSeq = seq;
    host.reach?.('snapshot.after');
  }

  #end(outcome: DriveOutcome): void {
    if (this.#over) return;
    this.#close();
    if (outcome === 'superseded') return this.#finish(outcome);
    this.#release().then(() => this.#finish(outcome), this.#fail);
  }

  #giveUp(error: unknown): void {
    if (this.#over) return;
    this.#close();
    this.#release()
      .catch(() => {})
      .finally(() => this.#fail(error));
  }

  #close(): void {
    this.#over = true;
    this.#cancelTick();
    for (const id of [...this.#running.keys()]) this.#stop(id);
    this.#journal.drop();
  }

  async #release(): Promise<void> {
    const { store, host, runId, epoch } = this.#options;
    host.reach?.('release.before');
    await store.release(runId, epoch);
    host.reach?.('release.after');
  }
}
