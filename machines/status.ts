import type { RunStatus } from '../protocol/store.ts';
import type { ChartState } from './agent.ts';

/** Whether the run waits for an input or a timer. A run that is being cancelled is not at rest. */
export function isAtRest(state: ChartState): boolean {
  return state.hasTag('rest') && state.context.cancelling === null;
}

/** Whether the run has finished, failed or been cancelled. */
export function hasEnded(state: ChartState): boolean {
  return state.status !== 'active';
}

/** The run's status, as stores keep it. */
export function statusOf(state: ChartState): RunStatus {
  if (hasEnded(state)) return state.value as Extract<RunStatus, 'finished' | 'failed' | 'cancelled'>;
  return isAtRest(state) ? 'waiting' : 'running';
}

/** Returns the path of the active state, e.g. `turn.planning` or `executingTools`. */
export function statePath({ value }: ChartState): string {
  if (typeof value === 'string') return value;
  const [entry] = Object.entries(value);
  return entry === undefined ? '' : `${entry[0]}.${String(entry[1])}`;
}
