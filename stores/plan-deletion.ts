import { EngineError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import { type NamesOf, optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import {
  type DeleteOptions,
  isOpen,
  type ListFilter,
  type PruneOptions,
  type RunRecord,
  type Store,
} from '../protocol/store.ts';
import { readEvent } from './journal-text.ts';
import { assertUndriven, leaseOf } from './lease.ts';
import { missingRun } from './run-record.ts';

export type Kinship = {
  find(runId: string): RunRecord | undefined;
  childrenOf(runId: string): readonly string[];
  continuationsOf(runId: string): readonly string[];
  waiting(): Iterable<Waiting>;
};

export type Waiting = { runId: string; awaited: ReadonlySet<string> };

const DELETE_NAMES: NamesOf<DeleteOptions> = { cascade: true, now: true, isDead: true };

/** The ids to delete, `runIds` first; forks stay, unless they wait for a child. Throws as `Store.delete`. */
export function planDeletion(
  kinship: Kinship,
  runIds: string | readonly string[],
  options: DeleteOptions,
): string[] {
  refuseUnknownOptions('store.delete', options, DELETE_NAMES, 'input-invalid');
  const { cascade = false, now = Date.now(), isDead = () => false } = options;
  const doomed = new Set([runIds].flat());
  for (const id of doomed) {
    for (const childId of kinship.childrenOf(id)) doomed.add(childId);
    if (cascade) for (const later of kinship.continuationsOf(id)) doomed.add(later);
    if (cascade) for (const { runId: waiter } of findWaiters(kinship, doomed)) doomed.add(waiter);
  }
  for (const id of doomed) {
    const kin = kinship.find(id);
    if (kin === undefined) throw missingRun(id);
    assertUndriven(id, leaseOf(kin), { now, isDead }, 'deleted');
    assertUnneeded(kinship, kin, doomed);
  }
  const [waiter] = cascade ? [] : findWaiters(kinship, doomed);
  if (waiter !== undefined)
    throw stillNeeded(waiter.awaited, `run "${waiter.runId}" waits for it`, [waiter.runId]);
  return [...doomed];
}

/** Only child runs are awaited: without any, no journal is read. */
function findWaiters(kinship: Kinship, doomed: ReadonlySet<string>): { runId: string; awaited: string }[] {
  const children = [...doomed].filter(id => kinship.find(id)?.parent !== undefined);
  if (children.length === 0) return [];
  return [...kinship.waiting()].flatMap(({ runId, awaited }) => {
    const found = doomed.has(runId) ? undefined : children.find(id => awaited.has(id));
    return found === undefined ? [] : [{ runId, awaited: found }];
  });
}

function assertUnneeded(kinship: Kinship, record: RunRecord, doomed: ReadonlySet<string>): void {
  const { runId: id } = record;
  const parent = record.parent?.runId;
  const above = parent === undefined || doomed.has(parent) ? undefined : kinship.find(parent);
  if (above !== undefined && isOpen(above))
    throw new EngineError(
      'refused',
      `Run "${id}" is a child of run "${parent}", which has not ended. Cancel or delete the parent.`,
      { runId: id, parent: parent ?? null },
    );
  const later = kinship.continuationsOf(id).filter(other => !doomed.has(other));
  if (later.length > 0) throw stillNeeded(id, `it is continued by ${later.join(', ')}`, later);
}

function stillNeeded(runId: string, reason: string, by: string[]): EngineError {
  return new EngineError(
    'refused',
    `Run "${runId}" is still needed: ${reason}. Delete that run first, or both with cascade.`,
    { runId, by },
  );
}

/** The child runs that a run waits for, in calls or in the background, according to its journal or the part with `AWAITING`. */
export function findAwaited(texts: Iterable<string>): ReadonlySet<string> {
  const byCall = new Map<string, string>();
  const working = new Set<string>();
  for (const text of texts) {
    if (!AWAITING.some(part => text.includes(part))) continue;
    const event = readEvent(text);
    if (event?.type === 'tool.suspended' && event.background !== undefined) working.add(event.childRunId);
    else if (event?.type === 'tool.suspended') byCall.set(event.callId, event.childRunId);
    if (event?.type === 'result.received') byCall.delete(event.callId);
    if (event?.type === 'message.received' && event.from !== undefined) working.delete(event.from.runId);
  }
  return new Set([...byCall.values(), ...working]);
}

/** Of the JSON of events that begin or end such a wait. Messages of people have no "from". */
export const AWAITING = ['"tool.suspended"', '"result.received"', '"from":{'] as const;

/** How many runs one commit checks: other processes wait for the commit. */
const BATCH = 50;

const PRUNE_NAMES = optionNames<PruneOptions>()('before status labels dryRun now isDead');

/** Pages through the matching runs, newest first; `remove` deletes those that `planPruning` allows. */
export async function pruneRuns(
  store: Pick<Store, 'list'>,
  options: PruneOptions,
  remove: (runIds: readonly string[], gone: ReadonlySet<string>) => Promise<readonly string[]>,
): Promise<string[]> {
  refuseUnknownOptions('store.prune', options, PRUNE_NAMES, 'input-invalid');
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

/** What to delete: runs ended before `before`, with children; not what is driven, continued or awaited. */
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
    if (kin === undefined || isOpen(kin)) continue;
    const { endedAt = kin.updatedAt, parent } = kin;
    if (endedAt >= options.before || (parent !== undefined && left.find(parent.runId) !== undefined))
      continue;
    try {
      const { now, isDead } = options;
      for (const id of planDeletion(left, runId, omitUndefined({ now, isDead }))) doomed.add(id);
    } catch (error) {
      if (!(error instanceof EngineError && error.code === 'refused')) throw error;
    }
  }
  return [...doomed].filter(id => !gone.has(id));
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
