import type { Context } from '../../machines/context.ts';
import { hasEnded } from '../../machines/status.ts';
import { type ChartState, initial, next } from '../../machines/step.ts';
import type { Delta, Effect, ServiceName } from '../../protocol/effect.ts';
import { isThrown } from '../../protocol/error.ts';
import type { JournalEntry, ReportEvent, RunEvent, RunStarted } from '../../protocol/event.ts';
import type { CancelOptions } from '../../protocol/run-command.ts';
import { nextReaderTurn } from '../events/reader-turns.ts';
import { isSamePart, isText } from '../events/run-events.ts';
import { GRACE_MS, type Host, settledWithin } from '../host/host.ts';
import { cancelRun, stampCommand } from '../log/command.ts';
import { type CommandResult, findRefusal, refuse, withoutIndex } from '../log/refusal.ts';
import { describeSettled, type Settled } from '../log/settled.ts';
import {
  Cancelled,
  type Report,
  type Service,
  type ServiceScope,
  Stop,
  Stopped,
} from '../services/service.ts';

/** What a private run tells its reader: an entry with the state that it led to, or a delta. */
export type PrivateHappening = { entry: JournalEntry; state: ChartState } | Delta;

export type PrivateRunOptions = {
  host: Host;
  services: Readonly<Record<ServiceName, Service>>;
  /** A model's text as readers see it. */
  showText(text: string): string;
};

/** Shared by all aborts: its stack trace is of no use. */
const MOVED_ON = new Stopped('The run has moved on.');

/** No process takes a private run over, so none gives one up. */
const NEVER = new AbortController().signal;

type Running = { stop: Stop; done: Promise<void> };

/**
 * A run that nothing but its one reader sees: it has no store, so nothing of it is encoded, committed, leased or read
 * again. Its agent has no tools, so nothing outside can depend on it, and no one has anything to decide.
 *
 * P1 The chart owns its loop, as that of every run: each event passes the chart, and each effect comes from it.
 * P2 Each entry is told once, in order, with the state that it led to: after what its effects publish, as by a driver.
 *    Pieces of one text that wait together are told as one.
 * P3 It ends with its process. A defect ends it for its callers, but it can still be cancelled.
 */
export class PrivateRun {
  readonly id: string;
  /** All of its entries, for a reader that needs them again. */
  readonly entries: JournalEntry[] = [];
  readonly #options: PrivateRunOptions;
  readonly #running = new Map<string, Running>();
  #state: ChartState;
  #isCancelling = false;
  #failure: { error: unknown } | null = null;
  #told: PrivateHappening[] = [];
  #isUnread = false;
  #wakeReader = () => {};
  #settling = Promise.withResolvers<void>();

  constructor(started: RunStarted, options: PrivateRunOptions) {
    const { state, effects } = initial(started);
    this.id = started.runId;
    this.#options = options;
    this.#state = state;
    this.#enter(started, state);
    this.#apply(effects);
  }

  get context(): Readonly<Context> {
    return this.#state.context;
  }

