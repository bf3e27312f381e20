import { LONGEST_NAP_MS, sleep } from '../host/host.ts';
import type { Service } from './service.ts';

/**
 * Reports `timer.fired` when the wall clock reaches `until`, even if the machine slept. A wait before a retry also ends
 * after its duration by the monotonic clock, in case the wall clock was set back.
 */
export const timer: Service = async scope => {
  const { host, until = 0 } = scope;
  const { signal } = scope.stop;
  const isBackOff = scope.context().failure !== null;
  const longest = host.monotonic() + Math.max(0, until - host.now());
  while (host.now() < until && !signal.aborted) {
    const left = isBackOff ? longest - host.monotonic() : until - host.now();
    if (left <= 0) break;
    await sleep(host, Math.min(left, until - host.now(), LONGEST_NAP_MS), signal);
  }
  if (!signal.aborted) scope.report({ type: 'timer.fired' });
};
