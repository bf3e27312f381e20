/** The points where tests and crash drills can stop or delay a process. */
export type FaultPoint = `${FaultStep}.${'before' | 'after'}`;

type FaultStep =
  | ('create' | 'append' | 'claim' | 'renew' | 'release' | 'input' | 'report' | 'effect')
  | ('model' | 'compaction' | 'prepare' | 'tool' | 'reconcile' | 'snapshot' | 'blob');

/** Injected time, ids and randomness. `systemHost` is the default; it works in browsers too. */
export interface Host {
  /** ms since the epoch. */
  now(): number;
  /** ms on a clock that is never set back and keeps running while the process is stopped. */
  monotonic(): number;
  /** A number from 0 up to, but not including, 1. */
  random(): number;
  /** A new unique id that starts with `prefix` and `_`. */
  newId(prefix: string): string;
  /** How long a lease is valid without renewal, in ms. Default 10 000. */
  leaseMs?: number;
  /** Calls `fire` once after `ms`; returns a function that cancels it. `keepAlive: false` lets the process exit first. */
  setTimer(ms: number, fire: () => void, options?: { keepAlive: boolean }): () => void;
  /** Called at each fault point; a test may exit or block here. */
  reach?(point: FaultPoint): void;
}

/** How often the entries of other processes are looked for in a store that sends no notifications, in ms. */
export const POLL_MS = 150;

/** Waits for a wall-clock time are split into naps of this length: timers stop while the machine sleeps. */
export const LONGEST_NAP_MS = 60_000;

/** How long the services of a cancelled run may take to end, in ms. */
export const GRACE_MS = 5_000;

/** The longest delay of a platform timer, in ms; longer timers fire early. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The platform's clock, timers and random numbers. */
export const systemHost: Host = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  newId(prefix) {
    return `${prefix}_${crypto.randomUUID().replaceAll('-', '')}`;
  },
  setTimer(ms, fire, options) {
    const timer = setTimeout(fire, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
    if (options?.keepAlive === false) timer.unref?.();
    return () => clearTimeout(timer);
  },
};

/** Calls `work` once what the platform has ready is done. Browsers have no `setImmediate`. */
export function runSoon(work: () => void): void {
  if (typeof setImmediate === 'function') setImmediate(work);
  else setTimeout(work, 0);
}

/** A moment on both clocks, in ms. */
export type HostMoment = { wall: number; monotonic: number };

export function momentOf(host: Host): HostMoment {
  return { wall: host.now(), monotonic: host.monotonic() };
}

/** The time since a moment, in ms, by the clock that shows more: each may stop while the machine sleeps, or be set back. */
export function elapsedSince(moment: HostMoment, host: Host): number {
  return Math.max(host.monotonic() - moment.monotonic, host.now() - moment.wall);
}

/** Resolves after `ms`, or as soon as `signal` is aborted. `options` are those of `setTimer`. */
export function sleep(
  host: Pick<Host, 'setTimer'>,
  ms: number,
  signal?: AbortSignal,
  options?: { keepAlive: boolean },
): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted === true) return resolve();
    const done = () => {
      signal?.removeEventListener('abort', done);
      cancel();
      resolve();
    };
    const cancel = host.setTimer(ms, done, options);
    signal?.addEventListener('abort', done);
  });
}

/** The value of `work` if it settles within `ms` and before `signal` is aborted; otherwise `null`. */
export async function endWithin<Value>(
  work: Promise<Value>,
  host: Pick<Host, 'setTimer'>,
  ms: number,
  signal?: AbortSignal,
): Promise<Value | null> {
  const over = new AbortController();
  const late = sleep(host, ms, signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]));
  const ended = await Promise.race([work, late.then(() => null)]);
  over.abort();
  return ended;
}

/** Resolves once all of `work` has settled, at the latest after `ms`. Returns whether all has. */
export async function settledWithin(
  host: Pick<Host, 'setTimer'>,
  ms: number,
  work: readonly Promise<unknown>[],
): Promise<boolean> {
  return (await endWithin(Promise.allSettled(work), host, ms)) !== null;
}

/** Reports a problem to the operator of this process: by default, Node prints the line on stderr. */
export function warn(line: string): void {
  globalThis.process?.emitWarning?.(line, 'AgentchartWarning');
}
