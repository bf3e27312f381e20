import { readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { exportRun } from '../../engine/replay/export-run.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import type { EngineError } from '../../protocol/error.ts';
import { canonicalJson, type JsonValue } from '../../protocol/json.ts';
import type { RunRecord, StoredSnapshot } from '../../protocol/store.ts';
import { begin, receive, request, say } from '../../stores/conformance/samples.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { appendOne, change, fail, makeJournal } from '../support/stores/make-journal.ts';

/** The tables as the first release created them. */
const FIRST_SCHEMA = `
CREATE TABLE runs (run_id TEXT PRIMARY KEY, agent TEXT NOT NULL, status TEXT NOT NULL, created_at REAL NOT NULL,
  updated_at REAL NOT NULL, base INTEGER NOT NULL, seq INTEGER NOT NULL, continues TEXT, epoch INTEGER NOT NULL,
  owner TEXT, lease_until REAL) STRICT, WITHOUT ROWID;
CREATE INDEX runs_by_age ON runs (created_at, run_id);
CREATE INDEX runs_by_status ON runs (status, created_at, run_id);
CREATE TABLE events (run_id TEXT NOT NULL REFERENCES runs (run_id), seq INTEGER NOT NULL, type TEXT NOT NULL,
  at REAL NOT NULL, json TEXT NOT NULL, PRIMARY KEY (run_id, seq)) STRICT;
CREATE TABLE items (item_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, seq INTEGER NOT NULL,
  FOREIGN KEY (run_id, seq) REFERENCES events (run_id, seq)) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots (run_id TEXT PRIMARY KEY REFERENCES runs (run_id), seq INTEGER NOT NULL,
  state TEXT NOT NULL) STRICT;
PRAGMA application_id = ${0x61676374};
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
`;

const INSERT_EVENT = 'INSERT INTO events (run_id, seq, type, at, json) VALUES (?, ?, ?, ?, ?)';

function makeFirstRelease(runs: Record<string, number>): string {
  const file = makeFile();
  const db = new DatabaseSync(file);
  db.exec(FIRST_SCHEMA);
  for (const [runId, length] of Object.entries(runs)) {
    db.prepare(
      `INSERT INTO runs VALUES (?, 'refunds', 'running', 1000, 2000, 0, ?, NULL, 0, NULL, NULL)`,
    ).run(runId, length);
    const insert = db.prepare(INSERT_EVENT);
    const first = begin(runId, { input: [say('hello', `item-${runId}`)] });
    insert.run(runId, 1, first.type, first.at, JSON.stringify(first));
    for (let seq = 2; seq <= length; seq += 1) {
      const event = receive(String(seq));
      insert.run(runId, seq, event.type, event.at, JSON.stringify(event));
    }
    db.prepare('INSERT INTO items VALUES (?, ?, 1)').run(`item-${runId}`, runId);
  }
  db.prepare(`INSERT INTO snapshots VALUES ('a', 2, '{"value":"turn"}')`).run();
  db.close();
  return file;
}

/** Databases written by earlier releases, and what the first of them returned for each run. */
const golden = new URL('../golden/', import.meta.url);
const origin = {
  agent: z.object({ version: z.string().optional() }),
  chart: z.object({ version: z.int(), hash: z.string() }),
  parent: z.object({ runId: z.string() }).optional(),
};
const ORIGIN_COLUMNS = 'agent_version, chart_version, chart_hash, parent';
const BEFORE: {
  record: RunRecord;
  chain: string[];
  entries: { seq: number; event: { chart?: JsonValue } }[];
  snapshot: StoredSnapshot | null;
  blobs: [digest: string, text: string][];
  /** The seal of its export, or the error code if the export was refused. */
  seal: string;
}[] = JSON.parse(readFileSync(new URL('schema-2/runs.json', golden), 'utf8'));

function makeBefore(schema = 2): string {
  const file = makeFile();
  const db = new DatabaseSync(file, { enableForeignKeyConstraints: false });
  db.exec(readFileSync(new URL(`schema-${schema}/database.sql`, golden), 'utf8'));
  db.close();
  return file;
}

function describeSchema(file: string): unknown[] {
  const db = new DatabaseSync(file);
  const rows = db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all();
  const version = db.prepare('PRAGMA user_version').get();
  db.close();
  return [version, ...rows];
}

describe.each([2, 3, 4, 5])('a database with schema %i', schema => {
  test('holds what that release returned, including the seals of its exports', async () => {
    const file = makeBefore(schema);
    const store = sqlite(file);
    expect((await store.list()).runs).toMatchObject(BEFORE.map(({ record }) => record));
    for (const { record, chain, entries, snapshot, blobs, seal } of BEFORE) {
      const { runId } = record;
      expect(await store.get(runId)).toMatchObject(record);
      expect((await store.chain(runId)).map(run => run.runId)).toEqual(chain);
      expect(await store.readJson?.(runId)).toEqual(entries);
      expect((await store.loadSnapshot(runId)) ?? null).toEqual(snapshot);
      for (const [digest, text] of blobs) {
        const bytes = await store.readBlob(runId, digest, 0, 1_000_000);
        expect(Buffer.from(bytes ?? []).toString()).toBe(text);
      }
      const isPresentChart =
        canonicalJson(entries[0]?.event.chart ?? null) === canonicalJson(chartIdentity());
      const expected = seal === 'refused' || isPresentChart ? seal : 'chart-mismatch';
      const exported = exportRun(store, runId).then(
        run => run.seal,
        (error: EngineError) => error.code,
      );
      expect(await exported).toBe(expected);
      if (isPresentChart && expected !== 'refused')
        expect(await replayRun(store, runId)).toMatchObject({ equal: true });
    }
    await store.close();
  });

  test('stays writable, keeps its checksums, and then belongs to the current release', async () => {
    const file = makeBefore(schema);
    const store = sqlite(file);
    const [run] = BEFORE.filter(({ record }) => record.status === 'waiting');
    const { runId, seq, epoch } = run?.record ?? expect.unreachable();
    expect(await store.claim(runId, request('one'))).toMatchObject({ type: 'claimed', epoch: epoch + 1 });
    await appendOne(store, seq + 2, runId);
    expect(await store.create(begin('new'))).toEqual({ epoch: 0, seq: 1 });
    expect(await store.read(runId)).toHaveLength(seq + 2);
    await store.close();
    expect(describeSchema(file)).toEqual(describeSchema(await makeJournal(1)));
    change(file, `UPDATE appends SET json = replace(json, '"at":', '"at":1') WHERE seq = 2`);
    const damaged = sqlite(file);
    for (const { record } of BEFORE.filter(({ seal }) => seal !== 'refused'))
      expect(await fail(damaged.read(record.runId))).toMatchObject({
        code: 'journal-damaged',
        details: { runId: record.runId, seq: 2 },
      });
    await damaged.close();
  });

  test('knows the agent, the chart and the parent of each of its runs', async () => {
    const file = makeBefore(schema);
    await sqlite(file).list();
    const db = new DatabaseSync(file);
    for (const { record, entries } of BEFORE.filter(({ seal }) => seal !== 'refused')) {
      const { agent, chart, parent } = z.looseObject(origin).parse(entries[0]?.event);
      const row = db.prepare(`SELECT ${ORIGIN_COLUMNS} FROM runs WHERE run_id = ?`).get(record.runId);
      expect({ ...row }).toEqual({
        agent_version: agent.version ?? null,
        chart_version: chart.version,
        chart_hash: chart.hash,
        parent: parent?.runId ?? null,
      });
    }
    expect(db.prepare('SELECT count(parent) AS children FROM runs').get()?.children).toBe(1);
    db.close();
  });
});

describe('a database with schema 2', () => {
  test('may lack the tables for large results', async () => {
    const file = makeBefore();
    change(file, 'DROP TABLE run_blobs; DROP TABLE blobs');
    const stores = Array.from({ length: 3 }, () => sqlite(file));
    const { runId } = BEFORE[0]?.record ?? expect.unreachable();
    for (const store of stores) expect(await store.readJson?.(runId)).toEqual(BEFORE[0]?.entries);
    await stores[0]?.putBlob(runId, 'ab'.repeat(32), '"large"');
    expect(await stores[1]?.readBlob(runId, 'ab'.repeat(32), 0, 3)).toEqual(
      new Uint8Array(Buffer.from('"la')),
    );
    for (const store of stores) await store.close();
    expect(describeSchema(file)).toEqual(describeSchema(await makeJournal(1)));
  });

  test('keeps its damage where it was, and the remains of a lost run do not become part of another run', async () => {
    const file = makeBefore();
    const [one, lost] = BEFORE.filter(({ seal }) => seal !== 'refused').map(({ record }) => record.runId);
    change(
      file,
      `UPDATE events SET json = '{' WHERE run_id = '${one}' AND seq = 2;
       DELETE FROM runs WHERE run_id = '${lost}'`,
    );
    const store = sqlite(file);
    const expected = { code: 'journal-damaged', details: { runId: one, seq: 2 } };
    expect(await fail(store.read(one ?? ''))).toMatchObject(expected);
    expect(await fail(store.read(lost ?? ''))).toMatchObject({ code: 'store-damaged' });
    for (const runId of ['new', 'newer']) {
      await store.create(begin(runId));
      expect(await store.read(runId)).toHaveLength(1);
    }
    expect((await store.list()).runs).toHaveLength(BEFORE.length + 1);
    await store.close();
  });

  test('cannot be written any more by a process of that release that has it open', async () => {
    const file = makeBefore();
    const old = new DatabaseSync(file);
    const insert = old.prepare(
      'INSERT INTO events (run_id, seq, type, at, json, sum) VALUES (?, ?, ?, ?, ?, ?)',
    );
    const snapshot = old.prepare('INSERT INTO snapshots (run_id, seq, state, sum) VALUES (?, ?, ?, ?)');
    await sqlite(file).list();
    const { runId } = BEFORE[0]?.record ?? expect.unreachable();
    expect(() => insert.run(runId, 99, 'run.noted', 1, '{}', 'sum')).toThrow(/events/);
    expect(() => snapshot.run(runId, 99, '{}', 'sum')).toThrow(/run_id/);
    old.close();
  });
});

describe('a large result', () => {
  test('that differs from what was written is reported and not returned', async () => {
    const file = await makeJournal(3);
    const store = sqlite(file);
    await store.putBlob('a', 'ab'.repeat(32), '"large"');
    change(file, `UPDATE blobs SET bytes = CAST('"other"' AS BLOB)`);
    expect(await fail(store.readBlob('a', 'ab'.repeat(32), 0, 3))).toMatchObject({ code: 'store-damaged' });
    await store.close();
  });
});

/** What takes a database of the current schema back to the one that counted no redactions. */
const TO_SCHEMA_7 = [
  'ALTER TABLE runs DROP COLUMN redactions',
  'ALTER TABLE runs RENAME COLUMN end_sum TO last_sum',
  'PRAGMA user_version = 7',
];

test('a database that counted no redactions: its runs have none, and its own release can no longer write to it', async () => {
  const file = await makeJournal(2);
  for (const step of TO_SCHEMA_7) change(file, step);
  const old = new DatabaseSync(file);
  const locate = old.prepare('SELECT seq, last_sum FROM runs WHERE run_id = ?');
  expect(locate.get('a')).toMatchObject({ seq: 2 });
  const store = sqlite(file);
  expect(await store.get('a')).toMatchObject({ seq: 2, redactions: 0 });
  expect(() => locate.get('a')).toThrow(/last_sum/);
  old.close();
  await appendOne(store, 3);
  expect(await store.read('a')).toHaveLength(3);
  await store.close();
  expect(describeSchema(file)).toEqual(describeSchema(await makeJournal(1)));
});

test('a database that knows no time to wake a run: each run that waits is work once', async () => {
  const file = await makeJournal(1);
  const store = sqlite(file);
  const rest = { events: [], status: 'waiting' } as const;
  await store.create(begin('waiting'), undefined, rest);
  await store.create(begin('ended'), undefined, { ...rest, status: 'finished' });
  await store.close();
  for (const step of [
    ...TO_SCHEMA_7,
    'DROP INDEX runs_at_work',
    'DROP INDEX runs_to_wake',
    'ALTER TABLE runs DROP COLUMN reserved_until',
    'ALTER TABLE feed RENAME COLUMN lowest TO floor',
    'PRAGMA user_version = 6',
  ])
    change(file, step);
  const migrated = sqlite(file);
  const work = { agents: [{ name: 'refunds' }], limit: 9, reserveMs: 0, now: 9_000 };
  expect((await migrated.takeWork?.(work))?.map(({ runId }) => runId)).toEqual(['a', 'waiting']);
  await migrated.claim('waiting', request('one', { now: 9_000 }));
  await migrated.release('waiting', 1);
  expect((await migrated.takeWork?.(work))?.map(({ runId }) => runId)).toEqual(['a']);
  await migrated.close();
  expect(describeSchema(file)).toEqual(describeSchema(await makeJournal(1)));
});

describe('a database of the first release', () => {
  test('is readable and writable, and then belongs to the current release', async () => {
    const file = makeFirstRelease({ a: 3, b: 1 });
    const store = sqlite(file);
    expect((await store.read('a')).map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(await store.loadSnapshot('a')).toEqual({ seq: 2, state: { value: 'turn' } });
    expect(await store.claim('a', request('one'))).toEqual({ type: 'claimed', epoch: 1, seq: 4 });
    await appendOne(store, 5);
    await store.close();
    expect(describeSchema(file)).toEqual(describeSchema(await makeJournal(1)));
    const later = sqlite(file);
    expect(await later.read('a')).toHaveLength(5);
    change(file, `UPDATE appends SET json = replace(json, '"2"', '"8"') WHERE run = 1 AND seq = 2`);
    expect(await fail(later.read('a'))).toMatchObject({
      code: 'journal-damaged',
      details: { runId: 'a', seq: 2 },
    });
  });

  test('keeps its damage where it is: the other runs are migrated completely', async () => {
    const file = makeFirstRelease({ a: 3, b: 3 });
    change(file, `UPDATE events SET json = '{' WHERE run_id = 'a' AND seq = 2`);
    change(file, `DELETE FROM events WHERE run_id = 'b' AND seq = 2`);
    const store = sqlite(file);
    expect(await fail(store.read('a'))).toMatchObject({
      code: 'journal-damaged',
      details: { runId: 'a', seq: 2 },
    });
    expect(await fail(store.read('b'))).toMatchObject({
      code: 'journal-damaged',
      details: { runId: 'b', seq: 2 },
    });
    expect((await store.list()).runs).toHaveLength(2);
    expect(await store.create(begin('c'))).toEqual({ epoch: 0, seq: 1 });
  });

  test('cannot be written any more by a process of that release that has it open', async () => {
    const file = makeFirstRelease({ a: 1 });
    const old = new DatabaseSync(file);
    const insert = old.prepare(INSERT_EVENT);
    const store = sqlite(file);
    expect(await store.read('a')).toHaveLength(1);
    const event = receive('2');
    expect(() => insert.run('a', 2, event.type, event.at, JSON.stringify(event))).toThrow(
      /no such table: events/,
    );
    old.close();
    expect(await store.read('a')).toHaveLength(1);
  });

  test('is migrated once when many processes open it at the same time', async () => {
    const file = makeFirstRelease({ a: 4 });
    const stores = Array.from({ length: 4 }, () => sqlite(file));
    const read = await Promise.all(stores.map(store => store.read('a')));
    expect(read.map(({ length }) => length)).toEqual([4, 4, 4, 4]);
    for (const store of stores) await store.close();
  });
});
