import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry, RunStarted } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { isChangedRun, type Page, type RunRecord, type Store } from '../../protocol/store.ts';
import { runSoon } from '../host/host.ts';
import type { WrittenBy } from '../versions/compare-versions.ts';
import { assertReadable } from '../versions/version-mismatch.ts';

/**
 * Reads journals page by page. A journal may be long, and a process that drives runs has to renew its leases:
 * other work gets its turn between the pages. A redaction that commits between two pages would leave what it redacted in
 * the first: who folds or copies what it reads asks for pages of one journal, and reads it again otherwise.
 */

export type JournalStore = Pick<Store, 'get' | 'read' | 'readJson'>;

const PAGE: Page = { entries: 256, chars: 256 * 1024 };

/** Pages read before the event loop gets a turn: a short journal needs none. */
const PAGES_AT_ONCE = 2;

/** Which entries to read: those after `last` may be left out. `redactions` as in `Page`. */
export type EntrySpan = { last?: number | undefined; redactions?: number | undefined };

/** The entries after seq `after`, page by page. Throws `journal-damaged`, or `chart-mismatch` if another version wrote them. */
export async function* readPages(
  store: JournalStore,
  runId: string,
  after = 0,
  { last = Number.POSITIVE_INFINITY, redactions }: EntrySpan = {},
): AsyncGenerator<JournalEntry[], void> {
  let seq = after;
  for (let pages = 0; seq < last; pages += 1) {
    if (pages >= PAGES_AT_ONCE) await yieldToEventLoop();
    const page = await readPage(store, runId, seq, omitUndefined({ redactions }));
    if (page.length > 0) yield page;
    seq = page.at(-1)?.seq ?? last;
  }
}

/** The first page after seq `after`; empty at the end of the journal. Throws like `readPages`. */
export async function readPage(
  store: JournalStore,
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

/** All entries after seq `after`, of one journal. Throws like `readPages`. */
export async function readJournal(store: JournalStore, runId: string, after = 0): Promise<JournalEntry[]> {
  return await readUnredacted(store, runId, async span => {
    const entries: JournalEntry[] = [];
    for await (const page of readPages(store, runId, after, span)) entries.push(...page);
    return entries;
  });
}

/**
 * Calls `read` again while redactions commit meanwhile. Nothing that it reads is older than the span it is given. A record
 * that `isOld` is read again, once.
 */
export async function readUnredacted<Result>(
  store: Pick<Store, 'get'>,
  runId: string,
  read: (span: EntrySpan, record: RunRecord | undefined) => Promise<Result>,
  isOld: (record: RunRecord) => boolean = () => false,
): Promise<Result> {
  for (;;) {
    let record = await store.get(runId);
    if (record !== undefined && isOld(record)) record = await store.get(runId);
    try {
      return await read({ last: record?.seq, redactions: record?.redactions }, record);
    } catch (error) {
      if (!isChangedRun(error)) throw error;
    }
  }
}

function yieldToEventLoop(): Promise<void> {
  return new Promise(resolve => runSoon(resolve));
}

/** The unvalidated `run.started`; `undefined` for a run from another store. Throws `journal-damaged` for another entry 1. */
export async function readStart(store: JournalStore, runId: string): Promise<JsonObject | undefined> {
  const [first] = (await store.readJson?.(runId, 1)) ?? (await store.read(runId, 0, { ...PAGE, entries: 1 }));
  if (first?.seq !== 1) return undefined;
  const { event } = first;
  if (isJsonObject(event) && event.type === 'run.started') return event;
  throw damagedJournal(runId, 1, 'is not run.started');
}

/** The format and chart version in an unvalidated `run.started`, for `compareJournal`. */
export function writerOfStart({ format, chart }: JsonObject): WrittenBy {
  return { format, chart } as WrittenBy;
}

export type WholeJournal = [JournalEntry & { event: RunStarted }, ...JournalEntry[]];

/** Throws `refused` for a run whose store has only the entries after a snapshot. `verb` begins the advice, such as `Fork`. */
export async function readFromStart(store: JournalStore, runId: string, verb: string): Promise<WholeJournal> {
  const [first, ...rest] = await readJournal(store, runId);
  if (first !== undefined && isStart(first)) return [first, ...rest];
  if (first?.seq === 1) throw damagedJournal(runId, 1, 'is not run.started');
  throw describeRestored(runId, verb, first?.seq);
}

/** Returns the error for driving a run that was migrated: its successor continues it. */
export function describeMigrated(runId: string): EngineError {
  return new EngineError(
    'refused',
    `Run ${runId} was migrated and is no longer driven. The last note in its journal names the run that continues it.`,
    { runId },
  );
}

/** The error for a run that was restored from a snapshot; `since` is the first seq that the store has. */
export function describeRestored(runId: string, verb: string, since: number | undefined): EngineError {
  const kept = since === undefined ? 'none of its entries' : `only its entries from ${since} on`;
  return new EngineError(
    'refused',
    `Run ${runId} was restored from a snapshot: this store has ${kept}. ${verb} it in the store where it began.`,
    { runId },
  );
}

function isStart(entry: JournalEntry): entry is JournalEntry & { event: RunStarted } {
  return entry.seq === 1 && entry.event.type === 'run.started';
}

/** The error for a journal that this engine cannot have written; `problem` continues "entry n …". */
export function damagedJournal(runId: string, seq: number, problem: string): EngineError {
  return new EngineError(
    'journal-damaged',
    `The journal of run ${runId} is damaged: entry ${seq} ${problem}.`,
    { runId, seq },
  );
}
