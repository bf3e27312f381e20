import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Store } from '../../../protocol/store.ts';
import { begin } from '../../../stores/conformance/check.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';
import { storesIn } from '../../support/stores/stores-under-test.ts';

const TEXT = { seq: 1, json: '[]' };

/** Saves texts of two runs whose followers leave one ms apart, and returns what is left once another run is followed. */
async function follow(store: Store, advance: (now: number) => Promise<void>) {
  const { deltas } = store;
  if (deltas === undefined) throw new Error('The store has no deltas.');
  await advance(1_000);
  for (const [runId, until] of [
    ['a', 10_999],
    ['b', 11_000],
  ] as const) {
    await store.create(begin(runId));
    await deltas.follow(runId, { now: 1_000, until });
    await deltas.save(runId, TEXT, 1_000);
  }
  await store.create(begin('later'));
  const time = { now: 71_000, until: 81_000 };
  await advance(time.now);
  await deltas.follow('later', time);
  return [await deltas.follow('a', time), await deltas.follow('b', time)];
}

test('a text in SQLite is kept for a minute after its last follower has left', async () => {
  const store = sqlite(':memory:');
  expect(await follow(store, async () => {})).toEqual([undefined, TEXT]);
  await store.close();
});

describe.skipIf(POSTGRES_BIN === undefined)('a PostgreSQL server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  test('keeps a text for a minute after its last follower has left', async () => {
    const stores = storesIn(() => ({ url: server.url }));
    const store = await stores.open();
    expect(await follow(store, async now => await stores.advance?.(store, now))).toEqual([undefined, TEXT]);
    await store.close();
  });
});
