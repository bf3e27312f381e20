import type { DatabaseSync } from 'node:sqlite';
import { readPragma } from './read-pragma.ts';
import { describeFault } from './translate-error.ts';

/** `auto_vacuum` of a file that can give pages back. Source: https://www.sqlite.org/pragma.html#pragma_auto_vacuum */
const INCREMENTAL = 2;

/** Gives pages that nothing uses back to the disk. `isWhole`: the file is made anew, of what is in use alone. */
export function freePages(db: DatabaseSync, isWhole: boolean): void {
  if (!isWhole && readPragma(db, 'auto_vacuum') === INCREMENTAL) {
    db.exec('PRAGMA incremental_vacuum');
    return;
  }
  db.exec('PRAGMA auto_vacuum = INCREMENTAL');
  db.exec('VACUUM');
}

/** Brings the log into the file, and leaves it empty. Throws `store-locked` while another process reads from it. */
export function emptyLog(db: DatabaseSync, file: string): void {
  const { busy } = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() ?? {};
  if (busy !== 0)
    throw describeFault(
      'store-locked',
      file,
      'what was removed is still in its log, which another process reads',
    );
}
