import { EngineError } from '../protocol/error.ts';
import type { JournalEntry, RunStarted } from '../protocol/event.ts';
import type { Store } from '../protocol/store.ts';
import { readJournal } from './read-journal.ts';

/** A journal that begins with the start of its run. */
export type WholeJournal = [JournalEntry & { event: RunStarted }, ...JournalEntry[]];

/**
 * The whole journal of a run. Throws `refused` for a run that was restored from a snapshot, of which the
 * store has only what came later; `what` begins the advice, such as `Fork`.
 */
export async function readFromStart(store: Store, runId: string, what: string): Promise<WholeJournal> {
  const [first, ...rest] = await readJournal(store, runId);
  if (first !== undefined && isStart(first)) return [first, ...rest];
  if (first?.seq === 1) {
    throw new EngineError(
      'journal-damaged',
      `The journal of run ${runId} is damaged: entry 1 is not run.started.`,
      { runId, seq: 1 },
    );
  }
  throw describeRestored(runId, what, first?.seq);
}

/** The error for a run of which the store has only what came behind a snapshot: its entries from `since` on. */
export function describeRestored(runId: string, what: string, since: number | undefined): EngineError {
  const kept = since === undefined ? 'none of its entries' : `its entries from ${since} on`;
  return new EngineError(
    'refused',
    `Run ${runId} was restored from a snapshot: this store has ${kept}. ${what} it in the store where it began.`,
    { runId },
  );
}

function isStart(entry: JournalEntry): entry is JournalEntry & { event: RunStarted } {
  return entry.seq === 1 && entry.event.type === 'run.started';
}
