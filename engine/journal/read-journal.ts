import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry, RunStarted } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { Page, Store } from '../../protocol/store.ts';
import type { WrittenBy } from '../versions/compare-versions.ts';
import { assertReadable } from '../versions/version-mismatch.ts';

/**
 * Reading a journal for someone. A journal may be long, and a process that drives runs has leases to renew:
 * it is read by pages, and other work gets its turn between them.
 */

/** A few ms of work. */
const PAGE: Page = { entries: 256, chars: 256 * 1024 };

/** So many pages are read at a stretch: a short journal costs no turn of the event loop. */
const PAGES_AT_ONCE = 2;

/**
 * The entries behind `after`, page by page; those behind `last` may be left out. A journal with words that this
 * program does not know is refused with `chart-mismatch` where its start says that another one wrote it, else
 * with `journal-damaged`.
 */
export async function* readPages(
  store: Store,
  runId: string,
  after = 0,
  last = Number.POSITIVE_INFINITY,
): AsyncGenerator<JournalEntry[], void> {
  let seq = after;
  for (let pages = 0; seq < last; pages += 1) {
    if (pages >= PAGES_AT_ONCE) await giveWay();
    const page = await readPage(store, runId, seq);
    if (page.length > 0) yield page;
    seq = page.at(-1)?.seq ?? last;
  }
}

/** The first page behind `after`; empty at the end. Throws what `readPages` throws. */
export async function readPage(
  store: Store,
  runId: string,
  after: number,
  bounds: Partial<Page> = {},
): Promise<JournalEntry[]> {
  try {
    return await store.read(runId, after, { ...PAGE, ...bounds });
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'journal-damaged') throw error;
    const start = await readStart(store, runId).catch(() => undefined);
    if (start !== undefined) assertReadable(runId, writerOfStart(start));
    throw error;
  }
}

/** All entries behind `after`, read by pages. Throws what `readPages` throws. */
export async function readJournal(store: Store, runId: string, after = 0): Promise<JournalEntry[]> {
  const entries: JournalEntry[] = [];
  for await (const page of readPages(store, runId, after)) entries.push(...page);
  return entries;
}

/** Lets whatever else is due in this process happen first. */
export function giveWay(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve));
}

/** A `run.started` in words that may be another release's; `undefined` for a run that came from another store. */
export async function readStart(store: Store, runId: string): Promise<JsonObject | undefined> {
  const [first] = (await store.readJson?.(runId, 1)) ?? (await store.read(runId, 0, { ...PAGE, entries: 1 }));
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

/** The error for a journal that cannot be this engine's; `problem` continues "entry n …". */
export function damagedJournal(runId: string, seq: number, problem: string): EngineError {
  return new EngineError(
    'journal-damaged',
    `The journal of run ${runId} is damaged: entry ${seq} ${problem}.`,
    {
      runId,
      seq,
    },
  );
}
