import { setTimeout as delay } from 'node:timers/promises';
import { type Finding, found } from '../cases/finding.ts';

/**
 * Makes the clocks and timers of this process run `factor` times as fast, so that a limit of many minutes is
 * reached in seconds without the case knowing which option sets it. Real sockets and other processes keep
 * their pace.
 */
export function warpTime(factor: number): void {
  const real = {
    setTimeout: globalThis.setTimeout,
    setInterval: globalThis.setInterval,
    now: Date.now,
    monotonic: performance.now.bind(performance),
  };
  const [wall, monotonic] = [real.now(), real.monotonic()];
  const scale = (ms: unknown) => Math.max(1, (typeof ms === 'number' ? ms : 0) / factor);
  globalThis.setTimeout = new Proxy(real.setTimeout, {
    apply: (target, self, [fire, ms, ...rest]) => Reflect.apply(target, self, [fire, scale(ms), ...rest]),
  });
  globalThis.setInterval = new Proxy(real.setInterval, {
    apply: (target, self, [fire, ms, ...rest]) => Reflect.apply(target, self, [fire, scale(ms), ...rest]),
  });
  Date.now = () => wall + (real.now() - wall) * factor;
  performance.now = () => monotonic + (real.monotonic() - monotonic) * factor;
  AbortSignal.timeout = ms => {
    const controller = new AbortController();
    const abort = () => controller.abort(new DOMException('timed out', 'TimeoutError'));
    real.setTimeout(abort, scale(ms)).unref();
    return controller.signal;
  };
}

/** The findings of `work`, or `stranded` with the given reason if it takes more real ms than `longestMs`. */
export async function withinReal(
  longestMs: number,
  work: Promise<Finding[]>,
  reason: string,
): Promise<Finding[]> {
  const late = new AbortController();
  const waiting = delay(longestMs, [found('stranded', reason)], { signal: late.signal });
  try {
    return await Promise.race([work, waiting.catch(() => [])]);
  } finally {
    late.abort();
  }
}
