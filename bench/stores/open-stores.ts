import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { Store } from '../../protocol/store.ts';
import { postgres } from '../../stores/postgres.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { startPostgres } from '../../test/support/stores/postgres-server.ts';
import { makeTemporaryFolder } from '../temporary-folder.ts';

/** A place for stores that several processes open, by an address that `openStore` takes. */
export type Place = {
  address: string;
  /** The bytes that the store takes on disk, its indexes included. */
  bytes(): Promise<number>;
  close(): Promise<void>;
};

/** Makes a place with a real disk: `sqlite` or `postgres`. */
export async function makePlace(kind: string): Promise<Place> {
  if (kind !== 'postgres') return makeFolder();
  // fsync is on, as in production.
  const server = await startPostgres(['fsync=on', 'max_connections=200']);
  return {
    address: server.url,
    async bytes() {
      const client = new pg.Client(server.url);
      await client.connect();
      const { rows } = await client.query(
        `SELECT sum(pg_total_relation_size(c.oid))::float8 AS bytes FROM pg_class c
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'agentchart' AND c.relkind = 'r'`,
      );
      await client.end();
      return Number(rows[0]?.bytes);
    },
    close: () => server.stop(),
  };
}

function makeFolder(): Place {
  const folder = makeTemporaryFolder();
  return {
    address: join(folder, 'runs.db'),
    bytes: async () => readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0),
    close: async () => {},
  };
}

/**
 * Measures what PostgreSQL itself needs: from an INSERT that notifies until its notification has arrived on another
 * connection, in ms. `undefined` for a place without notifications.
 */
export async function openNotifier(address: string) {
  if (!address.startsWith('postgres:')) return undefined;
  const [writer, listener] = [new pg.Client(address), new pg.Client(address)];
  for (const client of [writer, listener]) await client.connect();
  await writer.query('CREATE TABLE IF NOT EXISTS bare (json text)');
  await listener.query('LISTEN bare');
  return {
    async measure(): Promise<number> {
      const told = once(listener, 'notification');
      const before = performance.now();
      await writer.query(
        "WITH told AS (SELECT pg_notify('bare', 'x')) INSERT INTO bare SELECT $1 FROM told",
        ['x'],
      );
      await told;
      return performance.now() - before;
    },
    close: async () => {
      for (const client of [writer, listener]) await client.end();
    },
  };
}

/** Opens the store at the address of a place. */
export function openStore(address: string): Store {
  return address.startsWith('postgres:') ? postgres(address) : sqlite(address);
}
