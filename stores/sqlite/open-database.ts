import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { EngineError } from '../../protocol/error.ts';
import { loadSqlite } from './load-module.ts';
import { APPLICATION_ID, SCHEMA, SCHEMA_VERSION } from './schema.ts';

/**
 * Opens `file`, with its folder and tables made if they are missing. A commit is on disk when it
 * returns; a lock is waited for up to `busyTimeoutMs`. No handle stays open when it throws.
 */
export function openDatabase(file: string, busyTimeoutMs: number): DatabaseSync {
  const { DatabaseSync } = loadSqlite();
  mkdirSync(dirname(file), { recursive: true });
  const db = new DatabaseSync(file);
  try {
    db.exec(`PRAGMA busy_timeout = ${Math.max(0, Math.trunc(busyTimeoutMs))}`);
    db.exec('BEGIN DEFERRED');
    const known = isKnown(db, file);
    db.exec('COMMIT');
    if (readPragma(db, 'journal_mode') !== 'wal') db.exec('PRAGMA journal_mode = WAL');
    db.exec('PRAGMA synchronous = FULL');
    db.exec('PRAGMA foreign_keys = ON');
    if (!known) createTables(db, file);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function createTables(db: DatabaseSync, file: string): void {
  db.exec('BEGIN IMMEDIATE');
  if (!isKnown(db, file)) db.exec(SCHEMA);
  db.exec('COMMIT');
}

/**
 * Whether the tables are there; false for an empty database. Throws for one that is not ours to write.
 * Needs a transaction: another process may make the tables between two of its reads.
 */
function isKnown(db: DatabaseSync, file: string): boolean {
  const version = readPragma(db, 'user_version');
  const application = readPragma(db, 'application_id');
  if (application === APPLICATION_ID && version === SCHEMA_VERSION) return true;
  if (application === APPLICATION_ID) {
    throw new EngineError(
      'store-unavailable',
      `${file} has schema version ${version}; this version of agentchart reads ${SCHEMA_VERSION}. Open it with the version that wrote it, or name another file.`,
      { file, version: Number(version) },
    );
  }
  const tables = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get()?.count;
  if (tables === 0 && version === 0 && application === 0) return false;
  throw new EngineError(
    'store-unavailable',
    `${file} is a database of another program: expected an empty one or a store of runs. Name another file.`,
    { file },
  );
}

function readPragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
}
