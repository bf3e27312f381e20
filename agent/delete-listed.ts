import { type Host, POLL_MS, sleep } from '../engine/host/host.ts';
import { isOwnerDead } from '../engine/host/owner.ts';
import { EngineError, isThrown } from '../protocol/error.ts';
import { isJsonObject } from '../protocol/json.ts';
import { isDriven, isOpen, type ListFilter, listAll, type RunRecord, type Store } from '../protocol/store.ts';

export type Deletion = {
  store: Store;
  host: Host;
  /** Resolves once the run has ended, or cannot be cancelled. */
  cancel(record: RunRecord): Promise<void>;
  /** Deletes of these runs those that it can, and adds their ids. Returns the errors of the others. */
  remove(records: readonly RunRecord[], gone: Set<string>): Promise<EngineError[]>;
};

/** How long it keeps trying while nothing more can be deleted, in ms. */
const PATIENCE_MS = 60_000;

/**
 * Deletes until no run matches, then rewrites the files of the store. Cancels what is driven, and waits for it. Returns the
 * ids. Throws what `remove` returns if nothing could be deleted for a minute.
 */
export async function deleteListed(
  filter: ListFilter,
  { store, host, cancel, remove }: Deletion,
): Promise<string[]> {
  const gone = new Set<string>();
  for (let until = host.now() + PATIENCE_MS; ; ) {
    const records: RunRecord[] = [];
    for await (const record of listAll(store, filter)) records.push(record);
    if (records.length === 0) break;
    const before = gone.size;
    const errors = await remove(records, gone);
    if (gone.size > before) {
      until = host.now() + PATIENCE_MS;
      continue;
    }
    const [error] = errors;
    if (error !== undefined && host.now() > until) throw error;
    const driven = records.filter(record => isDriven(record, host.now(), isOwnerDead));
    const tops = new Map<string, RunRecord>();
    for (const runId of [...driven.map(({ runId }) => runId), ...errors.flatMap(runIn)]) {
      const top = await findTop(store, runId);
      if (top !== undefined) tops.set(top.runId, top);
    }
    await Promise.all([...tops.values()].map(cancel));
    await sleep(host, POLL_MS);
  }
  await store.purge?.();
  return [...gone];
}

/** Deletes the runs and all that needs them in one commit. Returns why it did not. */
export async function tryDelete(
  { store, host }: Pick<Deletion, 'store' | 'host'>,
  runIds: string | readonly string[],
  gone: Set<string>,
): Promise<EngineError[]> {
  try {
    const options = { cascade: true, now: host.now(), isDead: isOwnerDead };
    for (const id of await store.delete(runIds, options)) gone.add(id);
    return [];
  } catch (error) {
    if (isThrown(error, EngineError) && (error.code === 'refused' || error.code === 'run-unknown'))
      return [error];
    throw error;
  }
}

/** The run that an error of a deletion is about. */
function runIn({ details }: EngineError): string[] {
  return isJsonObject(details) && typeof details.runId === 'string' ? [details.runId] : [];
}

/** The run to cancel for one that is driven: it, or the run above that waits for it and would continue without it. */
async function findTop(store: Store, runId: string): Promise<RunRecord | undefined> {
  const record = await store.get(runId);
  if (record?.parent === undefined) return record;
  const above = await findTop(store, record.parent.runId);
  return above !== undefined && isOpen(above) ? above : record;
}
