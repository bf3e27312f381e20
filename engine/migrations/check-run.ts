import { hasEnded } from '../../machines/status.ts';
import { EngineError } from '../../protocol/error.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { loadRun, readImage, writerOf } from '../journal/load-run.ts';
import { readPage, readStart, writerOfStart } from '../journal/read-journal.ts';
import {
  compareAgents,
  compareJournal,
  type PresentAgent,
  type VersionReport,
  type WrittenBy,
} from '../versions/compare-versions.ts';
import { type JournalMigration, versionsOf } from '../versions/migrate-journal.ts';
import { adviseOn } from '../versions/version-mismatch.ts';

/**
 * Reports the compatibility of a stored run with this program and, if given, with the agent `present`. Writes nothing.
 * Throws `run-unknown`, and `journal-damaged` for a journal that no program can read.
 */
export async function checkRun(
  store: Store,
  runId: string,
  present?: PresentAgent,
  migrations: readonly JournalMigration[] = [],
): Promise<VersionReport> {
  const start = await readStart(store, runId);
  const written = start === undefined ? await readWriter(store, runId) : writerOfStart(start);
  const journalReport = compareJournal(runId, written);
  const report =
    journalReport.opens && present !== undefined ? await compareWith(store, runId, present) : journalReport;
  const successor = successorOf(runId);
  const isMigrated = (await store.get(successor)) !== undefined;
  const full = { ...report, ...(isMigrated && { migratedTo: successor }) };
  const from = versionsOf(start ?? (toJson(written) as JsonObject));
  return { ...full, ...omitUndefined({ advice: adviseOn(full, from, migrations) }) };
}

/** Returns the id of the run's successor. It depends only on the run's id, so that no run is migrated twice. */
export function successorOf(runId: string): string {
  const [, base = runId, count = '1'] = /^(.*)_m(\d+)$/.exec(runId) ?? [];
  return `${base}_m${Number(count) + 1}`;
}

async function readWriter(store: Store, runId: string): Promise<WrittenBy> {
  const snapshot = await store.loadSnapshot(runId);
  if (snapshot !== undefined) return writerOf(readImage(snapshot.state, runId));
  throw new EngineError('journal-damaged', `The journal of run ${runId} is empty.`, { runId, seq: 1 });
}

async function compareWith(store: Store, runId: string, present: PresentAgent): Promise<VersionReport> {
  const { state } = await loadRun(store, runId);
  const { agent, config, calls } = state.context;
  const openCalls = hasEnded(state) ? [] : calls.filter(({ status }) => status !== 'settled');
  const [first] = await readPage(store, runId, 0, { entries: 1 });
  const tools = first?.event.type === 'run.started' ? first.event.tools : undefined;
  const recorded = { agent, models: config.models, openCalls, ...omitUndefined({ tools }) };
  // A fork on another model uses that one, whatever the agent's own models are.
  const { models } = config.forkModel === undefined ? present : config;
  return await compareAgents(runId, recorded, { ...present, models });
}
