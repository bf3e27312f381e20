import type { DatabaseSync } from 'node:sqlite';

/** Returns the value of a pragma. */
export function readPragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
}
