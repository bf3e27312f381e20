import { existsSync } from 'node:fs';
import { callsEnded, countRunningCalls } from '../engine/services/running-calls.ts';
import { EngineError } from '../protocol/error.ts';
import type { Store } from '../protocol/store.ts';
import { type PostgresOptions, postgres } from '../stores/postgres.ts';
import { sqlite } from '../stores/sqlite.ts';
import { formatStore, isDatabase } from './render/format-path.ts';

export const DEFAULT_STORE = '.agentchart/runs.db';

/** Returns the store, a file or the address of a PostgreSQL database: `db` (the `--db` option), else `AGENTCHART_DB`, else the default. */
export function storeFile(db: string | undefined): string {
  return db ?? (process.env.AGENTCHART_DB || DEFAULT_STORE);
}

/**
 * Runs `work` on the store in this file, or at this address, then closes the store. If calls that timed out are still running, it is
 * closed once they have ended, so that their results are kept; this function does not wait for that.
 */
export async function withStore<Result>(
  place: string | ({ file: string } & Pick<PostgresOptions, 'patienceMs' | 'warn'>),
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  const { file, ...options } = typeof place === 'string' ? { file: place } : place;
  const store = isDatabase(file) ? postgres(file, { ...listenOptions(), ...options }) : sqlite(file);
  try {
    return await work(store);
  } finally {
    const close = () => store.close().catch(() => {});
    if (countRunningCalls() === 0) await close();
    else void callsEnded().then(close);
  }
}

/** As `withStore`, but throws `run-unknown` instead of creating a file that does not exist. */
export async function withExistingStore<Result>(
  file: string,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  if (hasStore(file)) return await withStore(file, work);
  throw missingStore(file);
}

/** Whether the store's file exists. A database is created on the first use of its tables. */
export function hasStore(file: string): boolean {
  return isDatabase(file) || existsSync(file);
}

/** Returns the error for a store file that does not exist. */
export function missingStore(file: string): EngineError {
  return new EngineError(
    'run-unknown',
    `No runs: ${formatStore(file)} does not exist. Give the file with --db or AGENTCHART_DB.`,
  );
}

/** Where a database behind a transaction pooler is listened to. */
function listenOptions(): { listen?: string } {
  const listen = process.env.AGENTCHART_DB_LISTEN;
  return listen ? { listen } : {};
}
