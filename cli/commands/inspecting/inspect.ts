import { READER } from '../../../access/caller.ts';
import type { Store } from '../../../protocol/store.ts';
import { createRunsApp } from '../../../server/app.ts';
import { nonDrivingStore } from '../../../stores/non-driving-store.ts';
import { pageAssets } from '../../../visualizer/page-assets.ts';
import { EXIT } from '../../exit-codes.ts';
import { findRun } from '../../find-run.ts';
import { watchInterrupts } from '../../interrupts.ts';
import { bareAgent } from '../../launch.ts';
import { storeFile, withExistingStore } from '../../open-store.ts';
import { readPort } from '../../options.ts';
import { Output } from '../../render/output.ts';
import { makeTest } from '../export.ts';
import { listen } from '../fronts/listen.ts';
import { ServerLog } from '../serving/serve-log.ts';
import { loadExport } from './load-export.ts';
import { isFile } from './read-export-file.ts';

export type InspectOptions = { db?: string; json?: boolean; port: string; version: string };

/**
 * Implements `agentchart inspect`: serves the debugger for an exported file, or for a run of a store, on this machine
 * only, until SIGINT or SIGTERM. It drives nothing and takes no commands.
 */
export async function inspect(named: string, options: InspectOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  if (!isFile(named))
    return await withExistingStore(storeFile(options.db), async store =>
      serveReadOnly(nonDrivingStore(store), (await findRun(store, named)).runId, options, output),
    );
  const { store, runId, problem } = await loadExport(named);
  if (problem !== undefined) output.problem(`The file is not as it was exported: ${problem}.`);
  return await serveReadOnly(store, runId, options, output);
}

async function serveReadOnly(
  store: Store,
  runId: string,
  { port, version }: InspectOptions,
  output: Output,
): Promise<number> {
  const log = new ServerLog('text');
  const assets = await pageAssets();
  const app = createRunsApp({
    store,
    version,
    assets,
    agents: new Map(),
    anyone: READER,
    fallbackAgentFor: record => bareAgent(record, store),
    exportTest: (from, id) => makeTest(from, id, version),
    log: line => log.problem(line),
  });
  const serving = await listen(app, { host: '127.0.0.1', port: readPort(port) }, log);
  if (serving === null) return EXIT.failed;
  const interrupted = new Promise<void>(first => {
    watchInterrupts({ first: () => first(), again: () => process.exit(EXIT.left) });
  });
  const url = `${serving.url}/runs/${encodeURIComponent(runId)}`;
  if (output.json) output.data({ runId, url });
  else output.line(url);
  output.problem('Read-only. Press Ctrl-C to stop.');
  await interrupted;
  await serving.close();
  return EXIT.done;
}
