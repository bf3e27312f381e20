import { findCall } from '../machines/calls.ts';
import { type ChartState, next } from '../machines/step.ts';
import type { Effect } from '../protocol/effect.ts';
import type { ChartEvent, JournalEntry } from '../protocol/event.ts';
import type { Store } from '../protocol/store.ts';
import type { Host } from './host.ts';
import { foldEntry, statusOf } from './load-run.ts';
import type { LateOutcome } from './service.ts';

/**
 * The journal of a run as its driver writes it.
 *
 * J1 `state` is the fold of what is durable, then of what is pending, in order.
 * J2 An event the chart does not take is never appended (E7).
 * J3 When somebody else appended first, pending events are admitted again behind theirs; those that
 *    do not fit any more are dropped, and their senders told.
 * J4 Appends happen one at a time; whatever is pending when one begins shares its commit (E1).
 * J5 After a store that failed nothing more is admitted: what was pending may or may not be durable.
 * J6 Events that are admitted together are appended together, or not at all.
 */
export class Journal {
  readonly #store: Store;
  readonly #host: Host;
  readonly #runId: string;
  readonly #epoch: number;
  readonly #listener: JournalListener;
  #durable: { state: ChartState; seq: number };
  #state: ChartState;
  #pending: Pending[] = [];
  /** How many of the pending are being appended right now. */
  #inFlight = 0;
  #failure: { error: unknown } | null = null;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(options: JournalOptions) {
    this.#store = options.store;
    this.#host = options.host;
    this.#runId = options.runId;
    this.#epoch = options.epoch;
    this.#listener = options.listener;
    this.#durable = { state: options.state, seq: options.seq };
    this.#state = options.state;
  }

  get state(): ChartState {
    return this.#state;
  }

  get seq(): number {
    return this.#durable.seq;
  }

  /** The fold of what is durable, and the seq of its last entry. */
  get durable(): { state: ChartState; seq: number } {
    return this.#durable;
  }

  get isDurable(): boolean {
    return this.#pending.length === 0;
  }

  /** Folds the events if the chart takes them all. `settled` tells how their append went. */
  admit(events: readonly ChartEvent[]): Admitted | null {
    if (this.#failure !== null) return null;
    const before = this.#state;
    const folded = foldAll(before, events);
    if (folded === null) return null;
    this.#state = folded.state;
    return { effects: folded.effects, settled: this.#push(events, before) };
  }

  #push(events: readonly ChartEvent[], before: ChartState): Promise<AppendOutcome> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ events, before, after: this.#state, resolve, reject });
    });
  }

  /** Makes everything admitted so far durable. Rejects with the store's error. */
  async commit(): Promise<void> {
    const last = this.#pending.at(-1);
    while (last !== undefined && this.#pending.includes(last)) {
      await this.#exclusively(async () => {
        if (this.#pending.includes(last)) await this.#appendPending();
      });
    }
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** Folds what others have appended since. */
  async absorb(): Promise<void> {
    await this.#exclusively(async () => {
      const entries = await this.#store.read(this.#runId, this.#durable.seq);
      if (entries.length > 0) this.#refold(entries);
    });
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(work);
    this.#tail = result.catch(() => {});
    return result;
  }

  async #appendPending(): Promise<void> {
    const batch = this.#pending.slice();
    const last = batch.at(-1);
    if (last === undefined) return;
    const { seq } = this.#durable;
    this.#host.reach?.('append.before');
    this.#inFlight = batch.length;
    const result = await this.#appendOrFail(batch, { after: seq, epoch: this.#epoch });
    this.#inFlight = 0;
    this.#host.reach?.('append.after');
    switch (result.type) {
      case 'appended':
        this.#pending.splice(0, batch.length);
        this.#durable = { state: last.after, seq: result.seq };
        return this.#tellAppended(batch, seq);
      case 'conflict':
        return this.#refold(await this.#store.read(this.#runId, seq));
      case 'superseded':
        return this.#supersede();
    }
  }

  #tellAppended(batch: readonly Pending[], before: number): void {
    let seq = before;
    for (const { events, resolve } of batch) {
      for (const event of events) {
        seq += 1;
        this.#listener.onEntry({ seq, event });
      }
      resolve('appended');
    }
  }

  async #appendOrFail(batch: Pending[], guard: { after: number; epoch: number }) {
    const last = batch.at(-1)?.after ?? this.#state;
    try {
      const events = batch.flatMap(pending => pending.events);
      return await this.#store.append(this.#runId, guard, events, statusOf(last));
    } catch (error) {
      this.#inFlight = 0;
      this.#failure = { error };
      for (const { reject } of this.#pending.splice(0)) reject(error);
      this.#state = this.#durable.state;
      this.#listener.onFailed(error);
      throw error;
    }
  }

  /** Gives up what is not durable: it will have happened only if a later driver reports it. */
  drop(): void {
    for (const { resolve } of this.#pending.splice(this.#inFlight)) resolve('dropped');
    this.#state = this.#durable.state;
  }

  #supersede(): void {
    const late = this.#pending.flatMap(lateOutcomes);
    this.drop();
    this.#listener.onSuperseded();
    for (const outcome of late) this.#listener.onLate(outcome);
  }

  #refold(entries: readonly JournalEntry[]): void {
    const isLost = entries.some(({ event }) => event.type === 'run.claimed' && event.epoch > this.#epoch);
    if (isLost) return this.#supersede();
    let { state, seq } = this.#durable;
    for (const entry of entries) {
      state = foldEntry(state, entry, this.#runId);
      seq = entry.seq;
      this.#listener.onEntry(entry);
    }
    this.#durable = { state, seq };
    this.#state = state;
    for (const pending of this.#pending.splice(0)) this.#readmit(pending);
    this.#listener.onRefolded();
  }

  #readmit(pending: Pending): void {
    const { events, resolve } = pending;
    const folded = foldAll(this.#state, events);
    if (folded !== null) {
      this.#state = folded.state;
      pending.after = folded.state;
      this.#pending.push(pending);
      return;
    }
    for (const outcome of lateOutcomes(pending)) this.#listener.onLate(outcome);
    resolve('dropped');
  }
}

export type AppendOutcome = 'appended' | 'dropped';

export type JournalListener = {
  /** An entry is durable. */
  onEntry(entry: JournalEntry): void;
  /** Somebody else's events came in between: the state may be another one than effects were drawn from. */
  onRefolded(): void;
  /** Another process drives the run now. */
  onSuperseded(): void;
  /** What a `once` call gave, and the chart does not take any more. */
  onLate(outcome: LateOutcome): void;
  /** The store failed: nothing more can be made durable here. */
  onFailed(error: unknown): void;
};

export type JournalOptions = {
  store: Store;
  host: Host;
  runId: string;
  epoch: number;
  state: ChartState;
  seq: number;
  listener: JournalListener;
};

type Admitted = { effects: readonly Effect[]; settled: Promise<AppendOutcome> };

type Pending = {
  events: readonly ChartEvent[];
  /** Where the events were first admitted. */
  before: ChartState;
  after: ChartState;
  resolve(outcome: AppendOutcome): void;
  reject(error: unknown): void;
};

/** `null` when the chart does not take one of them. */
function foldAll(before: ChartState, events: readonly ChartEvent[]) {
  let state = before;
  const effects: Effect[] = [];
  for (const event of events) {
    const step = next(state, event);
    if (!step.handled) return null;
    state = step.state;
    effects.push(...step.effects);
  }
  return { state, effects };
}

/** What `once` calls gave although their run has moved on. */
function lateOutcomes({ events, before }: Pending): LateOutcome[] {
  return events.flatMap(event => {
    const call = event.type === 'tool.settled' ? findCall(before.context, event.callId) : undefined;
    if (event.type !== 'tool.settled' || call?.sideEffect !== 'once') return [];
    const { callId, output, isError, blob } = event;
    return { callId, attempt: call.attempt, output, ...(blob === undefined ? {} : { blob }), isError };
  });
}
