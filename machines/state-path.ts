import type { ChartState } from './step.ts';

/** The active state as in the chart: `turn.planning`, `executingTools`, `resting.awaitingApproval`. */
export function statePath({ value }: ChartState): string {
  if (typeof value === 'string') return value;
  const [entry] = Object.entries(value);
  return entry === undefined ? '' : `${entry[0]}.${String(entry[1])}`;
}
