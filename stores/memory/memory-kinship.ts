import { findAwaited, type Kinship } from '../plan-deletion.ts';
import { isOpen } from '../run-record.ts';
import { describe, type Run } from './memory-run.ts';

/** How the runs belong together, for a deletion. */
export function kinshipOf(runs: ReadonlyMap<string, Run>): Kinship {
  const all = [...runs.values()];
  const idsOf = (found: readonly Run[]) => found.map(({ record }) => record.runId);
  return {
    find: runId => {
      const run = runs.get(runId);
      return run && { record: describe(run), parent: run.record.parent?.runId };
    },
    childrenOf: runId => idsOf(all.filter(({ record }) => record.parent?.runId === runId)),
    continuationsOf: runId => idsOf(all.filter(({ record }) => record.continues === runId)),
    waiting: () =>
      all
        .filter(({ record }) => isOpen(record))
        .map(({ record, journal }) => ({ runId: record.runId, awaited: findAwaited(journal) })),
  };
}