  get durable(): { state: ChartState } {
    return { state: this.#state };
  }

  /** Waits until the run rests or has ended. Rejects if driving fails. */
  async settled(): Promise<Settled> {
    for (;;) {
      const settled = describeSettled(this.#state, this.#options.showText);
      if (settled !== null) return settled;
      if (this.#failure !== null) throw this.#failure.error;
      await this.#settling.promise;
    }
  }

  async cancel(options: CancelOptions): Promise<CommandResult> {
    const { host } = this.#options;
    this.#isCancelling = true;
    for (const { stop } of this.#running.values()) stop.abort(new Cancelled());
    await settledWithin(
      host,
      GRACE_MS,
      [...this.#running.values()].map(({ done }) => done),
    );
    const event = stampCommand(cancelRun(this.#state, options), host.now());
    if (this.#take(event)) return { accepted: true };
    const refusal = findRefusal(this.#state, [event], this.entries);
    return refusal === null
      ? refuse('refused', `Run ${this.id} cannot be cancelled.`)
      : withoutIndex(refusal);
  }

  /** What happens in the run, for its one reader: all that waits when one turn of the event loop is over. */
  happenings(): AsyncIterator<readonly PrivateHappening[], void> {
    return {
      next: async () => {
        if (this.#told.length === 0 && !this.#isUnread && !hasEnded(this.#state))
          await new Promise<void>(resolve => {
            this.#wakeReader = resolve;
          });
        await nextReaderTurn();
        const value = this.#told;
        if (this.#isUnread || value.length === 0) return { done: true, value: undefined };
        this.#told = [];
        return { done: false, value };
      },
      return: async () => {
        this.#isUnread = true;
        this.#told = [];
        this.#wakeReader();
        return { done: true, value: undefined };
      },
    };
  }

  readonly #tell = (happening: PrivateHappening): void => {
    if (this.#isUnread) return;
    const last = this.#told.at(-1);
    if (isTextOf(happening) && last !== undefined && isTextOf(last) && isSamePart(last, happening)) {
      this.#told[this.#told.length - 1] = { ...last, text: last.text + happening.text };
      return;
    }
    this.#told.push(happening);
    this.#wakeReader();
  };

  #enter(event: RunEvent, state: ChartState): void {
    const entry = { seq: this.entries.length + 1, event };
    this.entries.push(entry);
    this.#tell({ entry, state });
    if (!hasEnded(state) && !state.hasTag('rest')) return;
    this.#settling.resolve();
    this.#settling = Promise.withResolvers();
  }

  /** `reporter`: the service whose report it is. Returns whether the chart takes the event. */
  #take(event: Parameters<typeof next>[1], reporter?: string): boolean {
    const { state, effects, handled } = next(this.#state, event);
    if (!handled) return false;
    this.#state = state;
    this.#apply(effects, reporter);
    this.#enter(event, state);
    return true;
  }

  #apply(effects: readonly Effect[], reporter?: string): void {
    for (const effect of effects) {
      if (effect.type === 'start') this.#start(effect);
      else if (effect.type === 'publish') this.#tell(effect.notice);
      else {
        const stop = this.#running.get(effect.id)?.stop;
        this.#running.delete(effect.id);
        if (effect.id === reporter) stop?.end();
        else stop?.abort(MOVED_ON);
      }
    }
  }

  #start({ id, service, input }: Extract<Effect, { type: 'start' }>): void {
    if (this.#isCancelling || this.#failure !== null) return;
    const stop = new Stop();
    const scope = this.#makeScope(id, input, stop);
    const done = Promise.resolve()
      .then(() => this.#options.services[service](scope))
      .catch(error => {
        if (!isThrown(error, Stopped) && !stop.isStopped) this.#fail(error);
      });
    this.#running.set(id, { stop, done });
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    for (const { stop } of this.#running.values()) stop.abort(MOVED_ON);
    this.#settling.resolve();
    this.#settling = Promise.withResolvers();
  }

  #makeScope(
    id: string,
    { generation, until }: Extract<Effect, { type: 'start' }>['input'],
    stop: Stop,
  ): ServiceScope {
    const { host } = this.#options;
    const assertDriving = () => {
      if (stop.isStopped) throw MOVED_ON;
    };
    const report = (one: Report) =>
      this.#failure === null && this.#take({ ...one, at: host.now(), generation } as ReportEvent, id);
    return {
      host,
      stop,
      yielding: NEVER,
      until,
      context: () => this.#state.context,
      inherited: async () => [],
      past: async () => [],
      report,
      reportSoon: async one => (report(one) ? [] : [one]),
      durable: async () => assertDriving(),
      commitsInBackground: false,
      assertDriving,
      publish: this.#tell,
      blobs: null,
      recordLate: () => {},
      findLiveAttempt: async () => null,
    };
  }
}

function isTextOf(happening: PrivateHappening): happening is Extract<Delta, { text: string }> {
  return 'type' in happening && isText(happening);
}
