import { EngineError } from '../protocol/error.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { DeleteOptions, RunRecord } from '../protocol/store.ts';
import { readEvent } from './journal-text.ts';
import { isHeld, leaseOf } from './lease.ts';
import { drivenRun, isOpen, missingRun } from './run-record.ts';

/** The relations between the runs of a store, for planning a deletion. */
export type Kinship = {
  find(runId: string): Kin | undefined;
  childrenOf(runId: string): readonly string[];
  /** The runs that continue this one. */
  continuationsOf(runId: string): readonly string[];
  /** The runs that have not ended. */
  waiting(): Iterable<Waiting>;
};

/** A run that has not ended, and the ids of the child runs that it waits for. */
export type Waiting = { runId: string; awaited: ReadonlySet<string> };

type Kin = { record: RunRecord; parent: string | undefined };

const NAMES: NamesOf<DeleteOptions> = { cascade: true, now: true, isDead: true };

/**
 * Returns the ids of the runs to delete together with `runId`, its own first. A fork has copies and is kept, unless it
 * still waits for a child run of its original. Throws `run-unknown`, and `refused` as described for `Store.delete`.
 */
export function planDeletion(kinship: Kinship, runId: string, options: DeleteOptions): string[] {
  refuseUnknownOptions('store.delete', options, NAMES, 'input-invalid');
  const { cascade = false, now = Date.now(), isDead = () => false } = options;
  const doomed = new Set([runId]);
  for (const id of doomed) {
    for (const childId of kinship.childrenOf(id)) doomed.add(childId);
    if (cascade) for (const later of kinship.continuationsOf(id)) doomed.add(later);
    if (cascade) for (const { runId: waiter } of findWaiters(kinship, doomed)) doomed.add(waiter);
  }
  for (const id of doomed) {
    const kin = kinship.find(id);
    if (kin === undefined) throw missingRun(id);
    const lease = leaseOf(kin.record);
    if (isHeld(lease, { now, isDead })) throw drivenRun(id, lease, 'deleted');
    assertUnneeded(kinship, id, kin, doomed);
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

function assertUnneeded(kinship: Kinship, id: string, { parent }: Kin, doomed: ReadonlySet<string>): void {
  const above = parent === undefined || doomed.has(parent) ? undefined : kinship.find(parent);
  if (above !== undefined && isOpen(above.record))
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

/** Returns the ids of the child runs that a journal waits for; `texts` are its entries in order. */
export function findAwaited(texts: Iterable<string>): ReadonlySet<string> {
  const byCall = new Map<string, string>();
  for (const text of texts) {
    const event = RELEVANT.test(text) ? readEvent(text) : undefined;
    if (event?.type === 'tool.suspended') byCall.set(event.callId, event.childRunId);
    if (event?.type === 'result.received') byCall.delete(event.callId);
  }
  return new Set(byCall.values());
}

const RELEVANT = /"(?:tool\.suspended|result\.received)"/;
