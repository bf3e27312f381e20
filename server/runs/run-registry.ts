import { ANYONE, type Caller, seesRun } from '../../access/caller.ts';
import type { Host } from '../../engine/host/host.ts';
import type { Run } from '../../engine/run/run.ts';
import { describeWithChildren } from '../../engine/sub-agents/children.ts';
import { listOpen } from '../../machines/settled.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { Open, Settled } from '../../protocol/run-view.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { existingRun } from '../../stores/run-record.ts';
import { ApiError } from '../error-envelope.ts';

/** A run that is held open to follow, command or drive it. Call `release` when done. */
export type Hold = Opened & {
  /** Aborted when the server shuts down, which ends streams. */
  closing: AbortSignal;
  release(): void;
};

type RunRegistryOptions = {
  host: Host;
  open(runId: string): Promise<Opened>;
  log(line: string): void;
  /** Whether this process drives runs. Default true. Otherwise other processes drive them. */
  drives?: boolean;
};

/** `isServed`: this server has the run's agent and can drive it. */
export type Opened = { run: Run; isServed: boolean };

/** The shortest wait before a run is driven for its deadline, in ms. */
const SHORTEST_WAKE_MS = 1_000;

type Entry = {
  opening: Promise<Opened>;
  holders: number;
  driving: boolean;
  driveAgain: boolean;
  cancelWake(): void;
};

/**
 * The runs that this process has open.
 *
 * H1 There is one `Run` per id, shared by commands, streams and the driver.
 * H2 A run without holders is closed, except a run that rests with a deadline: it is driven at the deadline.
 * H3 Driving never throws: store errors are logged, and the run stays resumable.
 * H4 If other processes drive the runs, nothing here waits for a run to settle.
 */
export class RunRegistry {
  readonly #options: RunRegistryOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #closing = new AbortController();

  constructor(options: RunRegistryOptions) {
    this.#options = options;
  }

  get drives(): boolean {
    return this.#options.drives !== false;
  }

  get size(): number {
    return this.#entries.size;
  }

  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  async hold(runId: string): Promise<Hold> {
    return await this.#take(runId, this.#entries.get(runId) ?? this.#add(runId, this.#options.open(runId)));
  }

