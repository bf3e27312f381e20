import { mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type * as Sqlite from 'node:sqlite';
import type { DatabaseSync } from 'node:sqlite';
import { EngineError } from '../../protocol/error.ts';
import { APPLICATION_ID, SCHEMA, type Schema, versionOf } from './schema.ts';
import { describeFault, translateError } from './translate-error.ts';

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
    if (found !== versionOf(schema)) {
      db.exec('BEGIN IMMEDIATE');
      const present = identify(db, file, schema);
      if (present === 'empty') db.exec(schema.create);
      else for (const step of schema.steps.slice(present - 1)) db.exec(step);
      db.exec(`PRAGMA user_version = ${versionOf(schema)}`);
      db.exec('COMMIT');
    }
    db.exec('PRAGMA foreign_keys = ON');
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
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

/** `version` is `null` for an empty database. Changes nothing. Throws `store-…` for a file that is not a store, or is newer. */
export function describeDatabaseFile(file: string): { version: number | null; current: number } {
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

/** In bytes; a database has a page at least. Source: https://www.sqlite.org/fileformat.html */
const SMALLEST_PAGE_BYTES = 512;

type Found = { id: string; bytes: number; isFile: boolean };

/** Throws `store-damaged` for the remains of a database that SQLite would treat as empty, and overwrite. */
export function refuseRemains(file: string): void {
  // The order matters: a process that is creating the database writes the file before its log.
  const log = findFile(`${file}-wal`);
  const found = findFile(file);
  if (!found?.isFile) return;
  if (found.bytes > 0 && found.bytes < SMALLEST_PAGE_BYTES)
    throw describeFault('store-damaged', file, `it has ${found.bytes} bytes`);
  if (found.bytes === 0 && log !== undefined && log.bytes > 0)
    throw describeFault('store-damaged', file, `it is empty, but its log, ${file}-wal, is not`);
}

/** How long a folder must be unchanged before its time of change can be trusted to show the next change, in ms. */
const SETTLED_MS = 100;

/**
 * The identity of a database file and its log at the time of opening. A process can still write to an open file after
 * it was deleted or replaced, and such writes would be lost. A check costs two `stat` calls, about 5 µs.
 *
 * The log itself is checked only if its folder changed: Linux (6.13 and later) gives a file that was looked at since
 * its last write an exact time at its next write, which made each `fsync` of the log 70 µs slower.
 * Source: https://docs.kernel.org/filesystems/multigrain-ts.html
 */
export class OpenedFile {
  readonly #file: string;
  readonly #id: string | undefined;
  #logId: string | undefined;
  /** When the folder last changed before a check that found the log in place, in ns since the epoch, if settled. */
  #folderChangedAt: bigint | undefined;

  constructor(file: string) {
    this.#file = file;
    this.#id = findFile(file)?.id;
    this.#logId = findFile(`${file}-wal`)?.id;
  }

  assertInPlace(): void {
    const found = findFile(this.#file);
    if (found?.id !== this.#id) throw this.#describe(this.#file, found);
    if (found?.bytes === 0) throw describeFault('store-damaged', this.#file, 'it was emptied');
    const changedAt = statSync(dirname(this.#file), { bigint: true }).ctimeNs;
    if (changedAt === this.#folderChangedAt) return;
    const log = findFile(`${this.#file}-wal`);
    this.#logId ??= log?.id;
    if (log?.id !== this.#logId) throw this.#describe(`${this.#file}-wal`, log);
    this.#folderChangedAt = isSettled(changedAt) ? changedAt : undefined;
  }

  #describe(name: string, found: Found | undefined): Error {
    const reason = found === undefined ? `${name} was deleted` : `${name} was replaced by another file`;
    return describeFault('store-replaced', this.#file, reason);
  }
}

/** Whether a later change gets another time. File systems that keep whole seconds are never trusted. */
function isSettled(changedAt: bigint): boolean {
  return changedAt % 1_000_000_000n !== 0n && Date.now() - Number(changedAt / 1_000_000n) > SETTLED_MS;
}

function findFile(path: string): Found | undefined {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat && { id: `${stat.dev}:${stat.ino}`, bytes: Number(stat.size), isFile: stat.isFile() };
}
