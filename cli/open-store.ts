import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { callsEnded, countRunningCalls } from '../engine/services/running-calls.ts';
import { EngineError } from '../protocol/error.ts';
import type { Store } from '../protocol/store.ts';
import { sqlite } from '../stores/sqlite.ts';

export const DEFAULT_STORE = '.agentchart/runs.db';

/** The file `--db` names, else `AGENTCHART_DB`, else the default. */
export function storeFile(db: string | undefined): string {
  return db ?? (process.env.AGENTCHART_DB || DEFAULT_STORE);
}

/**
 * Runs `work` on the store in `file` and closes it, whatever happens: at once, or when the calls that timed out
 * and still run here have ended, so that what they give is kept. They keep the process alive, not this.
 */
export async function withStore<Result>(
  file: string,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  const store = sqlite(file);
  try {
    return await work(store);
  } finally {
    const close = () => store.close().catch(() => {});
    if (countRunningCalls() === 0) await close();
    else void callsEnded().then(close);
  }
}

/** `withStore` for runs that exist: a file that does not is not made, and has no runs. */
export async function withExistingStore<Result>(
  file: string,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  if (existsSync(file)) return await withStore(file, work);
  throw new EngineError(
    'run-unknown',
    `There are no runs: ${resolve(file)} does not exist. Name the file with --db or AGENTCHART_DB.`,
  );
}
