import type { ChartState } from '../../machines/step.ts';

/** The active state as in the chart: `turn.planning`, `executingTools`, `resting.awaitingApproval`. */
export function statePath({ value }: ChartState): string {
  const path: string[] = [];
  let at: unknown = value;
  while (typeof at === 'object' && at !== null) {
    const [entry] = Object.entries(at);
    if (entry === undefined) break;
    path.push(entry[0]);
    at = entry[1];
  }
  return [...path, ...(typeof at === 'string' ? [at] : [])].join('.');
}
