import { EngineError } from '../protocol/error.ts';
import type { DeleteOptions, RunRecord } from '../protocol/store.ts';
import { readEvent } from './journal-text.ts';
import { isHeld, leaseOf } from './lease.ts';
import { drivenRun, missingRun } from './run-record.ts';

/** What a store tells of its runs to whoever plans a deletion. */
export type Kinship = {
  find(runId: string): Kin | undefined;
  childrenOf(runId: string): readonly string[];
  /** The runs that continue this one. */
  continuationsOf(runId: string): readonly string[];
  /** The runs that have not ended, with the runs of sub-agents that each waits for. */
  waiting(): Iterable<{ runId: string; awaited: ReadonlySet<string> }>;
};

type Kin = { record: RunRecord; parent: string | undefined };

/**
 * The runs that go when `runId` goes, itself first. A fork has copies and stays, unless it still waits for a run of
 * its original's sub-agent. Throws `run-unknown`, and `refused` as `Store.delete` says.
 */
export function planDeletion(
  kinship: Kinship,
  runId: string,
  { cascade = false, now = Date.now(), isDead = () => false }: DeleteOptions,
): string[] {
  const going = new Set([runId]);
  for (const id of going) {
    for (const childId of kinship.childrenOf(id)) going.add(childId);
    if (cascade) for (const later of kinship.continuationsOf(id)) going.add(later);
    if (cascade) for (const { runId: waiter } of findWaiters(kinship, going)) going.add(waiter);
  }
  for (const id of going) {
    const kin = kinship.find(id);
    if (kin === undefined) throw missingRun(id);
    const lease = leaseOf(kin.record);
    if (isHeld(lease, { now, isDead })) throw drivenRun(id, lease, 'deleted');
    assertUnneeded(kinship, id, kin, going);
  }
  const [waiter] = cascade ? [] : findWaiters(kinship, going);
  if (waiter !== undefined)
    throw stillNeeded(waiter.awaited, `run "${waiter.runId}" waits for it`, [waiter.runId]);
  return [...going];
}

/** A run with no sub-agent, that is none's, is awaited by nobody: then no journal is looked at. */
function findWaiters(kinship: Kinship, going: ReadonlySet<string>): { runId: string; awaited: string }[] {
  const sought = [...going].filter(id => kinship.find(id)?.parent !== undefined);
  if (sought.length === 0) return [];
  return [...kinship.waiting()].flatMap(({ runId, awaited }) => {
    const found = going.has(runId) ? undefined : sought.find(id => awaited.has(id));
    return found === undefined ? [] : [{ runId, awaited: found }];
  });
}

function assertUnneeded(kinship: Kinship, id: string, { parent }: Kin, going: ReadonlySet<string>): void {
  const above = parent === undefined || going.has(parent) ? undefined : kinship.find(parent);
  if (above !== undefined && isOpen(above.record))
    throw new EngineError(
      'refused',
      `Run "${id}" works for run "${parent}", which has not ended. Cancel or delete that one.`,
      { runId: id, parent: parent ?? null },
    );
  const later = kinship.continuationsOf(id).filter(other => !going.has(other));
  if (later.length > 0) throw stillNeeded(id, `it is continued by ${later.join(', ')}`, later);
}

export function isOpen({ status }: Pick<RunRecord, 'status'>): boolean {
  return status === 'running' || status === 'waiting';
}

function stillNeeded(runId: string, reason: string, by: string[]): EngineError {
  return new EngineError(
    'refused',
    `Run "${runId}" is still needed: ${reason}. Delete that first, or both with cascade.`,
    { runId, by },
  );
}

/** The runs of sub-agents that a journal waits for; `texts` are its entries in order. */
export function findAwaited(texts: Iterable<string>): ReadonlySet<string> {
  const byCall = new Map<string, string>();
  for (const text of texts) {
    const event = SAYS_SO.test(text) ? readEvent(text) : undefined;
    if (event?.type === 'tool.suspended') byCall.set(event.callId, event.childRunId);
    if (event?.type === 'result.received') byCall.delete(event.callId);
  }
  return new Set(byCall.values());
}

const SAYS_SO = /"(?:tool\.suspended|result\.received)"/;
