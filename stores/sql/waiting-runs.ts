import { findAwaited, type Waiting } from '../plan-deletion.ts';
import { type Row, unescapeText } from './rows.ts';

/** Returns the runs of journal rows, and what they wait for. The rows of a run are in their order. */
export function toWaiting(rows: readonly Row[]): Waiting[] {
  return [...Map.groupBy(rows, ({ run_id }) => String(run_id))].map(([key, appends]) => ({
    runId: unescapeText(key),
    awaited: findAwaited(appends.flatMap(({ json }) => String(json).split('\n'))),
  }));
}
