import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunEvent } from '../../protocol/event.ts';
import { textOf } from '../../protocol/message.ts';
import { listAll, type RunRecord, type Store } from '../../protocol/store.ts';
import { postgres } from '../../stores/postgres.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { TAKES_ALL } from '../support/sample.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../support/stores/postgres-server.ts';

const fixture = new BundledFixture('thread-fixture');
const LABELS = { user: '7' };
const ROUNDS = 100;
const TALKED = TAKES_ALL ? 60 : 20;

type Talker = { say(thread: string, input: string): void; next(): Promise<{ input: string; runId: string }> };

const children = new Set<ChildProcessByStdio<Writable, Readable, null>>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

function startTalker(target: string): Talker {
  const child = spawn(process.execPath, [fixture.file, target], { stdio: ['pipe', 'pipe', 'inherit'] });
  children.add(child);
  const lines: Interface = createInterface({ input: child.stdout });
  const replies = lines[Symbol.asyncIterator]();
  return {
    say: (thread, input) => void child.stdin.write(`${JSON.stringify({ thread, input })}\n`),
    next: async () => JSON.parse((await replies.next()).value ?? ''),
  };
}

/** The runs of a thread in order, each after the one before. */
async function orderOf(store: Store, thread: string): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for await (const record of listAll(store, { thread: { id: thread, labels: LABELS } })) runs.push(record);
  runs.sort((one, other) => (one.place ?? 0) - (other.place ?? 0));
  expect(runs.map(({ place }) => place)).toEqual(runs.map((_, index) => index + 1));
  const before = [undefined, ...runs.map(({ runId }) => runId)];
  expect(runs.map(({ continues }) => continues)).toEqual(before.slice(0, -1));
  return runs;
}

function saidIn(event: RunEvent): string[] {
  if (event.type === 'run.started') return event.input.map(textOf);
  return event.type === 'message.received' ? event.items.map(textOf) : [];
}

/** What was said in each thread, in the order of the commits. Asserts that at no time two runs of a thread were open. */
async function readFeed(store: Store): Promise<Map<string, string[]>> {
  const records = new Map<string, RunRecord>();
  for await (const record of listAll(store)) records.set(record.runId, record);
  const open = new Map<string, string>();
  const said = new Map<string, string[]>();
  for (let after: string | undefined; ; ) {
    const page = await store.feed?.read({ limit: 1_000, ...(after && { after }) });
    for (const { runId, seq, event } of page?.entries ?? []) {
      const { thread = '', seq: last } = records.get(runId) ?? {};
      expect(open.get(thread) ?? runId, `another run of ${thread} is open`).toBe(runId);
      open.set(thread, runId);
      said.set(thread, [...(said.get(thread) ?? []), ...saidIn(event)]);
      if (seq === last) open.delete(thread);
    }
    if (page === undefined || page.entries.length === 0) return said;
    after = page.next;
  }
}

async function race(target: string, store: Store): Promise<void> {
  const talkers = [startTalker(target), startTalker(target)];
  for (const [index, talker] of talkers.entries()) talker.say('warm-up', `${index}`);
  for (const talker of talkers) await talker.next();
  for (let round = 0; round < ROUNDS; round += 1) {
    const thread = `thread ${round}`;
    for (const [index, talker] of talkers.entries()) talker.say(thread, `${index}`);
    const replies = await Promise.all(talkers.map(talker => talker.next()));
    const runs = await orderOf(store, thread);
    expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'finished'));
    expect(new Set(replies.map(({ runId }) => runId))).toEqual(new Set(runs.map(({ runId }) => runId)));
  }
  const said = await readFeed(store);
  for (let round = 0; round < ROUNDS; round += 1)
    expect(said.get(`thread ${round}`)?.toSorted()).toEqual(['0', '1']);
}

async function talkAtOnce(target: string, store: Store): Promise<void> {
  const talkers = [startTalker(target), startTalker(target)];
  const inputs = Array.from({ length: TALKED }, (_, index) => `message ${String(index).padStart(3, '0')}`);
  for (const [index, input] of inputs.entries()) talkers[index % 2]?.say('long', input);
  for (const index of inputs.keys()) await talkers[index % 2]?.next();
  const runs = await orderOf(store, 'long');
  expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'finished'));
  expect((await readFeed(store)).get('long')?.toSorted()).toEqual(inputs);
}

test('two processes on one SQLite file that start in a thread at once make one order', async () => {
  const file = join(fixture.makeFolder(), 'runs.db');
  const store = sqlite(file);
  await race(file, store);
  await talkAtOnce(file, store);
  await store.close();
});

describe.skipIf(POSTGRES_BIN === undefined)('on PostgreSQL', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  test('two processes that start in a thread at once make one order', async () => {
    const url = await server.createDatabase();
    const store = postgres(url);
    await race(url, store);
    await talkAtOnce(url, store);
    await store.close();
  });
});
