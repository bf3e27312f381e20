import { sleep } from '../host.ts';
import type { Service } from '../service.ts';

/** Reports `timer.fired` once its time has come by the wall clock, however long the process slept. */
export const timer: Service = async scope => {
  const { host, signal, until = 0 } = scope;
  while (host.now() < until && !signal.aborted) await sleep(host, until - host.now(), signal);
  if (!signal.aborted) scope.report({ type: 'timer.fired' });
};
