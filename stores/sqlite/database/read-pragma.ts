import type { DatabaseSync } from 'node:sqlite';

/** The value of a setting of the database or of its connection. */
export function readPragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
}
