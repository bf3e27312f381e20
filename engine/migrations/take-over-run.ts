import { EngineError } from '../../protocol/error.ts';
import {
  isChangedRun,
  isOpen,
  listAll,
  type Owner,
  type RunRecord,
  type Store,
} from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import type { JournalMigration } from '../versions/migrate-journal.ts';
import { migrateRun, successorOf } from './migrate-run.ts';

type TakeOverParts = {
  store: Store;
  host: Host;
  owner: Owner;
  isDead(owner: Owner): boolean;
  migrations: readonly JournalMigration[];
};

/** How long the old runs are claimed for: longer than a migration takes, in ms. */
const CLAIM_MS = 60_000;

type Claimed = { runId: string; epoch: number; seq: number };

/**
 * Migrates a run that no process drives, with the child runs that it waits for, and ends the old runs in the same
 * commit, so that at any time one of the two may be driven. Each old run is claimed first, so that no process drives it
 * meanwhile. Returns the id of the successor; `null`, without a migration, if one of the runs is driven, has ended or
 * changes meanwhile. Throws the errors of `migrateRun`.
 */
export async function takeOverRun(parts: TakeOverParts, runId: string): Promise<string | null> {
  const { store, host, owner, isDead } = parts;
  const claimed: Claimed[] = [];
  try {
    for (const old of [runId, ...(await openBelow(store, runId))]) {
      const request = { owner, isDead, now: host.now(), leaseMs: CLAIM_MS, unlessEnded: true };
      const claim = await store.claim(old, request);
      if (claim.type !== 'claimed') return null;
      claimed.push({ runId: old, epoch: claim.epoch, seq: claim.seq });
    }
    const successor = successorOf(runId);
    const isDriven = (other: Owner) => other.id === owner.id || isDead(other);
    if ((await store.get(successor)) === undefined) {
      const beside = claimed.map(({ seq, ...old }) => ({ ...old, after: seq, status: 'cancelled' as const }));
      await migrateRun({ ...parts, isDead: isDriven, beside }, runId);
    }
    // The run at the top last: it may be found again, and the others below it.
    for (const old of claimed.toReversed()) await noteEnd(parts, old, successor);
    return successor;
  } catch (error) {
    if (isChangedRun(error)) return null;
    throw error;
  } finally {
    for (const { runId: old, epoch } of claimed) await store.release(old, epoch);
  }
}

async function openBelow(store: Store, parent: string): Promise<string[]> {
  const below: RunRecord[] = [];
  for await (const record of listAll(store, { parent })) if (isOpen(record)) below.push(record);
  const further = await Promise.all(below.map(({ runId }) => openBelow(store, runId)));
  return [...below.map(({ runId }) => runId), ...further.flat()];
}

/** Writes a note only, because this program may not know how to fold the journal, and ends the run. */
async function noteEnd(
  { store, host }: TakeOverParts,
  { runId, epoch, seq }: Claimed,
  successor: string,
): Promise<void> {
  const said = { by: 'agentchart', note: { migratedTo: successor } };
  const note = { type: 'run.noted', at: host.now(), ...said } as const;
  const guard = { after: seq, epoch, redactions: (await store.get(runId))?.redactions ?? 0 };
  const { type } = await store.append(runId, guard, [note], { status: 'cancelled' });
  if (type === 'appended') return;
  const message = `Run ${runId} was migrated to ${successor}, but changed meanwhile. Compare both, and cancel one of them.`;
  throw new EngineError('refused', message, { runId, migratedTo: successor });
}
