import { existsSync, linkSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError } from '../../protocol/error.ts';
import { loadSqlite, readPragma, refuseRemains } from './open-database.ts';
import { APPLICATION_ID } from './schema.ts';
import { describeFault, isFault, translateError } from './translate-error.ts';

export type Backup = { file: string; bytes: number; runs: number };

const PAUSE_MS = 20;

/**
 * Copies the database of a store to the new file `target`, as a consistent snapshot, while other processes continue reading
 * and writing. Blocks this process for as long as the copy takes. Changes nothing in `file`, and `target` appears only
 * when it is complete. Rejects with `refused` if `target` exists, and with `store-…` errors.
 */
export async function backUpDatabase(
  file: string,
  target: string,
  { busyTimeoutMs = 5000 } = {},
): Promise<Backup> {
  const [source, copy] = [resolve(file), resolve(target)];
  if (existsSync(copy)) throw existing(copy);
  const partial = `${copy}.partial-${process.pid}`;
  try {
    mkdirSync(dirname(copy), { recursive: true });
    try {
      rmSync(partial, { force: true });
      const runs = await copyTo(partial, source, performance.now() + busyTimeoutMs);
      publish(partial, copy);
      return { file: copy, bytes: statSync(copy).size, runs };
    } finally {
      rmSync(partial, { force: true });
    }
  } catch (error) {
    throw translateError(isOfCopy(error) ? copy : source, error);
  }
}

/** The database is only read: what fails for want of space, or outside SQLite, is the writing of the copy. */
function isOfCopy(error: unknown): boolean {
  const isOutside = error instanceof Error && 'syscall' in error;
  return isOutside || isFault(translateError('', error), 'store-full');
}

async function copyTo(partial: string, source: string, until: number): Promise<number> {
  const { DatabaseSync } = loadSqlite();
  refuseRemains(source);
  const db = new DatabaseSync(source, { readOnly: true });
  try {
    if (readPragma(db, 'application_id') !== APPLICATION_ID)
      throw describeFault('store-damaged', source, 'it is another kind of database');
    for (;;) {
      try {
        db.prepare('VACUUM INTO ?').run(partial);
        break;
      } catch (error) {
        if (!isFault(translateError(source, error), 'store-locked') || performance.now() > until) throw error;
        rmSync(partial, { force: true });
        await delay(PAUSE_MS);
      }
    }
  } finally {
    db.close();
  }
  const copied = new DatabaseSync(partial, { readOnly: true });
  try {
    return Number(copied.prepare('SELECT count(*) AS runs FROM runs').get()?.runs);
  } finally {
    copied.close();
  }
}

/** The codes of file systems without hard links. */
const UNSUPPORTED: ReadonlySet<unknown> = new Set(['EPERM', 'ENOTSUP', 'ENOSYS']);

function publish(partial: string, copy: string): void {
  try {
    linkSync(partial, copy);
  } catch (error) {
    if (existsSync(copy)) throw existing(copy);
    if (!(error instanceof Error && 'code' in error && UNSUPPORTED.has(error.code))) throw error;
    renameSync(partial, copy);
  }
}

function existing(file: string): EngineError {
  return new EngineError(
    'refused',
    `${file} exists. A backup replaces no file: name another one, or move it away.`,
    { file },
  );
}
