import { loadSqlite } from './load-module.ts';
import { identify } from './open-database.ts';
import { refuseRemains } from './opened-file.ts';
import { SCHEMA, versionOf } from './schema.ts';
import { translateError } from './translate-error.ts';

/**
 * Returns the version of the tables in `file`, `null` for an empty database, and the version of this release. Changes
 * nothing. Throws `store-…` for a file that is not a store, or is of a newer release.
 */
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
