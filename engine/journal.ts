import { findCall } from '../machines/calls.ts';
import { type ChartState, next, type Step } from '../machines/step.ts';
import type { BookkeepingEvent, ChartEvent, JournalEntry, RunEvent } from '../protocol/event.ts';
import type { Store } from '../protocol/store.ts';
import type { Host } from './host.ts';
import { foldEntry, statusOf } from './load-run.ts';

/**
 * The journal of a run as its driver writes it.
 *
 * J1 `state` is the fold of what is durable, then of what is pending, in order.
 * J2 An event the chart does not take is never appended (E7).
 * J3 When somebody else appended first, pending events are admitted again behind theirs; those that
 *    do not fit any more are dropped, and their senders told.
 * J4 Appends happen one at a time; whatever is pending when one begins shares its commit (E1).
 * J5 After a store that failed nothing more is admitted: what was pending may or may not be durable.
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

  /** Folds the event if the chart takes it. `settled` tells how its append went. */
  admit(event: ChartEvent): (Step & { settled: Promise<AppendOutcome> }) | null {
    if (this.#failure !== null) return null;
    const step = next(this.#state, event);
    if (!step.handled) return null;
    this.#state = step.state;
    return { ...step, settled: this.#push(event) };
  }

  /** Appends an event the chart knows nothing of. */
  note(event: RunEvent): void {
    this.#push(event).catch(() => {});
  }

  #push(event: RunEvent): Promise<AppendOutcome> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ event, after: this.#state, resolve, reject });
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
        for (const [index, { event, resolve }] of batch.entries()) {
          this.#listener.onEntry({ seq: seq + index + 1, event });
          resolve('appended');
        }
        return;
      case 'conflict':
        return this.#refold(await this.#store.read(this.#runId, seq));
      case 'superseded':
        return this.#listener.onSuperseded(this.#takeEvidence());
    }
  }

  async #appendOrFail(batch: Pending[], guard: { after: number; epoch: number }) {
    const last = batch.at(-1)?.after ?? this.#state;
    try {
      const events = batch.map(({ event }) => event);
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

  #takeEvidence(): BookkeepingEvent[] {
    const evidence = this.#pending.flatMap(({ event }) => lateEvidence(this.#durable.state, event) ?? []);
    this.drop();
    return evidence;
  }

  #refold(entries: readonly JournalEntry[]): void {
    const isLost = entries.some(({ event }) => event.type === 'run.claimed' && event.epoch > this.#epoch);
    if (isLost) return this.#listener.onSuperseded(this.#takeEvidence());
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
    const { event, resolve } = pending;
    const step = isBookkeeping(event) ? { state: this.#state, handled: true } : next(this.#state, event);
    if (step.handled) {
      this.#state = step.state;
      pending.after = step.state;
      this.#pending.push(pending);
      return;
    }
    const evidence = lateEvidence(this.#state, event);
    if (evidence !== null) this.note(evidence);
    resolve('dropped');
  }
}

export type AppendOutcome = 'appended' | 'dropped';

export type JournalListener = {
  /** An entry is durable. */
  onEntry(entry: JournalEntry): void;
  /** Somebody else's events came in between: the state may be another one than effects were drawn from. */
  onRefolded(): void;
  /** Another process drives the run now; `evidence` is what `once` calls gave here meanwhile. */
  onSuperseded(evidence: readonly BookkeepingEvent[]): void;
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

type Pending = {
  event: RunEvent;
  after: ChartState;
  resolve(outcome: AppendOutcome): void;
  reject(error: unknown): void;
};

type Bookkeeping = Exclude<RunEvent, ChartEvent>;

function isBookkeeping(event: RunEvent): event is Bookkeeping {
  switch (event.type) {
    case 'run.started':
    case 'run.claimed':
    case 'tool.late':
    case 'run.noted':
      return true;
    default:
      return false;
  }
}

/** What a `once` call gave although its run has moved on. */
function lateEvidence(state: ChartState, event: RunEvent): BookkeepingEvent | null {
  if (event.type !== 'tool.settled') return null;
  const call = findCall(state.context, event.callId);
  if (call !== undefined && call.sideEffect !== 'once') return null;
  const { at, callId, output, isError, blob } = event;
  return { type: 'tool.late', at, callId, output, ...(blob === undefined ? {} : { blob }), isError };
}
