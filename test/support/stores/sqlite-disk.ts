import { DatabaseSync } from 'node:sqlite';
import { vi } from 'vitest';

/** SQLite's largest number of pages. */
const MOST_PAGES = 4_294_967_294;

/**
 * A disk for the SQLite files that are opened from now on: full after `fill`, when no file can grow by a page, until
 * `empty`. `restore` ends it.
 */
export function makeDisk() {
  const { exec } = DatabaseSync.prototype;
  const opened = new Set<DatabaseSync>();
  let pages = MOST_PAGES;
  const limit = (db: DatabaseSync) => Reflect.apply(exec, db, [`PRAGMA max_page_count = ${pages}`]);
  const setPages = (count: number) => {
    pages = count;
    for (const db of opened) {
      if (!db.isOpen) continue;
      Reflect.apply(exec, db, ['PRAGMA incremental_vacuum']);
      limit(db);
    }
  };
  const spy = vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (this: DatabaseSync, sql) {
    opened.add(this);
    Reflect.apply(exec, this, [sql]);
    limit(this);
  });
  // SQLite raises a limit below the current size to that size.
  return { fill: () => setPages(1), empty: () => setPages(MOST_PAGES), restore: () => spy.mockRestore() };
}
