import type { Effect } from '../../protocol/effect.ts';
import type { ReportEvent } from '../../protocol/event.ts';
import type { AppendResult, ClaimRequest, Store } from '../../protocol/store.ts';
import type { Chart } from '../driver/chart.ts';
import type { Host } from '../driver/host.ts';
import { type FoldedCommands, foldCommands, type MakeCommand } from '../run/command.ts';
import type { Refusal, SubmitResult } from '../run/explain-refusal.ts';
import { RunEvents } from '../run/run-events.ts';
import type { LateOutcome } from '../services/service.ts';
import { recordLate } from './late-evidence.ts';
import type { LogFollower } from './log-follower.ts';
import { damagedJournal, readJournal, readPages } from './read-journal.ts';

/**
 * The journal of a run as this process holds it: the fold, its place, and the only append of the engine.
 *
 * J1 `state` is the fold of what is durable and, under the lease of this process, of what is pending, in order.
 * J2 An event the chart does not take is never appended (E7).
 * J3 When another process appended first, pending events are made and admitted again behind theirs; those
 *    that do not fit any more are dropped, and their senders told.
 * J4 Appends happen one at a time; whatever is pending when one begins shares its commit (E1).
 * J5 After a store that failed nothing more is admitted under this lease, and nothing at all before the journal
 *    was read again: what was pending may or may not be durable.
 * J6 Events that are admitted together are appended together, or not at all.
 * J7 While this process holds the lease it appends under its epoch. What was pending when it lets the lease go
 *    is appended no more (E4).
 * J8 Behind a redaction the journal is folded anew: what was redacted is in no fold that goes on.
 */
export class RunLog<State> {
  readonly runId: string;
  readonly #where: Stored<State>;
  readonly #events: RunEvents;
  #durable: Place<State>;
  #state: State;
  #pending: Pending<State>[] = [];
  /** How many of the pending are being appended right now. */
  #inFlight = 0;
  /** Of the lease this process holds. */
  #epoch: number | null = null;
  #follower: LogFollower | null = null;
  #failure: { error: unknown } | null = null;
  #tail: Promise<unknown> = Promise.resolve();
  /** The commit that has not begun yet: it will have whatever is admitted before it does. */
  #nextCommit: Promise<void> | null = null;

  constructor(
    where: Stored<State>,
    runId: string,
    { state, seq }: Place<State>,
    events = new RunEvents(runId),
  ) {
    this.runId = runId;
    this.#where = where;
    this.#events = events;
    this.#durable = { state, seq };
    this.#state = state;
  }

  get state(): State {
    return this.isLed ? this.#state : this.#durable.state;
  }

  /** The fold of what is durable, and the seq of its last entry. */
  get durable(): Place<State> {
    return this.#durable;
  }

  get isDurable(): boolean {
    return this.#pending.length === 0;
  }

  /** Whether this process holds the lease. */
  get isLed(): boolean {
    return this.#epoch !== null;
  }

  /** Takes the lease; `null` when another process holds it. */
  async claim(request: ClaimRequest): Promise<number | null> {
    const { store, host } = this.#where;
    host.reach?.('claim.before');
    const { seq: seen } = this.#durable;
    const claim = await store.claim(this.runId, request);
    host.reach?.('claim.after');
    if (claim.type === 'held') return null;
    if (claim.seq <= seen)
      throw damagedJournal(this.runId, claim.seq, `is a claim, where ${seen} entries were seen before`);
    await this.catchUp(claim.seq);
    this.lead(claim.epoch);
    return claim.epoch;
  }

  /** From here on this process appends under its lease. */
  lead(epoch: number): void {
    this.#epoch = epoch;
  }

  /** `follower` drives the run, and is told what that takes, until the lease is let go. */
  follow(follower: LogFollower): void {
    this.#follower = follower;
  }

