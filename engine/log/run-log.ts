import { type ChartState, next } from '../../machines/step.ts';
import type { Effect } from '../../protocol/effect.ts';
import type { JournalEntry, ReportEvent, RunEvent } from '../../protocol/event.ts';
import { type AppendResult, type ClaimRequest, isChangedRun, type Store } from '../../protocol/store.ts';
import { RunEvents } from '../events/run-events.ts';
import type { Host } from '../host/host.ts';
import { type LateOutcome, lateOutcomes, recordLate } from '../journal/evidence.ts';
import { foldEntry, loadRun, type StoredFold, standingAt, wordsFor } from '../journal/load-run.ts';
import { damagedJournal, readJournal, readPages } from '../journal/read-journal.ts';
import { type FoldedCommands, foldCommands, type MakeCommand } from './command.ts';
import { type AppendOutcome, findRefusal, type Refusal, type SubmitResult } from './refusal.ts';
import { RequestIds } from './request-ids.ts';

type LogFollower = {
  onInput(effects: readonly Effect[]): void;
  onDropped(effects: readonly Effect[]): void;
  onRefolded(): void;
  onSuperseded(): void;
  /** The store failed: nothing more can be committed under this lease. */
  onFailed(error: unknown): void;
};

type Refold = (before: ChartState) => FoldedCommands | (Refusal & { index: number });

type Waiter = { resolve(outcome: 'appended' | 'dropped'): void; reject(error: unknown): void };

const NO_WAITER: Waiter = { resolve() {}, reject() {} };

/** An admitted event, or several that are appended together or not at all. */
type Pending = Pick<FoldedCommands, 'events' | 'effects'> & {
  refold: Refold;
  before: ChartState;
  after: ChartState;
  /** Being appended when this process stopped driving: not retried. */
  isAbandoned: boolean;
  waiter: Waiter;
};

/**
 * A run's journal in this process: the folded state, the pending events, and the only code that appends chart events.
 *
 * J1 `state` is the fold of the durable entries and, while this process drives the run, of the pending events.
 * J2 An event that the chart does not accept is never appended.
 * J3 If another process appends first, pending events are rebuilt and admitted again after its entries. Those that
 *    no longer fit are dropped, and their senders notified.
 * J4 One append at a time; everything pending when it starts is committed with it.
 * J5 After a store error nothing more is admitted under this lease, and nothing at all until the journal has been
 *    read again: the pending events may or may not be durable.
 * J6 Inputs admitted together are appended together or not at all. Of reports, those that no longer fit are left out.
 * J7 The driver appends under its epoch. Events still pending when it stops driving are not appended.
 * J8 After a redaction the journal is folded again: no fold keeps redacted content, and no append is made of one that does.
 */
export class RunLog {
  readonly runId: string;
  readonly #options: LogOptions;
  readonly #events: RunEvents;
  readonly #requests = new RequestIds();
  #durable: StoredFold;
  #state: ChartState;
  #pending: Pending[] = [];
  #inFlight = 0;
  /** The epoch of this process's lease; `null` if it does not drive the run. */
  #epoch: number | null = null;
  #follower: LogFollower | null = null;
  #failure: { error: unknown } | null = null;
  #lastTask: Promise<unknown> = Promise.resolve();
  /** The commit that has not started yet: it includes everything admitted until it starts. */
  #nextCommit: Promise<void> | null = null;

  constructor(options: LogOptions, runId: string, fold: StoredFold, events = new RunEvents(runId)) {
    this.runId = runId;
    this.#options = options;
    this.#events = events;
    const { state, seq, redactions } = fold;
    this.#durable = { state, seq, redactions };
    this.#state = state;
  }

  get state(): ChartState {
    return this.isDriving ? this.#state : this.#durable.state;
  }

  get durable(): StoredFold {
    return this.#durable;
  }

  get isDurable(): boolean {
    return this.#pending.length === 0;
  }

