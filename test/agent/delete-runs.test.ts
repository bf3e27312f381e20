import { existsSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, deleteRuns } from '../../agent/index.ts';
import { systemHost } from '../../engine/host/host.ts';
import type { Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';
import { postgres } from '../../stores/postgres.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { notes, readNotes } from '../../tools/notes/index.ts';
import { calls, makeGate, makeTool } from '../support/engine/agents.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../support/stores/postgres-server.ts';

const SEVEN = { labels: { user: '7' } };

const makeDesk = (store: Store) =>
  createAgent({
    name: 'desk',
    model: scripted([
      calls(['memory', { command: 'create', path: '/memories/a.md', file_text: 'Tea.' }]),
      { text: 'Noted.' },
    ]),
    tools: [notes({ by: 'user' })],
    store,
  });

const makeAsker = (store: Store) =>
  createAgent({
    name: 'asker',
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true })],
    store,
  });

const idsIn = async (store: Store) => (await store.list()).runs.map(({ runId }) => runId);

let server: PostgresServer | undefined;
let schemas = 0;
beforeAll(async () => {
  if (POSTGRES_BIN !== undefined) server = await startPostgres();
});
afterAll(() => server?.stop());

const STORES = [
  { name: 'memory', open: () => memory() },
  { name: 'SQLite', open: () => sqlite(makeFile()) },
  {
    name: 'PostgreSQL',
    isMissing: POSTGRES_BIN === undefined,
    open: () => {
      schemas += 1;
      return postgres(server?.url ?? '', { schema: `deleted_${schemas}` });
    },
  },
];

for (const { name, open, isMissing = false } of STORES)
  describe.skipIf(isMissing)(`deleteRuns in ${name}`, () => {
    function openStore(): Store {
      const store = open();
      onTestFinished(() => store.close());
      return store;
    }

    test('deletes ended and waiting runs of a label, what continues them, and its notes, and no others', async () => {
      const store = openStore();
      const first = await makeDesk(store).start('go', { ...SEVEN, runId: 'ended' });
      await first.settled();
      const asking = await makeAsker(store).start('go', {
        labels: { user: '7', tenant: 'a' },
        runId: 'waits',
      });
      await asking.settled();
      const later = await makeAsker(store).start('go', { labels: {}, continues: 'ended', runId: 'later' });
      await later.settled();
      await (await makeDesk(store).start('go', { labels: { user: '8' }, runId: 'other' })).settled();
      const kept = (await readNotes(store, SEVEN.labels))?.runId ?? '';
      expect((await deleteRuns(store, SEVEN)).toSorted()).toEqual(
        ['ended', 'later', kept, 'waits'].toSorted(),
      );
      const others = [(await readNotes(store, { user: '8' }))?.runId, 'other'];
      expect((await idsIn(store)).toSorted()).toEqual(others.toSorted());
      expect(await deleteRuns(store, SEVEN)).toEqual([]);
    });

    test('cancels a run that is driven, with that of its sub-agent, and deletes both', async () => {
      const store = openStore();
      const begun = makeGate();
      const wait = makeTool('wait', {
        sideEffect: 'none',
        run: (_: unknown, { signal }: { signal: AbortSignal }) => {
          begun.open();
          return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
        },
      });
      const waiter = createAgent({
        name: 'waiter',
        model: scripted([calls('wait'), { text: 'x' }]),
        tools: [wait],
      });
      const boss = createAgent({
        name: 'boss',
        model: scripted([calls(['ask', { input: 'wait' }]), { text: 'Done.' }]),
        tools: [waiter.asTool({ name: 'ask', description: 'Asks.' })],
        store,
      });
      const run = await boss.start('go', SEVEN);
      const settled = run.settled().catch(error => error);
      await begun.promise;
      expect(await deleteRuns(store, { ...SEVEN, by: 'ann' })).toHaveLength(2);
      expect(await idsIn(store)).toEqual([]);
      const end = await settled;
      expect(end.status ?? end.code).toMatch(/^(cancelled|run-unknown)$/);
    });
  });