  /** Starts a new run and drives it. Throws the errors of `start`, `run-exists` or `shutting-down`. */
  async begin(runId: string, start: () => Promise<Run>): Promise<Run> {
    this.assertOpen();
    if (this.#entries.has(runId)) throw existingRun(runId);
    const hold = await this.#take(
      runId,
      this.#add(
        runId,
        start().then(run => ({ run, isServed: true })),
      ),
    );
    this.drive(runId);
    hold.release();
    return hold.run;
  }

  /** Holds and drives a run that this process has begun or opened: with this handle, unless there is one already. */
  async keep(run: Run): Promise<Hold> {
    this.assertOpen();
    const entry = this.#entries.get(run.id) ?? this.#add(run.id, Promise.resolve({ run, isServed: true }));
    const hold = await this.#take(run.id, entry);
    this.drive(run.id);
    return hold;
  }

  /** Drives the run in the background until it settles. While another process drives it, waits. */
  drive(runId: string): void {
    if (!this.drives) return;
    const entry = this.#entries.get(runId);
    if (entry?.driving === true) entry.driveAgain = true;
    else void this.#drive(runId);
  }

  /** Drives a taken run until it rests, has ended, or another process drives it. Never rejects. */
  async driveTaken(runId: string): Promise<void> {
    await this.#drive(runId, run => run.drive());
  }

  /** Ends all streams and cancels all timers. Runs that are being driven continue until the process ends. */
  close(): void {
    this.#closing.abort();
    for (const { cancelWake } of this.#entries.values()) cancelWake();
    this.#entries.clear();
  }

  /** Closes, and gives up the runs that are being driven. Resolves once their leases are released. */
  async handOver(graceMs: number): Promise<void> {
    const driven = [...this.#entries.values()].filter(({ driving }) => driving);
    this.close();
    await Promise.all(driven.map(async ({ opening }) => await (await opening).run.yield({ graceMs })));
  }

  async #drive(runId: string, work = (run: Run): Promise<unknown> => run.settled()): Promise<void> {
    try {
      const hold = await this.hold(runId);
      const entry = this.#entries.get(runId);
      try {
        if (entry === undefined || entry.driving || !hold.isServed) return;
        await this.#settle(entry, () => work(hold.run));
      } finally {
        hold.release();
      }
    } catch (error) {
      if (!this.#closing.signal.aborted)
        this.#options.log(`Run ${runId} stopped: ${messageOf(error)} It stays resumable.`);
    }
  }

  async #settle(entry: Entry, work: () => Promise<unknown>): Promise<void> {
    entry.driving = true;
    try {
      do {
        entry.driveAgain = false;
        await work();
      } while (entry.driveAgain && !this.#closing.signal.aborted);
    } finally {
      entry.driving = false;
    }
  }

  #add(runId: string, opening: Promise<Opened>): Entry {
    const entry = {
      opening,
      holders: 0,
      driving: false,
      driveAgain: false,
      cancelWake: () => {},
    };
    this.#entries.set(runId, entry);
    return entry;
  }

  async #take(runId: string, entry: Entry): Promise<Hold> {
    entry.holders += 1;
    let opened: Opened;
    try {
      opened = await entry.opening;
      this.assertOpen();
    } catch (error) {
      entry.holders -= 1;
      if (this.#entries.get(runId) === entry) this.#entries.delete(runId);
      throw error;
    }
    let held = true;
    const release = () => {
      if (!held) return;
      held = false;
      entry.holders -= 1;
      if (entry.holders === 0) this.#letGo(runId, entry, opened);
    };
    return { ...opened, closing: this.#closing.signal, release };
  }

  #letGo(runId: string, entry: Entry, { run, isServed }: Opened): void {
    if (this.#closing.signal.aborted) return;
    entry.cancelWake();
    const deadline = isServed && this.drives ? findDeadline(run) : null;
    if (deadline === null) {
      if (this.#entries.get(runId) === entry) this.#entries.delete(runId);
      return;
    }
    const { host } = this.#options;
    const ms = Math.max(deadline - host.now(), SHORTEST_WAKE_MS);
    entry.cancelWake = host.setTimer(ms, () => this.drive(runId), { keepAlive: false });
  }

  /** Throws `shutting-down`. */
  assertOpen(): void {
    if (this.#closing.signal.aborted)
      throw new ApiError('shutting-down', 'The server is shutting down. Retry later.');
  }
}

export async function whileHeld<Result>(
  holding: Promise<Hold>,
  use: (hold: Hold) => Promise<Result>,
): Promise<Result> {
  const hold = await holding;
  try {
    return await use(hold);
  } finally {
    hold.release();
  }
}

/** Settles as `value` does, unless the signal is aborted first: then rejects with an error. */
export async function unlessAborted<Value>(
  signal: AbortSignal,
  value: Promise<Value>,
  makeError: () => Error,
): Promise<Value> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(makeError());
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([value, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** How a run rests or ended, as far as this process has read it; `null` while it has something to do. @internal */
export async function settledNow({ durable, source }: Run): Promise<Settled | null> {
  return await describeWithChildren(source.store, durable.state, source.showText);
}

/** What a run and the runs of its sub-agents wait for. While the run does something, only its own is known. */
export async function openNow(run: Run): Promise<Open[]> {
  const settled = await settledNow(run);
  return settled?.status === 'waiting' ? settled.open : listOpen(run.context);
}

function findDeadline({ durable: { state } }: Run): number | null {
  return state.status === 'active' ? state.context.timer : null;
}

/** Throws the same `run-unknown` for unknown runs and for runs that the caller may not see. */
export async function findRecord(store: Store, runId: string, caller: Caller = ANYONE): Promise<RunRecord> {
  const record = await store.get(runId);
  assertSees(caller, record?.labels ?? {});
  if (record === undefined) throw unknownRun();
  return record;
}

export function assertSees(caller: Caller, labels: Labels = {}): void {
  if (!seesRun(caller, labels)) throw unknownRun();
}

function unknownRun(): ApiError {
  return new ApiError('run-unknown', 'There is no run with this id. GET /runs lists the runs.');
}
