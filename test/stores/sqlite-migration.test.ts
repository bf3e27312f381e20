import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { begin, receive, request, say } from '../../stores/conformance/samples.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from './make-file.ts';
import { appendOne, change, fail, makeJournal } from './make-journal.ts';

/** The tables as the first release made them. */
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

function describeSchema(file: string): unknown[] {
  const db = new DatabaseSync(file);
  const rows = db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all();
  const version = db.prepare('PRAGMA user_version').get();
  db.close();
  return [version, ...rows];
}

describe('a database without a place for large results', () => {
  test('gets one when it is opened, and is one of the present release from then on', async () => {
    const [file, present] = [await makeJournal(3), await makeJournal(3)];
    change(file, 'DROP TABLE run_blobs; DROP TABLE blobs');
    const stores = Array.from({ length: 3 }, () => sqlite(file));
    for (const store of stores) expect(await store.read('a')).toHaveLength(3);
    await stores[0]?.putBlob('a', 'ab'.repeat(32), '"large"');
    expect(await stores[1]?.readBlob('a', 'ab'.repeat(32), 0, 3)).toEqual(new Uint8Array(Buffer.from('"la')));
    for (const store of stores) await store.close();
    expect(describeSchema(file)).toEqual(describeSchema(present));
  });

  test('a result that is not what was written is named, and not given', async () => {
    const file = await makeJournal(3);
    const store = sqlite(file);
    await store.putBlob('a', 'ab'.repeat(32), '"large"');
    change(file, `UPDATE blobs SET bytes = CAST('"other"' AS BLOB)`);
    expect(await fail(store.readBlob('a', 'ab'.repeat(32), 0, 3))).toMatchObject({ code: 'store-damaged' });
    await store.close();
  });
});

describe('a database of the first release', () => {
  test('is read, goes on being written, and is one of the present release from then on', async () => {
    const file = makeFirstRelease({ a: 3, b: 1 });
    const store = sqlite(file);
    expect((await store.read('a')).map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(await store.loadSnapshot('a')).toEqual({ seq: 2, state: { value: 'turn' } });
    expect(await store.findItem('item-b')).toMatchObject({ runId: 'b', seq: 1 });
    expect(await store.claim('a', request('one'))).toEqual({ type: 'claimed', epoch: 1, seq: 4 });
    await appendOne(store, 5);
    await store.close();
    expect(describeSchema(file)).toEqual(describeSchema(await makeJournal(1)));
    const later = sqlite(file);
    expect(await later.read('a')).toHaveLength(5);
    change(file, `UPDATE events SET json = replace(json, '"2"', '"8"') WHERE run_id = 'a' AND seq = 2`);
    expect(await fail(later.read('a'))).toMatchObject({
      code: 'journal-damaged',
      details: { runId: 'a', seq: 2 },
    });
  });

  test('keeps its damage where it is: the others are brought over whole', async () => {
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
    expect(await store.list()).toHaveLength(2);
    expect(await store.create(begin('c'))).toEqual({ epoch: 0, seq: 1 });
  });

  test('cannot be written any more by a process of that release that has it open', async () => {
    const file = makeFirstRelease({ a: 1 });
    const old = new DatabaseSync(file);
    const insert = old.prepare(INSERT_EVENT);
    const store = sqlite(file);
    expect(await store.read('a')).toHaveLength(1);
    const event = receive('2');
    expect(() => insert.run('a', 2, event.type, event.at, JSON.stringify(event))).toThrow(/events.sum/);
    old.close();
    expect(await store.read('a')).toHaveLength(1);
  });

  test('is brought over once by whoever comes first of many', async () => {
    const file = makeFirstRelease({ a: 4 });
    const stores = Array.from({ length: 4 }, () => sqlite(file));
    const read = await Promise.all(stores.map(store => store.read('a')));
    expect(read.map(({ length }) => length)).toEqual([4, 4, 4, 4]);
    for (const store of stores) await store.close();
  });
});
