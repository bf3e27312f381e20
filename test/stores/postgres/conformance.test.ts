import pg from 'pg';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Store } from '../../../protocol/store.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { postgres } from '../../../stores/postgres.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';

describe.skipIf(POSTGRES_BIN === undefined)('the postgres store', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  describe('conforms', () => {
    let schemas = 0;
    const opened = new Map<Store, string>();
    const checks = storeChecks({
      open: async () => {
        schemas += 1;
        return open(`check_${schemas}`);
      },
      openAgain: async store => open(opened.get(store) ?? ''),
      reopen: async store => {
        await store.close();
        return open(opened.get(store) ?? '');
      },
    });
    const open = (schema: string) => {
      const store = withClockOfChecks(server.url, schema);
      opened.set(store, schema);
      return store;
    };
    for (const { name, run } of checks) test(name, run);
  });
});

/** A store whose server's clock shows the time that each check names. */
function withClockOfChecks(url: string, schema: string): Store {
  let now = 0;
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  const store = postgres(pool, { schema, now: () => now });
  let made: Promise<unknown> | undefined;
  const setTo = async (time: number) => {
    now = time;
    made ??= store.get('none').then(() =>
      pool.query(
        `CREATE TABLE IF NOT EXISTS ${schema}.clock AS SELECT 0::float8 AS ms;
         CREATE OR REPLACE FUNCTION ${schema}.now_ms() RETURNS float8 LANGUAGE sql VOLATILE
           AS 'SELECT ms FROM ${schema}.clock'`,
      ),
    );
    await made;
    await pool.query(`UPDATE ${schema}.clock SET ms = $1`, [time]);
  };
  let ending: Promise<void> | undefined;
  const close = async () => {
    await store.close();
    ending ??= pool.end();
    await ending;
  };
  return inTime(store);
  function inTime<Target extends object>(timed: Target): Target {
    return new Proxy(timed, {
      get(target, name) {
        if (name === 'close') return close;
        if (name === 'deltas' && store.deltas) return inTime(store.deltas);
        if (name === 'feed' && store.feed) return inTime(store.feed);
        const method: unknown = Reflect.get(target, name);
        if (typeof method !== 'function') return method;
        return async (...args: unknown[]) => {
          const time = args.flatMap(readNow)[0];
          if (time !== undefined) await setTo(time);
          return await Reflect.apply(method, target, args);
        };
      },
    });
  }
}

/** The time that an argument of a call names: of a claim, a lease, a deletion. */
function readNow(argument: unknown): number[] {
  if (typeof argument === 'number' && argument >= 1_000) return [argument];
  const isTimed = typeof argument === 'object' && argument !== null && 'now' in argument;
  return isTimed && typeof argument.now === 'number' ? [argument.now] : [];
}
