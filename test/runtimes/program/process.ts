import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { memory, type Store } from 'agentchart';
import { storeChecks } from 'agentchart/stores/conformance';
import { sqlite } from 'agentchart/stores/sqlite';
import { runChecks } from './checks.ts';
import { report } from './outcome.ts';

/** The program of runtimes that have processes and disks: prints the outcome of the checks, as JSON. */

const [provider = ''] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'agentchart-runtime-'));
let count = 0;

const files = new Map<Store, string>();

function openFile(file: string): Store {
  const store = sqlite(file);
  files.set(store, file);
  return store;
}

const openSqlite = async () => openFile(join(folder, `${count++}.db`));

async function reopenSqlite(store: Store): Promise<Store> {
  await store.close();
  return openFile(files.get(store) ?? '');
}

async function runAll(checks: ReturnType<typeof storeChecks>): Promise<void> {
  for (const { name, run } of checks) {
    try {
      await run();
    } catch (error) {
      throw new Error(name, { cause: error });
    }
  }
}

const outcome = {
  ...(await runChecks(provider)),
  'conformance of the memory store': await report(runAll(storeChecks({ open: async () => memory() }))),
  'conformance of the sqlite store': await report(
    runAll(storeChecks({ open: openSqlite, reopen: reopenSqlite })),
  ),
};
rmSync(folder, { recursive: true, force: true });
console.log(JSON.stringify(outcome));
process.exit();
