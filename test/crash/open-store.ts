import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { postgres } from '../../stores/postgres.ts';
import { sqlite } from '../../stores/sqlite.ts';

/** The address of the PostgreSQL server of the matrix, for its processes; without it, each run has a SQLite file. */
export const SERVER = 'AGENTCHART_CRASH_SERVER';

/** Opens the store of a scenario: a file in its folder, or a schema of its own in the server. */
export function openStore(folder: string, now?: () => number): Store {
  const server = process.env[SERVER];
  if (server === undefined) return sqlite(join(folder, 'runs.db'));
  const schema = `crash_${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`;
  return postgres(server, { schema, ...omitUndefined({ now }) });
}
