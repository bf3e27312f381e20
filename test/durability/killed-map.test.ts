import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { listAll } from '../../protocol/store.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { TAKES_ALL } from '../support/sample.ts';

const fixture = new BundledFixture('map-fixture');
const DOCUMENTS = TAKES_ALL ? 200 : 40;
const CONCURRENCY = 4;
const TOKENS_EACH = 100;

const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

function startMap(folder: string, tokens: number) {
  const args = [fixture.file, folder, String(DOCUMENTS), String(tokens)];
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
function begunIn(folder: string): string[] {
  const path = join(folder, 'begun');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
}

/** Kills a map once `calls` model calls have begun. Returns the titles of the runs that had finished. */
async function killAfter(folder: string, tokens: number, calls: number): Promise<string[]> {
  const child = startMap(folder, tokens);
  while (begunIn(folder).length < calls) {
    expect(child.exitCode).toBe(null);
    await delay(2);
  }
  child.kill('SIGKILL');
  await once(child, 'close');
  return await finishedIn(folder);
}

async function finishedIn(folder: string): Promise<string[]> {
  const store = sqlite(join(folder, 'runs.db'));
  const titles: string[] = [];
  for await (const { title } of listAll(store, { status: 'finished' })) titles.push(title);
  await store.close();
  return titles;
}

function countBegun(folder: string, titles: readonly string[]): Record<string, number> {
  const begun = Map.groupBy(begunIn(folder), document => `Summarise ${document}.`);
  return Object.fromEntries(titles.map(title => [title, begun.get(title)?.length ?? 0]));
}

test('a map that is killed twice makes no summary again that was stored, and keeps to its budget', async () => {
  const folder = fixture.makeFolder();
  const affordable = DOCUMENTS * 0.8;
  const budget = affordable * TOKENS_EACH;
  const first = await killAfter(folder, budget, DOCUMENTS / 4);
  const begunForFirst = countBegun(folder, first);
  const second = await killAfter(folder, budget, DOCUMENTS / 2);
  const begunForSecond = countBegun(folder, second);
  expect(first.length).toBeGreaterThan(0);
  expect(second.length).toBeGreaterThan(first.length);
  const spent = await Promise.all([startMap(folder, budget), startMap(folder, budget)].map(statusesOf));
  for (const statuses of spent) {
    const finished = statuses.filter(status => status === 'finished').length;
    expect(finished).toBeGreaterThanOrEqual(affordable);
    expect(finished).toBeLessThan(affordable + 2 * CONCURRENCY);
    expect(statuses.filter(status => status === 'not-started')).toHaveLength(DOCUMENTS - finished);
  }
  const third = await finishedIn(folder);
  const begunForThird = countBegun(folder, third);
  const all = await statusesOf(startMap(folder, 2 * DOCUMENTS * TOKENS_EACH));
  expect(all).toEqual(Array(DOCUMENTS).fill('finished'));
  expect(countBegun(folder, first)).toEqual(begunForFirst);
  expect(countBegun(folder, second)).toEqual(begunForSecond);
  expect(countBegun(folder, third)).toEqual(begunForThird);
  const begun = begunIn(folder);
  expect(new Set(begun).size).toBe(DOCUMENTS);
  expect(begun.length).toBeLessThanOrEqual(DOCUMENTS + 2 * CONCURRENCY);
  expect(await finishedIn(folder)).toHaveLength(DOCUMENTS);
});
