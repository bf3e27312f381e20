import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type * as Sqlite from 'node:sqlite';
import type { DatabaseSync } from 'node:sqlite';
import { EngineError } from '../../protocol/error.ts';
import { refuseRemains } from './opened-file.ts';
import { APPLICATION_ID, SCHEMA, type Schema, versionOf } from './schema.ts';
import { translateError } from './translate-error.ts';

/**
 * Opens `file`. Creates its folder and tables if they are missing, and takes tables of an older version through the steps
 * of the schema. A commit is on disk when it returns. SQLite itself never waits for a lock, because that would block the process. Deleted data is
 * overwritten if that costs no further write. No handle stays open when it throws.
 */
export function openDatabase(file: string, schema: Schema = SCHEMA): DatabaseSync {
  const { DatabaseSync } = loadSqlite();
  mkdirSync(dirname(file), { recursive: true });
  refuseRemains(file);
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 0');
    db.exec('PRAGMA cell_size_check = ON');
    db.exec('PRAGMA foreign_keys = OFF');
    db.exec('BEGIN DEFERRED');
    const found = identify(db, file, schema);
    db.exec('COMMIT');
    if (found === 'empty') db.exec('PRAGMA auto_vacuum = INCREMENTAL');
    if (readPragma(db, 'journal_mode') !== 'wal') db.exec('PRAGMA journal_mode = WAL');
    db.exec('PRAGMA synchronous = FULL');
    db.exec('PRAGMA secure_delete = FAST');
    if (found !== versionOf(schema)) prepareTables(db, file, schema);
    db.exec('PRAGMA foreign_keys = ON');
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function prepareTables(db: DatabaseSync, file: string, schema: Schema): void {
  db.exec('BEGIN IMMEDIATE');
  const found = identify(db, file, schema);
  if (found === 'empty') db.exec(schema.create);
  else for (const step of schema.steps.slice(found - 1)) db.exec(step);
  db.exec(`PRAGMA user_version = ${versionOf(schema)}`);
  db.exec('COMMIT');
}

/** Throws `store-unavailable`. Needs a transaction: another process may create the tables now. */
function identify(db: DatabaseSync, file: string, schema: Schema = SCHEMA): number | 'empty' {
  const version = Number(readPragma(db, 'user_version'));
  const application = readPragma(db, 'application_id');
  if (application === APPLICATION_ID) {
    const known = versionOf(schema);
    if (version >= 1 && version <= known) return version;
    throw new EngineError(
      'store-unavailable',
      `${file} has schema version ${version}; this version of agentchart reads up to ${known}. Open it with the version that wrote it, or name another file.`,
      { file, version },
    );
  }
  const tables = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get()?.count;
  if (tables === 0 && version === 0 && application === 0) return 'empty';
  throw new EngineError(
    'store-unavailable',
    `${file} is a database of another program: expected an empty database or a store of runs. Name another file.`,
    { file },
  );
}

/** `version` is `null` for an empty database. Changes nothing. Throws `store-…` for what is no store, or newer. */
export function describeDatabase(file: string): { version: number | null; current: number } {
  const { DatabaseSync } = loadSqlite();
  try {
    refuseRemains(file);
    const db = new DatabaseSync(file, { readOnly: true });
    try {
      db.exec('BEGIN DEFERRED');
      const found = identify(db, file);
      return { version: found === 'empty' ? null : found, current: versionOf(SCHEMA) };
    } finally {
      db.close();
    }
  } catch (error) {
    throw translateError(file, error);
  }
}

/** Suppresses only Node 22's warning that SQLite is experimental. Throws `store-unavailable`. */
export function loadSqlite(): typeof Sqlite {
  const emitWarning = process.emitWarning;
  process.emitWarning = (...warning: unknown[]) => {
    const isAboutSqlite = warning[1] === 'ExperimentalWarning' && String(warning[0]).startsWith('SQLite');
    if (!isAboutSqlite) Reflect.apply(emitWarning, process, warning);
  };
  let module: typeof Sqlite | undefined;
  try {
    module = process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
  if (module !== undefined) return module;
  throw new EngineError(
    'store-unavailable',
    `The sqlite store needs node:sqlite, and Node ${process.versions.node} does not have it. Use Node 22.13 or later.`,
  );
}

export function readPragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
}
