import { existsSync } from 'node:fs';
import { callsEnded, countRunningCalls } from '../engine/host/running-calls.ts';
import { EngineError } from '../protocol/error.ts';
import { listAll, type RunRecord, type Store } from '../protocol/store.ts';
import { type PostgresOptions, postgres } from '../stores/postgres.ts';
import { sqlite } from '../stores/sqlite.ts';
import type { StoreOptions } from './command-table.ts';
import { storeFile } from './options.ts';
import { CommandLines } from './render/command-lines.ts';
import { formatStore, isDatabase } from './render/format.ts';
import { Output } from './render/output.ts';

export type OpenedStore = { store: Store; output: Output; commands: CommandLines };
export type FoundRun = OpenedStore & { record: RunRecord };

/** The options of commands about a run, named by its id or a unique prefix of it. */
export type OnRun = StoreOptions & { run: string };

/** Runs `work` on a store, then closes it once calls that timed out have ended, without waiting. */
export async function withStore<Result>(
  place: string | ({ file: string } & Pick<PostgresOptions, 'patienceMs' | 'warn'>),
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  const { file, ...options } = typeof place === 'string' ? { file: place } : place;
  const listen = process.env.AGENTCHART_DB_LISTEN;
  const store = isDatabase(file) ? postgres(file, { ...(listen && { listen }), ...options }) : sqlite(file);
  try {
    return await work(store);
  } finally {
    const close = () => store.close().catch(() => {});
    if (countRunningCalls() === 0) await close();
    else void callsEnded().then(close);
  }
}

/** As `withStore`, for the store of the options. Throws `run-unknown` instead of creating a file that does not exist. */
export async function withExistingStore<Result>(
  { db, json }: StoreOptions,
  work: (opened: OpenedStore) => Promise<Result>,
): Promise<Result> {
  const output = new Output({ json: json === true });
  const file = storeFile(db);
  if (!hasStore(file)) throw missingStore(file);
  return await withStore(file, store => work({ store, output, commands: new CommandLines(file) }));
}

export async function withRun<Result>(
  { run, ...options }: OnRun,
  work: (found: FoundRun) => Promise<Result>,
): Promise<Result> {
  return await withExistingStore(options, async opened =>
    work({ ...opened, record: await findRun(opened.store, run) }),
  );
}

export function hasStore(file: string): boolean {
  return isDatabase(file) || existsSync(file);
}

export function missingStore(file: string): EngineError {
  return new EngineError(
    'run-unknown',
    `No runs: ${formatStore(file)} does not exist. Give the file with --db or AGENTCHART_DB.`,
  );
}

const MAX_LISTED = 10;

/** Finds a run by its id or a unique prefix of it. Throws `run-unknown` for no match and for several. */
export async function findRun(store: Store, id: string): Promise<RunRecord> {
  const exact = await store.get(id);
  if (exact !== undefined) return exact;
  const matches: RunRecord[] = [];
  for await (const record of listAll(store, { onDamaged: () => {} }))
    if (id !== '' && record.runId.startsWith(id)) matches.push(record);
  const [only, second] = matches;
  if (only !== undefined && second === undefined) return only;
  if (only === undefined) {
    throw new EngineError('run-unknown', `No run matches ${id}. \`agentchart runs\` lists the runs.`);
  }
  const ids = matches.slice(0, MAX_LISTED).map(({ runId, status }) => `  ${runId}  ${status}`);
  const rest = matches.length > MAX_LISTED ? [`  … and ${matches.length - MAX_LISTED} more`] : [];
  throw new EngineError(
    'run-unknown',
    [`${matches.length} runs match ${id}; give more of the id:`, ...ids, ...rest].join('\n'),
  );
}
