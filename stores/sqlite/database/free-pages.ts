import type { DatabaseSync } from 'node:sqlite';
import { readPragma } from './read-pragma.ts';
import { describeFault } from './translate-error.ts';

/** `auto_vacuum` of a file that can give pages back. Source: https://www.sqlite.org/pragma.html#pragma_auto_vacuum */
const INCREMENTAL = 2;

/** Removes unused pages from the file. Rebuilds a file of an earlier release, which cannot shrink otherwise. */
export function freePages(db: DatabaseSync): void {
  if (readPragma(db, 'auto_vacuum') === INCREMENTAL) db.exec('PRAGMA incremental_vacuum');
  else rebuildFile(db);
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
