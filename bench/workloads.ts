import type { Workload } from './workload.ts';
import { backtesting } from './workloads/backtest.ts';
import { chart } from './workloads/chart.ts';
import { conversation } from './workloads/conversation.ts';
import { gateway } from './workloads/gateway.ts';
import { growth } from './workloads/growth.ts';
import { importing } from './workloads/import.ts';
import { inFlight } from './workloads/in-flight.ts';
import { list } from './workloads/list.ts';
import { page } from './workloads/page.ts';
import { parallel } from './workloads/parallel.ts';
import { regressing } from './workloads/regress.ts';
import { session } from './workloads/session.ts';
import { steps } from './workloads/steps.ts';
import { stores } from './workloads/stores.ts';
import { stream } from './workloads/stream.ts';
import { turns } from './workloads/turns.ts';
import { types } from './workloads/types.ts';

/** All workloads, in the order of the output. */
export const workloads: readonly Workload[] = [
  turns,
  parallel,
  stream,
  growth,
  steps,
  conversation,
  inFlight,
  gateway,
  session,
  list,
  backtesting,
  regressing,
  stores,
  chart,
  importing,
  types,
  page,
];

/** Returns the workload with the name. Throws an `Error` that lists the names if there is none. */
export function findWorkload(name: string): Workload {
  const found = workloads.find(workload => workload.name === name);
  if (found !== undefined) return found;
  throw new Error(
    `Unknown workload "${name}". Expected one of: ${workloads.map(({ name }) => name).join(', ')}.`,
  );
}
