import type { DatabaseSync } from 'node:sqlite';
import { readPragma } from './read-pragma.ts';
import { describeFault } from './translate-error.ts';

/** `auto_vacuum` of a file that can give pages back. Source: https://www.sqlite.org/pragma.html#pragma_auto_vacuum */
const INCREMENTAL = 2;

/** How many pages one commit removes: other processes wait for the commit. */
const STEP = 1000;

/**
 * Removes unused pages from the file. Returns whether there are more. Rebuilds a file that another program created,
 * which cannot shrink otherwise.
 */
export function freePages(db: DatabaseSync): boolean {
  if (readPragma(db, 'auto_vacuum') !== INCREMENTAL) rebuildFile(db);
  else db.exec(`PRAGMA incremental_vacuum(${STEP})`);
  return Number(readPragma(db, 'freelist_count')) > 0;
}

/** Rewrites the file with only the data in use. */
export function rebuildFile(db: DatabaseSync): void {
  db.exec('PRAGMA auto_vacuum = INCREMENTAL');
  db.exec('VACUUM');
}

/** Moves the log into the file and truncates it. Throws `store-locked` while another process reads the log. */
export function emptyLog(db: DatabaseSync, file: string): void {
  const { busy } = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() ?? {};
  if (busy !== 0)
    throw describeFault(
      'store-locked',
      file,
      'the deleted data is still in its log, which another process is reading',
    );
}
