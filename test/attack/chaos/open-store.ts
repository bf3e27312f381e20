import type { Store } from '../../../protocol/store.ts';
import { postgres } from '../../../stores/postgres.ts';
import { sqlite } from '../../../stores/sqlite.ts';

/** Opens the database of a chaos: the address of a PostgreSQL database, or a file. */
export function openStore(db: string): Store {
  return db.startsWith('postgres:') ? postgres(db) : sqlite(db);
}
