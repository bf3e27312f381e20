import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listAll } from '../../protocol/store.ts';
import { postgres } from '../../stores/postgres.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { TAKES_ALL } from '../support/sample.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../support/stores/postgres-server.ts';

const fixture = new BundledFixture('map-fixture');
const DOCUMENTS = TAKES_ALL ? 200 : 40;
const CONCURRENCY = 4;
const TOKENS_EACH = 100;

const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

/** `folder` has the files of a map, and `database` if its runs are in PostgreSQL. */
type Place = { folder: string; database?: string };

function startMap({ folder, database }: Place, tokens: number) {
  const args = [fixture.file, folder, String(DOCUMENTS), String(tokens), ...(database ? [database] : [])];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  return child;
}

async function statusesOf(child: ReturnType<typeof startMap>): Promise<string[]> {
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  expect(child.exitCode).toBe(0);
  return JSON.parse(output);
}

/** The document of each model call. */
function begunIn({ folder }: Place): string[] {
  const path = join(folder, 'begun');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
}

/** Kills a map once `calls` model calls have begun. Returns the titles of the runs that had finished. */
async function killAfter(place: Place, tokens: number, calls: number): Promise<string[]> {
  const child = startMap(place, tokens);
  while (begunIn(place).length < calls) {
    expect(child.exitCode).toBe(null);
    await delay(2);
  }
  child.kill('SIGKILL');
  await once(child, 'close');
  return await finishedIn(place);
}

async function finishedIn({ folder, database }: Place): Promise<string[]> {
  const store = database === undefined ? sqlite(join(folder, 'runs.db')) : postgres(database);
  const titles: string[] = [];
  for await (const { title } of listAll(store, { status: 'finished' })) titles.push(title);
  await store.close();
  return titles;
}

function countBegun(place: Place, titles: readonly string[]): Record<string, number> {
  const begun = Map.groupBy(begunIn(place), document => `Summarise ${document}.`);
  return Object.fromEntries(titles.map(title => [title, begun.get(title)?.length ?? 0]));
}

/** Kills a map twice, lets two processes spend what is left of its budget, and then one make all that is missing. */
async function killTwice(place: Place): Promise<void> {
  const affordable = DOCUMENTS * 0.8;
  const budget = affordable * TOKENS_EACH;
  const first = await killAfter(place, budget, DOCUMENTS / 4);
  const begunForFirst = countBegun(place, first);
  const second = await killAfter(place, budget, DOCUMENTS / 2);
  const begunForSecond = countBegun(place, second);
  expect(first.length).toBeGreaterThan(0);
  expect(second.length).toBeGreaterThan(first.length);
  const spent = await Promise.all([startMap(place, budget), startMap(place, budget)].map(statusesOf));
  for (const statuses of spent) {
    const finished = statuses.filter(status => status === 'finished').length;
    expect(finished).toBeGreaterThanOrEqual(affordable);
    expect(finished).toBeLessThan(affordable + 2 * CONCURRENCY);
    expect(statuses.filter(status => status === 'not-started')).toHaveLength(DOCUMENTS - finished);
  }
  const third = await finishedIn(place);
  const begunForThird = countBegun(place, third);
  const all = await statusesOf(startMap(place, 2 * DOCUMENTS * TOKENS_EACH));
  expect(all).toEqual(Array(DOCUMENTS).fill('finished'));
  expect(countBegun(place, first)).toEqual(begunForFirst);
  expect(countBegun(place, second)).toEqual(begunForSecond);
  expect(countBegun(place, third)).toEqual(begunForThird);
  const begun = begunIn(place);
  expect(new Set(begun).size).toBe(DOCUMENTS);
  expect(begun.length).toBeLessThanOrEqual(DOCUMENTS + 2 * CONCURRENCY);
  expect(await finishedIn(place)).toHaveLength(DOCUMENTS);
}

describe('a map that is killed twice makes no summary again that was stored, and keeps to its budget', () => {
  test('in SQLite', async () => {
    await killTwice({ folder: fixture.makeFolder() });
  });

  describe.skipIf(POSTGRES_BIN === undefined)('on a server', () => {
    let server: PostgresServer;
    beforeAll(async () => {
      server = await startPostgres();
    });
    afterAll(() => server.stop());

    test('in PostgreSQL', async () => {
      await killTwice({ folder: fixture.makeFolder(), database: await server.createDatabase() });
    });
  });
});
