import { READER } from '../../access/caller.ts';
import { beginFold, foldEntry, standingAt, wordsFor } from '../../engine/journal/load-run.ts';
import { replayExport } from '../../engine/replay/replay-export.ts';
import { EngineError } from '../../protocol/error.ts';
import { blobsOf, type JournalEntry, type RunStarted, runEventSchema } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { createRunsApp } from '../../server/app.ts';
import { memory } from '../../stores/memory.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { bareAgent } from '../launch.ts';
import { readVersion } from '../options.ts';
import { untilInterrupted } from '../process-end.ts';
import { Output } from '../render/output.ts';
import { withRun } from '../store.ts';
import { makeTest } from './export.ts';
import { isFile, readExportFile } from './read-export-file.ts';
import { listen, ServerLog } from './serving.ts';

export const inspect: Action<'inspect'> = async options => {
  const { run, port } = options;
  if (!isFile(run))
    return await withRun(options, async ({ store, output, record }) =>
      serveReadOnly(nonDrivingStore(store), record.runId, port, output),
    );
  const output = new Output(options);
  const { store, runId, problem } = await loadExport(run);
  if (problem !== undefined) output.problem(`The file is not as it was exported: ${problem}.`);
  return await serveReadOnly(store, runId, port, output);
};

async function serveReadOnly(store: Store, runId: string, port: number, output: Output): Promise<number> {
  const log = new ServerLog('text');
  const assets = await pageAssets();
  const app = createRunsApp({
    store,
    version: readVersion(),
    assets,
    agents: new Map(),
    anyone: READER,
    fallbackAgentFor: record => bareAgent(record, store),
    exportTest: makeTest,
    log: log.problem,
  });
  const serving = await listen(app, { host: '127.0.0.1', port }, log);
  if (serving === null) return EXIT.failed;
  const interrupted = untilInterrupted();
  const url = `${serving.url}/runs/${encodeURIComponent(runId)}`;
  output.tell({ runId, url }, url);
  output.problem('Read-only. Press Ctrl-C to stop.');
  await interrupted;
  await serving.close();
  return EXIT.done;
}

/** An exported run in a store of its own. `problem`: how the file differs from what was exported. */
type LoadedExport = { store: Store; runId: string; problem?: string };

/** Loads an export into memory. Throws `input-invalid`, and `chart-mismatch` for one of another version. */
export async function loadExport(file: string): Promise<LoadedExport> {
  const texts = new Map<string, string[]>();
  const { exported, blobs } = await readExportFile(file, ({ blob, text }) => {
    texts.set(blob, [...(texts.get(blob) ?? []), text]);
  });
  const store = memory();
  for (const { run, journal } of [...(exported.chain ?? []), exported]) {
    const entries = journal.map(({ seq, event }) => readEntry(file, seq, event));
    await loadJournal(store, run.runId, entries, file);
    for (const { digest } of entries.flatMap(({ event }) => blobsOf(event)))
      await store.putBlob(run.runId, digest, texts.get(digest)?.join('') ?? '');
  }
  const { problem } = replayExport(exported, () => {}, { until: undefined, blobs });
  const { runId } = exported.run;
  return {
    store,
    runId,
    ...(problem !== undefined && { problem: `entry ${problem.seq} ${problem.message}` }),
  };
}

async function loadJournal(
  store: Store,
  runId: string,
  entries: readonly JournalEntry[],
  file: string,
): Promise<void> {
  const [first, ...rest] = entries;
  if (first?.event.type !== 'run.started' || first.event.runId !== runId)
    throw invalid(file, 1, `is not the start of run ${runId}`);
  const started: RunStarted = first.event;
  let state = beginFold(started);
  for (const entry of rest) state = foldEntry(state, entry, runId);
  await store.create(started, undefined, {
    events: rest.map(({ event }) => event),
    ...standingAt(state, entries.length),
    ...wordsFor(entries.map(({ event }) => event)),
  });
}

function readEntry(file: string, seq: number, event: unknown): JournalEntry {
  const parsed = runEventSchema.safeParse(event);
  if (parsed.success) return { seq, event: parsed.data };
  throw invalid(file, seq, 'is not an event that this version knows');
}

function invalid(file: string, seq: number, problem: string): EngineError {
  return new EngineError('input-invalid', `Cannot inspect ${file}: entry ${seq} ${problem}.`, { file, seq });
}
