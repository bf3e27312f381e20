import { pendingServices } from '../../machines/snapshot.ts';
import { hasEnded, isAtRest } from '../../machines/standing.ts';
import { type ChartState, next } from '../../machines/step.ts';
import type { Store } from '../../protocol/store.ts';
import { lateOutcomes } from '../journal/late-evidence.ts';
import { foldEntry, loadRun, makeImage, standingAt } from '../journal/load-run.ts';
import { RunLog } from '../journal/run-log.ts';
import { cancelRun, findOverflow } from '../run/command.ts';
import { findRefusal } from '../run/explain-refusal.ts';
import { waitsForOriginal } from '../sub-agents/child-runs.ts';
import type { Chart } from './chart.ts';
import type { Host } from './host.ts';

/** The agent's chart, for the log and the driver. */
export const agentChart: Chart<ChartState> = {
  next,
  load: loadRun,
  fold: foldEntry,
  pending: pendingServices,
  isAtRest,
  hasEnded,
  wakeAt: ({ context }) => context.timer,
  polls: ({ context }) => waitsForOriginal(context),
  cancellation: ({ context }) => context.cancelling,
  cancel: cancelRun,
  standing: standingAt,
  image: makeImage,
  contextOf: ({ context }) => context,
  findOverflow,
  findRefusal,
  lateOutcomes,
};

/** The agent's chart for a run whose parent may wait for it in this process: then its end wakes no other process. */
export function chartOf({ isAwaited }: { isAwaited?(): boolean }): Chart<ChartState> {
  if (isAwaited === undefined) return agentChart;
  const standing = (state: ChartState, seq: number) => {
    const { wakes, ...rest } = standingAt(state, seq);
    return wakes === undefined || isAwaited() ? rest : { ...rest, wakes };
  };
  return { ...agentChart, standing };
}

/** Loads the log of a run, to append to it without driving it. Throws like `loadRun`. */
export async function loadLog(
  { store, host }: { store: Store; host: Host },
  runId: string,
): Promise<RunLog<ChartState>> {
  return new RunLog({ store, host, chart: agentChart }, runId, await loadRun(store, runId));
}
