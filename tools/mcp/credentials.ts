import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { codeOf, EngineError, messageOf } from '../../protocol/error.ts';

type Entries = {
  get(key: string): Promise<string | null | undefined>;
  /** Replaces the value; `null` deletes it. */
  set(key: string, value: string | null): Promise<void>;
};

/**
 * Where `mcp()` keeps the tokens of people who signed in: one text for each server and user. Every value is a secret.
 *
 * `exclusively` runs `work` while no other process runs one on the same store, and makes what `work` sets permanent even
 * if it throws. Without it, only the sources of this process wait for each other: two processes can then use one
 * refresh token twice, which authorization servers answer by ending the grant.
 */
export type CredentialStore = Entries & {
  exclusively?<Result>(work: (entries: Entries) => Promise<Result>): Promise<Result>;
};

/** How long `exclusively` waits for another process, in ms. Longer than a refresh takes. */
const PATIENCE_MS = 60_000;
const POLL_MS = 20;
const BUSY_MS = 2_000;

/**
 * The credentials of this machine's user in a SQLite file, which only that user can read (mode 600). Processes can share
 * it: a change is a transaction, and a process that is killed leaves no lock. Deleted values are overwritten.
 * Default: `credentials.db` in `$AGENTCHART_HOME`, or in `~/.agentchart`. The file is created by the first `set`.
 * Its methods reject with `store-unavailable` if the file cannot be used.
 */
export function credentialsFile(path?: string): CredentialStore {
  const file = path ?? join(process.env.AGENTCHART_HOME || join(homedir(), '.agentchart'), 'credentials.db');

  async function within<Result>(use: (db: DatabaseSync) => Result | Promise<Result>): Promise<Result> {
    let db: DatabaseSync;
    try {
      db = open(file);
    } catch (error) {
      throw unusable(file, error);
    }
    try {
      return await use(db);
    } finally {
      db.close();
    }
  }

  async function exclusively<Result>(work: (entries: Entries) => Promise<Result>): Promise<Result> {
    return await within(async db => {
      await begin(db, file);
      try {
        return await work({
          get: async key => read(db, key),
          set: async (key, value) => write(db, key, value),
        });
      } finally {
        db.exec('COMMIT');
      }
    });
  }

  return {
    get: async key => (existsSync(file) ? await within(db => read(db, key)) : null),
    set: async (key, value) => await exclusively(entries => entries.set(key, value)),
    exclusively,
  };
}

const waiting = new WeakMap<CredentialStore, Promise<unknown>>();

/** Runs `work` alone: among all processes if the store can, else among the sources of this process. */
export async function exclusively<Result>(
  store: CredentialStore,
  work: (entries: Entries) => Promise<Result>,
): Promise<Result> {
  if (store.exclusively !== undefined) return await store.exclusively(work);
  const before = waiting.get(store);
  const mine = (async () => {
    await before?.catch(() => {});
    return await work(store);
  })();
  waiting.set(store, mine);
  return await mine;
}

function open(file: string): DatabaseSync {
  const sqlite = process.getBuiltinModule('node:sqlite');
  if (sqlite === undefined) throw new Error('node:sqlite is missing; use Node 22.13 or later');
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  closeSync(openSync(file, 'a', 0o600));
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  const db = new sqlite.DatabaseSync(file);
  try {
    db.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    db.exec('PRAGMA secure_delete = ON');
    db.exec('CREATE TABLE IF NOT EXISTS credentials (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT');
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Polls, because SQLite itself would block the process while it waits. */
async function begin(db: DatabaseSync, file: string): Promise<void> {
  const until = performance.now() + PATIENCE_MS;
  db.exec('PRAGMA busy_timeout = 0');
  for (;;) {
    try {
      db.exec('BEGIN IMMEDIATE');
      break;
    } catch (error) {
      if (!isBusy(error) || performance.now() > until) throw unusable(file, error);
      await pause(POLL_MS);
    }
  }
  db.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
}

/** Source: https://www.sqlite.org/rescode.html#busy */
function isBusy(error: unknown): boolean {
  return codeOf(error) === 'ERR_SQLITE_ERROR' && /locked/.test(messageOf(error));
}

function read(db: DatabaseSync, key: string): string | null {
  const value = db.prepare('SELECT value FROM credentials WHERE key = ?').get(key)?.value;
  return typeof value === 'string' ? value : null;
}

function write(db: DatabaseSync, key: string, value: string | null): void {
  if (value === null) db.prepare('DELETE FROM credentials WHERE key = ?').run(key);
  else db.prepare('INSERT OR REPLACE INTO credentials (key, value) VALUES (?, ?)').run(key, value);
}

function unusable(file: string, error: unknown): EngineError {
  return new EngineError(
    'store-unavailable',
    `the credentials file ${file} cannot be used: ${messageOf(error)}. Check its permissions, or delete it and sign in again; AGENTCHART_HOME names another folder.`,
    { file },
  );
}
