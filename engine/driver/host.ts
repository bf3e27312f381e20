/** Where a process can die or stall, as tests and crash drills name it. */
export type FaultPoint =
  | 'create.before'
  | 'create.after'
  | 'append.before'
  | 'append.after'
  | 'claim.before'
  | 'claim.after'
  | 'renew.before'
  | 'renew.after'
  | 'effect.before'
  | 'effect.after'
  | 'model.before'
  | 'model.after'
  | 'tool.before'
  | 'tool.after'
  | 'reconcile.before'
  | 'reconcile.after'
  | 'report.before'
  | 'report.after'
  | 'snapshot.before'
  | 'snapshot.after'
  | 'blob.before'
  | 'blob.after'
  | 'input.before'
  | 'input.after'
  | 'release.before'
  | 'release.after';

/** Time, ids and randomness, injected. Everything here works in a browser too. */
export interface Host {
  /** ms since the epoch. */
  now(): number;
  /** ms on a clock that is never set back, and that runs on while the process is stopped. */
  monotonic(): number;
  /** 0 ≤ n < 1. */
  random(): number;
  newId(prefix: string): string;
  /** How long a lease on a run holds without being renewed, in ms. Default 10 000. */
  leaseMs?: number;
  /** Runs `fire` once after `ms`; gives back what cancels it. `keepAlive: false` lets the process end meanwhile. */
  setTimer(ms: number, fire: () => void, options?: { keepAlive: boolean }): () => void;
  /** Called at each fault point; a test may end the process here, or wait. */
  reach?(point: FaultPoint): void;
}

/**
 * Longer waits for a time of the wall clock are made of naps of this length: timers stand still while the
 * machine sleeps.
 */
export const LONGEST_NAP_MS = 60_000;

/** The longest a platform timer can wait; longer waits are made of several. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemHost: Host = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  newId: prefix => `${prefix}_${crypto.randomUUID().replaceAll('-', '')}`,
  setTimer(ms, fire, options) {
    const timer = setTimeout(fire, Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
    if (options?.keepAlive === false) timer.unref?.();
    return () => clearTimeout(timer);
  },
};

/** A moment on both clocks. */
export type Moment = { wall: number; monotonic: number };

export function momentOf(host: Host): Moment {
  return { wall: host.now(), monotonic: host.monotonic() };
}

/**
 * How much time has passed since, in ms, by the clock that says more: the monotonic one may stand still
 * while the machine sleeps, and the wall clock may be set back.
 */
export function elapsedSince(moment: Moment, host: Host): number {
  return Math.max(host.monotonic() - moment.monotonic, host.now() - moment.wall);
}

/** Resolves after `ms`, or at once when `signal` is aborted. */
export function sleep(host: Host, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted === true) return resolve();
    const done = () => {
      signal?.removeEventListener('abort', done);
      cancel();
      resolve();
    };
    const cancel = host.setTimer(ms, done);
    signal?.addEventListener('abort', done);
  });
}