  /** Gives up what is not durable: it will have happened only if a later driver reports it. */
  letGo(): void {
    if (this.#epoch === null) return;
    this.#epoch = null;
    this.#follower = null;
    const dropped = this.#pending.splice(this.#inFlight);
    for (const pending of this.#pending) pending.isLetGo = true;
    this.#state = this.#pending.at(-1)?.after ?? this.#durable.state;
    for (const { resolve } of dropped) resolve('dropped');
  }

  /** Puts inputs to the run, one behind another, in one append: all or none. */
  async put(makes: readonly MakeCommand<State>[]): Promise<SubmitResult> {
    for (;;) {
      const outcome = await this.append(makes);
      if (outcome.type === 'appended') return { accepted: true };
      if (outcome.type === 'refused') return outcome.refusal;
    }
  }

  /** The same, under the lease this process holds now, if it holds one. */
  async append(makes: readonly MakeCommand<State>[]): Promise<AppendOutcome> {
    const { host, store, chart } = this.#where;
    const epoch = this.#epoch;
    for (;;) {
      if (epoch === null) await this.catchUp();
      const fold = (before: State) => foldCommands(chart, before, makes, host.now());
      const before = this.#state;
      const folded = fold(before);
      if ('accepted' in folded) return { type: 'refused', refusal: folded };
      const outcome = folded.state === null ? 'refused' : await this.#appendInputs(folded, fold);
      if (outcome === 'appended') return { type: 'appended' };
      if (outcome === 'refused') await this.commit();
      if (this.#epoch !== epoch) return { type: 'let-go' };
      if (outcome === 'dropped') continue;
      const journal = await readJournal(store, this.runId);
      const { events } = folded;
      const refusal =
        chart.findRefusal(before, events, journal) ?? chart.findRefusal(this.#state, events, journal);
      if (refusal !== null) return { type: 'refused', refusal };
    }
  }

  async #appendInputs(
    folded: FoldedCommands<State>,
    fold: Fold<State>,
  ): Promise<'appended' | 'dropped' | 'refused'> {
    const { host } = this.#where;
    host.reach?.('input.before');
    const { promise: settled, ...waiter } = Promise.withResolvers<'appended' | 'dropped'>();
    settled.catch(() => {});
    const effects = this.#admit(folded, fold, waiter);
    if (effects === null) return 'refused';
    if (this.#follower === null) this.commit().catch(() => {});
    else this.#follower.onInput(effects);
    const outcome = await settled;
    host.reach?.('input.after');
    return outcome;
  }

  /** Folds what a service reports; gives what follows, or `null` if the chart does not take it. */
  report(event: ReportEvent): readonly Effect[] | null {
    if (this.#epoch === null) return null;
    const fold = (before: State) => this.#foldReport(before, event);
    return this.#admit(fold(this.#state), fold, NOBODY);
  }

  #foldReport(before: State, event: ReportEvent): FoldedCommands<State> {
    const { state, effects, handled } = this.#where.chart.next(before, event);
    return { events: [event], state: handled ? state : null, effects };
  }

  #admit(folded: FoldedCommands<State>, fold: Fold<State>, waiter: Waiter): readonly Effect[] | null {
    const { events, state: after, effects } = folded;
    if (this.#failure !== null || after === null) return null;
    this.#pending.push({ fold, events, effects, before: this.#state, after, isLetGo: false, ...waiter });
    this.#state = after;
    return effects;
  }

  /** Makes everything admitted so far durable. Rejects with the store's error. */
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

  /** Folds what others have appended; what came behind entry `last` may be left for later. */
  async catchUp(last?: number): Promise<void> {
    await this.#exclusively(async () => {
      const { seq } = this.#durable;
      await this.#readOn(last).finally(() => this.#durable.seq > seq && this.#refold());
      if (this.#epoch === null) this.#failure = null;
    });
  }

  /** Keeps what an attempt gave after its run had moved on, with what it contradicts, whoever drives the run by now. */
  recordLate(outcome: LateOutcome): void {
    recordLate(this.#where, this.runId, outcome);
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(work);
    this.#tail = result.catch(() => {});
    return result;
  }

  /** Whether what was pending is durable, or never will be: after a conflict it is to be appended again. */
  async #appendPending(): Promise<boolean> {
    const batch = this.#pending.slice();
    const state = batch.at(-1)?.after ?? this.#durable.state;
    this.#inFlight = batch.length;
    const { type } = await this.#appendOrFail(batch, state);
    this.#inFlight = 0;
    switch (type) {
      case 'appended':
        this.#tellAppended(batch, state);
        return true;
      case 'conflict':
        await this.#readOn().catch(error => this.#fail(error));
        this.#refold();
        return false;
      case 'superseded':
        this.#supersede();
        return true;
    }
  }

  async #appendOrFail(batch: readonly Pending<State>[], state: State): Promise<AppendResult> {
    const { store, host, chart } = this.#where;
    const { seq: after } = this.#durable;
    const events = batch.flatMap(pending => pending.events);
    const standing = chart.standing(state, after + events.length);
    try {
      host.reach?.('append.before');
      const guard = this.#epoch === null ? { after, input: true as const } : { after, epoch: this.#epoch };
      const result = await store.append(this.runId, guard, events, standing);
      host.reach?.('append.after');
      return result;
    } catch (error) {
      this.#inFlight = 0;
      return this.#fail(error);
    }
  }

  /** Whoever waits for what is pending is told. */
  #fail(error: unknown): never {
    this.#failure = { error };
    for (const { reject } of this.#pending.splice(0)) reject(error);
    this.#state = this.#durable.state;
    this.#follower?.onFailed(error);
    throw error;
  }

  #tellAppended(batch: readonly Pending<State>[], state: State): void {
    let { seq } = this.#durable;
    const entries = batch.flatMap(({ events }) => events.map(event => ({ seq: ++seq, event })));
    this.#durable = { state, seq };
    this.#pending.splice(0, batch.length);
    for (const entry of entries) this.#events.publishEntry(entry);
    for (const { resolve } of batch) resolve('appended');
  }

  #supersede(): void {
    const { chart } = this.#where;
    const late = this.#pending.flatMap(({ events, before }) => chart.lateOutcomes(events, before));
    const follower = this.#follower;
    this.letGo();
    for (const { resolve } of this.#pending.splice(0)) resolve('dropped');
    this.#state = this.#durable.state;
    follower?.onSuperseded();
    for (const outcome of late) this.recordLate(outcome);
  }

  async #readOn(last?: number): Promise<void> {
    const { store, chart } = this.#where;
    for await (const page of readPages(store, this.runId, this.#durable.seq, last)) {
      const epoch = this.#epoch ?? Number.POSITIVE_INFINITY;
      if (page.some(({ event }) => event.type === 'run.claimed' && event.epoch > epoch))
        return this.#supersede();
      if (page.some(({ event }) => event.type === 'run.redacted'))
        this.#durable = await chart.load(store, this.runId);
      for (const entry of page) {
        const { state, seq } = this.#durable;
        if (entry.seq > seq) this.#durable = { state: chart.fold(state, entry, this.runId), seq: entry.seq };
        this.#events.publishEntry(entry);
      }
    }
  }

  #refold(): void {
    this.#state = this.#durable.state;
    for (const pending of this.#pending.splice(0)) this.#readmit(pending);
    this.#follower?.onRefolded();
  }

  #readmit(pending: Pending<State>): void {
    const folded = pending.fold(this.#state);
    if (!pending.isLetGo && !('accepted' in folded) && folded.state !== null) {
      this.#state = folded.state;
      const { events, effects, state: after } = folded;
      this.#pending.push(Object.assign(pending, { events, effects, after }));
      return;
    }
    const { chart } = this.#where;
    for (const outcome of chart.lateOutcomes(pending.events, pending.before)) this.recordLate(outcome);
    this.#follower?.onDropped(pending.effects);
    pending.resolve('dropped');
  }
}

type Stored<State> = { store: Store; host: Host; chart: Chart<State> };

/** A state, and the number of the last entry that led there. */
type Place<State> = { state: State; seq: number };

/** How inputs went. */
export type AppendOutcome =
  | { type: 'appended' }
  /** Nothing was appended: the chart does not take one of them, behind what others have appended. */
  | { type: 'refused'; refusal: Refusal & { index: number } }
  /** Nothing was appended: this process has taken or lost the lease meanwhile. */
  | { type: 'let-go' };

/** What events are made of the state they meet. */
type Fold<State> = (before: State) => FoldedCommands<State> | (Refusal & { index: number });

/** Who is told what became of an admitted event. */
type Waiter = { resolve(outcome: 'appended' | 'dropped'): void; reject(error: unknown): void };

const NOBODY: Waiter = { resolve() {}, reject() {} };

type Pending<State> = Waiter &
  Pick<FoldedCommands<State>, 'events' | 'effects'> & {
    fold: Fold<State>;
    /** Where the events were first admitted. */
    before: State;
    after: State;
    /** Being appended when the lease was let go: not to be tried again. */
    isLetGo: boolean;
  };
