import { EngineError } from '../protocol/error.ts';
import type { RunRecord } from '../protocol/store.ts';
import { describeDamage } from './journal-text.ts';
import type { Lease } from './lease.ts';

/** The error for a run a store does not have. */
export function missingRun(runId: string): EngineError {
  return new EngineError('run-unknown', `No run has the id "${runId}" in this store. List the runs it has.`, {
    runId,
  });
}

/** The error for a run that is begun twice. */
export function existingRun(runId: string): EngineError {
  return new EngineError(
    'run-exists',
    `A run with the id "${runId}" exists already. Open it, or start one with a new id.`,
    { runId },
  );
}

/** The error for a run that cannot be removed or redacted while a process drives it; `what` is one of the two. */
export function drivenRun(runId: string, { owner, until }: Lease, what: string): EngineError {
  return new EngineError(
    'refused',
    `Run "${runId}" is driven by process ${owner.pid} on ${owner.host}, so that it cannot be ${what}. Cancel it, or wait until it rests; then try again.`,
    { runId, pid: owner.pid, until },
  );
}

/** The error for every call after `close`. */
export function closedStore(): EngineError {
  return new EngineError('store-unavailable', 'The store is closed. Open it again to use it.');
}

/**
 * The runs that `runId` continues, oldest first, itself last. Throws `run-unknown` for a link that
 * is missing and `journal-damaged` for a run that continues itself.
 */
export function followChain(runId: string, get: (runId: string) => RunRecord | undefined): RunRecord[] {
  const chain: RunRecord[] = [];
  const seen = new Set<string>();
  for (let next: string | undefined = runId; next !== undefined; ) {
    if (seen.has(next)) throw describeDamage(next, 1, 'continues a run that continues this one');
    seen.add(next);
    const record = get(next);
    if (record === undefined) throw missingRun(next);
    chain.push(record);
    next = record.continues;
  }
  return chain.reverse();
}
