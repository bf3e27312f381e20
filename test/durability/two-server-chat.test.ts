import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { deleteRuns } from '../../agent/index.ts';
import { listAll, type RunRecord, type Store } from '../../protocol/store.ts';
import { postgres } from '../../stores/postgres.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { readNotes } from '../../tools/notes/index.ts';
import { built } from '../support/built.ts';
import { ChatPage } from '../support/fronts/ai-sdk-ui/chat-page.ts';
import { TAKES_ALL } from '../support/sample.ts';
import { until } from '../support/server/runs-app.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../support/stores/postgres-server.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

const SERVER = built('test/support/durability/chat-fixture.ts');
const STUDY_MS = 600;
const CHAT = 'c';

/** `folder` has the files of the servers, and `database` is their database if it is not SQLite. */
type Place = { folder: string; database?: string };
type Server = { child: ChildProcess; url: string };

const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

async function startServer({ folder, database }: Place): Promise<Server> {
  const args = [SERVER, folder, String(STUDY_MS), ...(database ? [database] : [])];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.add(child);
  const [port] = await once(child.stdout, 'data');
  return { child, url: `http://127.0.0.1:${String(port).trim()}` };
}

async function kill({ child }: Server): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** The user's page of the chat, loaded from a server. */
async function load({ url }: Server, user: string): Promise<ChatPage> {
  const send = async (request: Request): Promise<Response> => {
    const headers = new Headers(request.headers);
    headers.set('x-user', user);
    const { pathname } = new URL(request.url);
    const { method } = request;
    return await fetch(url + pathname, {
      method,
      headers,
      ...(method === 'POST' && { body: await request.text() }),
    });
  };
  const read = await send(new Request(`http://shop.example/api/chat/${CHAT}`));
  return new ChatPage(send, { id: CHAT, messages: (await read.json()) as never });
}

async function say(page: ChatPage, text: string): Promise<void> {
  await page.chat.sendMessage({ text });
  await page.idle();
}

/** The texts of the page, in order. */
const textsOf = ({ messages }: ChatPage): string[] =>
  messages.map(({ role, parts }) => {
    const texts = parts.flatMap(part => (part.type === 'text' ? [part.text] : []));
    return `${role}: ${texts.join('')}`;
  });

/** Waits until a server studies a message. */
async function studied({ folder }: Place, { child }: Server, text: string): Promise<void> {
  const file = join(folder, 'studied');
  const line = `${child.pid} ${text}\n`;
  await until(() => (existsSync(file) && readFileSync(file, 'utf8').includes(line) ? true : undefined));
}

async function runsOf(store: Store, user: string): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for await (const run of listAll(store, { agent: 'desk', labels: { user }, order: 'asc' })) runs.push(run);
  return runs;
}

/** Where an open store keeps these words, without closing it: its tables and files. */
type Search = (words: string) => Promise<string[]>;

function filesWith(words: string, folder: string, isLeftOut: (path: string) => boolean): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(path => {
    const file = join(folder, path);
    return !isLeftOut(path) && statSync(file).isFile() && readFileSync(file).includes(words);
  });
}

/** The database with its log and shared memory. */
const searchSqlite =
  (folder: string): Search =>
  async words =>
    filesWith(words, folder, path => !path.startsWith('runs.db'));

/**
 * All tables, as text and as bytes, and then all files of the server after `VACUUM (FULL, ANALYZE)`, which rewrites tables and
 * statistics, and a checkpoint; without its log, which it recycles later.
 */
const searchPostgres =
  (database: string): Search =>
  async words => {
    const client = new pg.Client(database);
    await client.connect();
    const { rows: tables } = await client.query(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
    );
    const found: string[] = [];
    for (const { name } of tables) {
      const { rowCount } = await client.query(
        `SELECT FROM ${name} AS found WHERE position($1 IN found::text) > 0 OR position($2 IN found::text) > 0 LIMIT 1`,
        [words, Buffer.from(words).toString('hex')],
      );
      if (rowCount !== 0) found.push(name);
    }
    await client.query('VACUUM (FULL, ANALYZE)');
    await client.query('CHECKPOINT');
    const { rows } = await client.query('SHOW data_directory');
    await client.end();
    const isLog = (path: string) => path.startsWith('pg_wal');
    return [...found, ...filesWith(words, rows[0].data_directory, isLog)];
  };

/** `holds`: where the words of a user are at first. */
type Searched = { holds: readonly string[]; search: Search };