test('deleteRuns cancels a run that rests with its work in the background, which calls no model again', async () => {
  const store = memory();
  const begun = makeGate();
  const wait = makeTool('wait', {
    sideEffect: 'none',
    background: true,
    run: (_: unknown, { signal }: { signal: AbortSignal }) => {
      begun.open();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
  });
  const script = scripted([calls('wait'), { text: 'It works.' }, { text: 'It has ended.' }]);
  let asked = 0;
  const model: typeof script = {
    ...script,
    stream: (...given) => {
      asked += 1;
      return script.stream(...given);
    },
  };
  const run = await createAgent({ name: 'desk', model, tools: [wait], store }).start('go', SEVEN);
  await begun.promise;
  await expect.poll(async () => (await store.get(run.id))?.status).toBe('waiting');
  expect(await deleteRuns(store, SEVEN)).toHaveLength(2);
  expect(await idsIn(store)).toEqual([]);
  expect(asked).toBe(2);
});

test('deleteRuns cancels a run of other labels that continues one of them', async () => {
  const store = memory();
  const model = scripted([{ text: 'One.' }, { text: 'Two.', delayMs: 600_000 }]);
  const agent = createAgent({ name: 'desk', model, store });
  await (await agent.start('one', { ...SEVEN, runId: 'first' })).settled();
  await agent.start('two', { continues: 'first', labels: { user: '8' }, runId: 'second' });
  expect(await deleteRuns(store, SEVEN)).toEqual(['first', 'second']);
  expect(await idsIn(store)).toEqual([]);
});

test('deleteRuns deletes what begins while it deletes', async () => {
  const store = memory();
  await (await makeAsker(store).start('go', { ...SEVEN, runId: 'first' })).settled();
  const remove = store.delete;
  store.delete = async (...given) => {
    store.delete = remove;
    await (await makeAsker(store).start('go', { ...SEVEN, runId: 'second' })).settled();
    return await remove(...given);
  };
  expect(await deleteRuns(store, SEVEN)).toEqual(['first', 'second']);
  expect(await idsIn(store)).toEqual([]);
});

test('deleteRuns needs a label, and deletes nothing without one', async () => {
  const store = memory();
  await (await makeAsker(store).start('go', SEVEN)).settled();
  for (const labels of [{}, undefined, { user: 7 }, 'user=7'])
    await expect(deleteRuns(store, { labels } as never)).rejects.toMatchObject({ code: 'input-invalid' });
  expect(await idsIn(store)).toHaveLength(1);
});

test('deleteRuns leaves nothing in a file of SQLite and its log, also if others read them the first time', async () => {
  const file = makeFile();
  const store = sqlite(file, { busyTimeoutMs: 1 });
  const holds = (words: string) =>
    ['', '-wal'].some(end => existsSync(file + end) && readFileSync(file + end).includes(words));
  for (const user of ['7', '8'])
    await makeAsker(store).run(`The secret of ${user}.`, { labels: { user }, runId: `run${user}` });
  const reader = new DatabaseSync(file);
  reader.exec('BEGIN');
  reader.prepare('SELECT count(*) FROM runs').get();
  await expect(deleteRuns(store, SEVEN)).rejects.toMatchObject({ code: 'store-locked' });
  expect(await idsIn(store)).toEqual(['run8']);
  expect(holds('The secret of 7.')).toBe(true);
  reader.close();
  expect(await deleteRuns(store, SEVEN)).toEqual([]);
  expect(holds('The secret of 7.')).toBe(false);
  expect(holds('The secret of 8.')).toBe(true);
  await store.close();
});

test('deleteRuns gives up on a run whose driver neither ends it nor dies', async () => {
  const store = memory();
  const run = await makeAsker(store).start('go', SEVEN);
  await run.settled();
  const owner = { id: 'other', host: 'elsewhere', pid: 77, startedAt: '1' };
  let now = Date.now();
  await store.claim(run.id, { owner, now, leaseMs: 1e9, isDead: () => false });
  const clock = systemHost.now;
  systemHost.now = () => now;
  onTestFinished(() => {
    systemHost.now = clock;
  });
  const deleting = deleteRuns(store, SEVEN);
  const moving = setInterval(() => (now += 20_000), 20);
  onTestFinished(() => clearInterval(moving));
  await expect(deleting).rejects.toMatchObject({
    code: 'refused',
    message: expect.stringContaining('process 77'),
  });
});
