import { EngineError } from '../protocol/error.ts';
import type { JournalEntry } from '../protocol/event.ts';
import { isJsonObject, type JsonObject } from '../protocol/json.ts';
import type { Store } from '../protocol/store.ts';
import type { WrittenBy } from './compare-versions.ts';
import { assertReadable } from './version-mismatch.ts';

/**
 * The entries behind `after`. A journal with words that this program does not know is refused with
 * `chart-mismatch` where its start says that another one wrote it, else with `journal-damaged`.
 */
export async function readJournal(store: Store, runId: string, after = 0): Promise<JournalEntry[]> {
  try {
    return await store.read(runId, after);
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'journal-damaged') throw error;
    const start = await readStart(store, runId).catch(() => undefined);
    if (start !== undefined) assertReadable(runId, writerOfStart(start));
    throw error;
  }
}

/** A `run.started` in words that may be another release's; `undefined` for a run that came from another store. */
export async function readStart(store: Store, runId: string): Promise<JsonObject | undefined> {
  const [first] = (await store.readJson?.(runId, 1)) ?? (await store.read(runId));
  if (first?.seq !== 1) return undefined;
  const { event } = first;
  if (isJsonObject(event) && event.type === 'run.started') return event;
  throw new EngineError(
    'journal-damaged',
    `The journal of run ${runId} is damaged: entry 1 is not run.started.`,
    { runId, seq: 1 },
  );
}

/** What a start says, whatever that is: `compareJournal` looks at it. */
export function writerOfStart({ format, chart }: JsonObject): WrittenBy {
  return { format, chart } as WrittenBy;
}