async function play(place: Place, store: Store, { holds, search }: Searched): Promise<void> {
  const [seven, eight] = [`seven-${randomUUID()}`, `eight-${randomUUID()}`];
  const [one, other] = await Promise.all([startServer(place), startServer(place)]);

  // The first messages of a chat at both servers at once; another user has a chat of the same name.
  const pages = await Promise.all([load(one, '7'), load(other, '7'), load(one, '8')]);
  const first = [`first ${seven}`, `second ${seven}`, `first ${eight}`];
  await Promise.all(pages.map((page, at) => say(page, first[at] ?? '')));
  expect(pages.flatMap(({ errors }) => errors)).toEqual([]);
  const begun = await runsOf(store, '7');
  for (const [at, run] of begun.entries()) {
    expect(run).toMatchObject({ thread: CHAT, place: at + 1 });
    expect(run.continues).toBe(begun[at - 1]?.runId);
    expect(run.createdAt).toBeGreaterThanOrEqual(begun[at - 1]?.endedAt ?? 0);
  }
  const page = await load(other, '7');
  expect(
    textsOf(page)
      .filter(text => text.startsWith('user: '))
      .toSorted(),
  ).toEqual(first.slice(0, 2).map(text => `user: ${text}`));
  expect(page.text).toMatch(/^You said: (first .* \| second|second .* \| first) seven-\S+$/);
  expect(textsOf(await load(other, '8'))).toEqual([`user: ${first[2]}`, `assistant: You said: ${first[2]}`]);

  // A page that is loaded again at the other server while the first one works on its message.
  const third = `third ${seven}`;
  const sending = say(pages[0], third);
  await studied(place, one, third);
  const reloaded = await load(other, '7');
  const resuming = reloaded.chat.resumeStream();
  await Promise.all([sending, resuming]);
  expect(reloaded.text).toBe(`${page.text} | ${third}`);
  expect(textsOf(await load(one, '7'))).toEqual(textsOf(reloaded));

  // The server dies in the middle of a run: the worker of the other one finishes it, and nobody loads the page meanwhile.
  const fourth = `fourth, slowly, ${seven}`;
  void say(await load(one, '7'), fourth);
  await studied(place, one, fourth);
  await kill(one);
  await studied(place, other, fourth);
  await until(async () => ((await runsOf(store, '7')).at(-1)?.status === 'finished' ? true : undefined));
  expect((await load(other, '7')).text).toBe(`${reloaded.text} | ${fourth}`);
  expect((await readNotes(store, { user: '7' }))?.files.at(-1)?.text).toBe(fourth);

  // All data of the user is deleted while its next message is being worked on.
  expect(await search(seven)).toEqual(expect.arrayContaining([...holds]));
  const fifth = `fifth, slowly, ${seven}`;
  const last = await load(other, '7');
  void say(last, fifth);
  await studied(place, other, fifth);
  const before = await runsOf(store, '7');
  expect(before.map(({ status }) => status)).toEqual([...before.slice(1).map(() => 'finished'), 'running']);
  const deleted = await deleteRuns(store, { labels: { user: '7' } });
  expect(deleted).toHaveLength(before.length + 1);
  expect(await search(seven)).toEqual([]);
  expect(await search(eight)).not.toEqual([]);
  await last.idle();
  expect(textsOf(await load(other, '7'))).toEqual([]);
  expect(textsOf(await load(other, '8'))).toHaveLength(2);

  // The user comes back as a new one, and the other user has all that was said.
  const back = await load(other, '7');
  await say(back, 'Hello again.');
  expect(back.text).toBe('You said: Hello again.');
  expect((await readNotes(store, { user: '7' }))?.files.map(({ text }) => text)).toEqual(['Hello again.']);
  const stays = await load(other, '8');
  await say(stays, 'And I?');
  expect(stays.text).toBe(`You said: ${first[2]} | And I?`);
  expect(await search(seven)).toEqual([]);
  await kill(other);
}

describe('a chat of two users with two servers begins once, outlives one of them, and is deleted whole', () => {
  test('in SQLite', async () => {
    const folder = makeTemporaryFolder('chat');
    const store = sqlite(join(folder, 'runs.db'));
    await play({ folder }, store, { holds: ['runs.db-wal'], search: searchSqlite(folder) });
    await store.close();
  });

  describe.skipIf(POSTGRES_BIN === undefined || !TAKES_ALL)('on a server', () => {
    let server: PostgresServer;
    beforeAll(async () => {
      server = await startPostgres();
    });
    afterAll(() => server.stop());

    test('in PostgreSQL', async () => {
      const database = await server.createDatabase();
      const store = postgres(database);
      const holds = ['agentchart.runs', 'agentchart.appends', 'agentchart.blobs'];
      const place = { folder: makeTemporaryFolder('chat'), database };
      await play(place, store, { holds, search: searchPostgres(database) });
      await store.close();
    });
  });
});