  get isDriving(): boolean {
    return this.#epoch !== null;
  }

  /** Claims the run and returns the new epoch, or why not: `held` by another process, or `ended`. If it throws, there is no lease. */
  async claim(request: ClaimRequest): Promise<number | 'held' | 'ended'> {
    const { store, host } = this.#options;
    host.reach?.('claim.before');
    const { seq: seen } = this.#durable;
    const claim = await store.claim(this.runId, request);
    host.reach?.('claim.after');
    if (claim.type !== 'claimed') return claim.type;
    try {
      if (claim.seq <= seen)
        throw damagedJournal(this.runId, claim.seq, `is a new claim, but ${seen} entries were read before`);
      await this.catchUp(claim.seq);
    } catch (error) {
      await store.release(this.runId, claim.epoch, request.now).catch(() => {});
      throw error;
    }
    this.startDriving(claim.epoch);
    return claim.epoch;
  }

  startDriving(epoch: number): void {
    this.#epoch = epoch;
  }

  follow(follower: LogFollower): void {
    this.#follower = follower;
  }

  /** Drops the pending events that are not being appended now; a later driver may report the same outcomes. */
  stopDriving(): void {
    if (this.#epoch === null) return;
    this.#epoch = null;
    this.#follower = null;
    const dropped = this.#pending.splice(this.#inFlight);
    for (const pending of this.#pending) pending.isAbandoned = true;
    this.#state = this.#pending.at(-1)?.after ?? this.#durable.state;
    for (const { waiter } of dropped) waiter.resolve('dropped');
  }

  /** Appends inputs in one commit: all or none. Returns the refusal if the chart does not accept one of them. */
  async put(makes: readonly MakeCommand[]): Promise<SubmitResult> {
    for (;;) {
      const outcome = await this.append(makes);
      if (outcome.type === 'appended') return { accepted: true };
      if (outcome.type === 'refused') return outcome.refusal;
    }
  }

  /** Like `put`, but gives up if this process starts or stops driving the run meanwhile. */
  async append(makes: readonly MakeCommand[]): Promise<AppendOutcome> {
    const { host, store } = this.#options;
    const epoch = this.#epoch;
    // An input that fits what was read is appended after that; only a refusal needs the latest entries first.
    let isLatest = epoch !== null;
    for (;;) {
      const refold = (before: ChartState) => {
        const folded = foldCommands(before, makes, host.now());
        return 'accepted' in folded ? folded : (this.#requests.findRepeated(folded.events) ?? folded);
      };
      const before = this.#state;
      const folded = refold(before);
      const isRefused = 'accepted' in folded || folded.state === null || this.#failure !== null;
      if (isRefused && !isLatest) {
        await this.catchUp();
        isLatest = true;
        continue;
      }
      if ('accepted' in folded) return { type: 'refused', refusal: folded };
      const outcome = folded.state === null ? 'not-admitted' : await this.#appendInputs(folded, refold);
      if (outcome === 'appended') return { type: 'appended' };
      if (outcome === 'not-admitted') await this.commit();
      if (this.#epoch !== epoch) return { type: 'driver-changed' };
      isLatest = epoch !== null;
      if (outcome === 'dropped') continue;
      const journal = await readJournal(store, this.runId);
      const { events } = folded;
      const refusal = findRefusal(before, events, journal) ?? findRefusal(this.#state, events, journal);
      if (refusal !== null) return { type: 'refused', refusal };
    }
  }

  async #appendInputs(
    folded: FoldedCommands,
    refold: Refold,
  ): Promise<'appended' | 'dropped' | 'not-admitted'> {
    const { host } = this.#options;
    host.reach?.('input.before');
    const { promise: settled, ...waiter } = Promise.withResolvers<'appended' | 'dropped'>();
    settled.catch(() => {});
    const effects = this.#admit(folded, refold, waiter);
    if (effects === null) return 'not-admitted';
    if (this.#follower === null) this.commit().catch(() => {});
    else this.#follower.onInput(effects);
    const outcome = await settled;
    host.reach?.('input.after');
    if (outcome === 'appended' && this.#follower === null) this.#takeBackText(effects);
    return outcome;
  }

  /** An input at rest, such as a decision about the answer, takes back text that readers have; no driver tells them. */
  #takeBackText(effects: readonly Effect[]): void {
    for (const effect of effects)
      if (effect.type === 'publish' && effect.notice.type === 'text.discarded')
        this.#events.publishDelta(effect.notice);
  }

  /** Admits reports in one step. Returns their effects and those that the chart does not take; `null` if none was admitted. */
  report(
    reports: readonly ReportEvent[],
  ): { effects: readonly Effect[]; refused: readonly ReportEvent[] } | null {
    if (this.#epoch === null) return null;
    let events = [...reports];
    const refold = (before: ChartState): FoldedCommands => {
      let state = before;
      const effects: Effect[] = [];
      events = events.filter(event => {
        const step = next(state, event);
        state = step.state;
        effects.push(...step.effects);
        return step.handled;
      });
      return { events, state: events.length === 0 ? null : state, effects };
    };
    const effects = this.#admit(refold(this.#state), refold, NO_WAITER);
    const isWhole = events.length === reports.length;
    const refused = isWhole ? [] : reports.filter(report => !events.includes(report));
    return effects && { effects, refused };
  }

  #admit(folded: FoldedCommands, refold: Refold, waiter: Waiter): readonly Effect[] | null {
    const { events, state: after, effects } = folded;
    if (this.#failure !== null || after === null) return null;
    const before = this.#state;
    this.#pending.push({ refold, events, effects, before, after, isAbandoned: false, waiter });
    this.#state = after;
    return effects;
  }

  async commit(): Promise<void> {
    if (this.#pending.length > 0) {
      this.#nextCommit ??= this.#exclusively(() => this.#commitPending());
      await this.#nextCommit;
    }
    if (this.#failure !== null) throw this.#failure.error;
  }

  async #commitPending(): Promise<void> {
    this.#nextCommit = null;
    while (this.#pending.length > 0) if (await this.#appendPending()) return;
  }

  async catchUp(last?: number): Promise<void> {
    await this.#exclusively(async () => {
      const before = this.#durable;
      await this.#readNew(last).finally(() => this.#durable !== before && this.#refoldPending());
      if (this.#epoch === null) this.#failure = null;
    });
  }

  /** Journals, in the background, an outcome that arrived after the run had moved on; any process may drive it by now. */
  recordLate(outcome: LateOutcome): void {
    recordLate(this.#options, this.runId, outcome);
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lastTask.then(work);
    this.#lastTask = result.catch(() => {});
    return result;
  }

  /** Returns false after a conflict: the pending events have to be appended again. */
  async #appendPending(): Promise<boolean> {
    const batch = this.#pending.slice();
    const state = batch.at(-1)?.after ?? this.#durable.state;
    this.#inFlight = batch.length;
    let result: AppendResult;
    try {
      result = await this.#appendOrFail(batch, state);
    } finally {
      this.#inFlight = 0;
    }
    switch (result.type) {
      case 'appended':
        this.#publishAppended(batch, state);
        return true;
      case 'conflict':
        await this.#readNew().catch(error => this.#fail(error));
        this.#refoldPending();
        return false;
      case 'superseded':
        this.#supersede();
        return true;
    }
  }

  async #appendOrFail(batch: readonly Pending[], state: ChartState): Promise<AppendResult> {
    const { store, host } = this.#options;
    const { seq: after, redactions } = this.#durable;
    const events = eventsOf(batch);
    const standing = standingAt(state, after + events.length, store);
    // A parent that waits for this run in this process needs no waking at its end.
    if (standing.wakes !== undefined && this.#options.isAwaited?.() === true) delete standing.wakes;
    try {
      host.reach?.('append.before');
      const by = this.#epoch === null ? { input: true as const } : { epoch: this.#epoch };
      const told = { ...standing, ...wordsFor(events, standing.progress) };
      const result = await store.append(this.runId, { after, redactions, ...by }, events, told);
      host.reach?.('append.after');
      return result;
    } catch (error) {
      return this.#fail(error);
    }
  }

  #fail(error: unknown): never {
    this.#failure = { error };
    for (const { waiter } of this.#pending.splice(0)) waiter.reject(error);
    this.#state = this.#durable.state;
    this.#follower?.onFailed(error);
    throw error;
  }

  #publishAppended(batch: readonly Pending[], state: ChartState): void {
    let { seq } = this.#durable;
    const events = eventsOf(batch);
    this.#durable = { ...this.#durable, state, seq: seq + events.length };
    this.#pending.splice(0, batch.length);
    for (const event of events) this.#publish({ seq: ++seq, event });
    for (const { waiter } of batch) waiter.resolve('appended');
  }

  #supersede(): void {
    const late = this.#pending.flatMap(({ events, before }) => lateOutcomes(events, before));
    const follower = this.#follower;
    this.stopDriving();
    for (const { waiter } of this.#pending.splice(0)) waiter.resolve('dropped');
    this.#state = this.#durable.state;
    follower?.onSuperseded();
    for (const outcome of late) this.recordLate(outcome);
  }

  /** `after`: the last entry that was published. */
  async #readNew(last?: number, after = this.#durable.seq): Promise<void> {
    const { store } = this.#options;
    let published = after;
    try {
      const { redactions } = this.#durable;
      for await (const page of readPages(store, this.runId, after, { last, redactions })) {
        const epoch = this.#epoch ?? Number.POSITIVE_INFINITY;
        if (page.some(({ event }) => event.type === 'run.claimed' && event.epoch > epoch))
          return this.#supersede();
        for (const entry of page) {
          const { state, seq } = this.#durable;
          if (entry.seq > seq)
            this.#durable = { state: foldEntry(state, entry, this.runId), seq: entry.seq, redactions };
          this.#publish(entry);
          published = entry.seq;
        }
      }
    } catch (error) {
      if (!isChangedRun(error)) throw error;
      this.#durable = await loadRun(store, this.runId);
      await this.#readNew(undefined, published);
    }
  }

  #publish(entry: JournalEntry): void {
    this.#requests.add(entry.event);
    this.#events.publishEntry(entry);
  }

  #refoldPending(): void {
    this.#state = this.#durable.state;
    for (const pending of this.#pending.splice(0)) this.#readmit(pending);
    this.#follower?.onRefolded();
  }

  #readmit(pending: Pending): void {
    const folded = pending.refold(this.#state);
    if (!pending.isAbandoned && !('accepted' in folded) && folded.state !== null) {
      this.#state = folded.state;
      const { events, effects, state: after } = folded;
      this.#recordLost(pending, events);
      this.#pending.push(Object.assign(pending, { events, effects, after }));
      return;
    }
    this.#recordLost(pending, []);
    this.#follower?.onDropped(pending.effects);
    pending.waiter.resolve('dropped');
  }

  #recordLost({ events, before }: Pending, kept: readonly RunEvent[]): void {
    const lost = events.filter(event => !kept.includes(event));
    for (const outcome of lateOutcomes(lost, before)) this.recordLate(outcome);
  }
}

type LogOptions = {
  store: Store;
  host: Host;
  /** Whether the parent of this sub-agent's run waits for it in this process. */
  isAwaited?(): boolean;
};

export async function loadLog(options: { store: Store; host: Host }, runId: string): Promise<RunLog> {
  return new RunLog(options, runId, await loadRun(options.store, runId));
}

function eventsOf(batch: readonly Pending[]): RunEvent[] {
  return batch.flatMap(({ events }) => events);
}
