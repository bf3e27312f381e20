import type { OpenCall, WaitingRun } from '../../../protocol/run-view.ts';

/** The calls of client tools that a run waits for. */
export function clientCalls({ open }: Pick<WaitingRun, 'open'>): OpenCall[] {
  return open.flatMap(one => (one.kind === 'result' ? [one] : []));
}
