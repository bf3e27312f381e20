import { EngineError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ListFilter, PruneOptions, Store } from '../protocol/store.ts';
import { type Kinship, planDeletion } from './plan-deletion.ts';
import { isOpen } from './run-record.ts';

/** How many runs one commit checks: other processes wait for the commit. */
const BATCH = 50;

const NAMES: NamesOf<PruneOptions> = {
  before: true,
  status: true,
  labels: true,
  dryRun: true,
  now: true,
  isDead: true,
};

/**
 * Implements `Store.prune`: pages through the matching runs, the newest first, so that a run comes after those that
 * continue it. `remove` deletes those of `runIds` that `planPruning` allows, and returns the ids of all deleted runs;
 * `gone` are those so far. Throws `input-invalid`.
 */
export async function pruneRuns(
  store: Pick<Store, 'list'>,
  options: PruneOptions,
  remove: (runIds: readonly string[], gone: ReadonlySet<string>) => Promise<readonly string[]>,
): Promise<string[]> {
  refuseUnknownOptions('store.prune', options, NAMES, 'input-invalid');
  const filter = readFilter(options);
  const gone = new Set<string>();
  let cursor: string | undefined;
  do {
    const page = { ...filter, limit: BATCH, ...omitUndefined({ cursor }), onDamaged: () => {} };
    const { runs, next } = await store.list(page);
    const runIds = runs.map(run => run.runId);
    for (const runId of await remove(runIds, gone)) gone.add(runId);
    cursor = next;
  } while (cursor !== undefined);
  return [...gone];
}

/**
 * Returns the ids of the runs to delete: those of `runIds` that ended before `before`, with their child runs. Spares
 * what cannot be deleted: runs that are driven, and those that another run continues or waits for. A child run goes with
 * its parent only. `gone` are treated as deleted.
 */
export function planPruning(
  kinship: Kinship,
  runIds: readonly string[],
  gone: ReadonlySet<string>,
  options: PruneOptions,
): string[] {
  const doomed = new Set(gone);
  let waiting: ReturnType<Kinship['waiting']> | undefined;
  const isLeft = (runId: string) => !doomed.has(runId);
  const left: Kinship = {
    find: runId => (isLeft(runId) ? kinship.find(runId) : undefined),
    childrenOf: runId => kinship.childrenOf(runId).filter(isLeft),
    continuationsOf: runId => kinship.continuationsOf(runId).filter(isLeft),
    waiting: () => (waiting ??= [...kinship.waiting()]),
  };
  for (const runId of runIds) {
    const kin = left.find(runId);
    if (kin === undefined || isOpen(kin.record)) continue;
    const { endedAt = kin.record.updatedAt } = kin.record;
    if (endedAt >= options.before || (kin.parent !== undefined && left.find(kin.parent) !== undefined))
      continue;
    for (const id of planOrSpare(left, runId, options)) doomed.add(id);
  }
  return [...doomed].filter(id => !gone.has(id));
}

function planOrSpare(kinship: Kinship, runId: string, { now, isDead }: PruneOptions): string[] {
  try {
    return planDeletion(kinship, runId, omitUndefined({ now, isDead }));
  } catch (error) {
    if (error instanceof EngineError && error.code === 'refused') return [];
    throw error;
  }
}

/** A run that ended before a time was created before it. */
function readFilter({ before, status, labels }: PruneOptions): ListFilter {
  if (typeof before !== 'number' || !Number.isFinite(before))
    throw new EngineError(
      'input-invalid',
      'Expected `before`, a time in ms since the epoch: prune deletes only runs that ended before it.',
    );
  if (status === 'running' || status === 'waiting')
    throw new EngineError(
      'input-invalid',
      `Expected status finished, failed or cancelled, got "${status}": prune deletes only runs that have ended.`,
    );
  return { before, ...omitUndefined({ status, labels }) };
}
