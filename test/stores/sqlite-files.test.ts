import { chmodSync, copyFileSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { begin, receive } from '../../stores/conformance/samples.ts';
import { translateError } from '../../stores/sqlite/translate-error.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from './make-file.ts';
import { change, fail, makeJournal } from './make-journal.ts';

function query(file: string, sql: string): unknown {
  const db = new DatabaseSync(file);
  const row = db.prepare(sql).get();
  db.close();
  return Object.values(row ?? {})[0];
}

describe('a file the sqlite store makes', () => {
  test('comes with its folder when it is first used, not before', async () => {
    const file = join(dirname(makeFile()), 'deep', 'er', 'runs.db');
    const store = sqlite(file);
    expect(() => readFileSync(file)).toThrow();
    await store.create(begin('a'));
    await store.close();
    expect(query(file, 'PRAGMA journal_mode')).toBe('wal');
    expect(query(file, 'PRAGMA user_version')).toBe(2);
  });

  test('holds everything after close, without its log', async () => {
    const file = await makeJournal(5);
    const copy = makeFile();
    copyFileSync(file, copy);
    expect(await sqlite(copy).read('a')).toHaveLength(5);
  });

  test('may be empty beforehand', async () => {
    const file = makeFile();
    writeFileSync(file, '');
    expect(await sqlite(file).create(begin('a'))).toEqual({ epoch: 0, seq: 1 });
  });
});

describe('a file the sqlite store cannot use', () => {
  test('is named as damaged when it is not a database, and stays as it was', async () => {
    const file = makeFile();
    const text = 'These are my notes, not a database. '.repeat(200);
    writeFileSync(file, text);
    const error = await fail(sqlite(file).list());
    expect(error).toMatchObject({ name: 'EngineError', code: 'store-damaged' });
    expect(error.message).toContain(file);
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test('is named as unavailable when its schema is newer', async () => {
    const file = await makeJournal(1);
    change(file, 'PRAGMA user_version = 3');
    const error = await fail(sqlite(file).read('a'));
    expect(error.code).toBe('store-unavailable');
    expect(error.message).toContain('schema version 3');
    expect(error.message).toContain(file);
  });

  test("is left alone when it is another program's database", async () => {
    const file = makeFile();
    change(file, 'CREATE TABLE bookmarks (url TEXT)');
    const error = await fail(sqlite(file).create(begin('a')));
    expect(error.code).toBe('store-unavailable');
    expect(error.message).toContain('another program');
    expect(query(file, 'SELECT count(*) FROM sqlite_schema')).toBe(1);
    expect(query(file, 'PRAGMA journal_mode')).toBe('delete');
  });

  test('is named as damaged when a table is missing', async () => {
    const file = await makeJournal(1);
    change(file, 'DROP TABLE snapshots');
    expect((await fail(sqlite(file).read('a'))).code).toBe('store-damaged');
  });

  test('is named as unavailable when it is a folder, or its folder is a file', async () => {
    const file = makeFile();
    mkdirSync(file);
    expect((await fail(sqlite(file).list())).code).toBe('store-unavailable');
    const note = makeFile();
    writeFileSync(note, '');
    const error = await fail(sqlite(join(note, 'runs.db')).list());
    expect(error.code).toBe('store-unavailable');
    expect(error.message).toContain(note);
  });

  test.skipIf(process.getuid?.() === 0)('is named as unavailable when it may not be written', async () => {
    const file = makeFile();
    chmodSync(dirname(file), 0o500);
    expect((await fail(sqlite(file).list())).code).toBe('store-unavailable');
    chmodSync(dirname(file), 0o700);
  });

  test('is named as unavailable when the disk is full', () => {
    const db = new DatabaseSync(':memory:');
    db.exec('CREATE TABLE notes (text TEXT); PRAGMA max_page_count = 2');
    let full: unknown;
    try {
      db.exec('INSERT INTO notes VALUES (zeroblob(100000))');
    } catch (error) {
      full = error;
    }
    expect(translateError('/disk/runs.db', full)).toMatchObject({
      code: 'store-unavailable',
      message: expect.stringMatching(/^\/disk\/runs.db .* full.* space/),
    });
  });

  test('is opened again by the next call once it can be', async () => {
    const file = makeFile();
    writeFileSync(file, 'not a database'.repeat(100));
    const store = sqlite(file);
    await fail(store.list());
    truncateSync(file);
    expect(await store.list()).toEqual([]);
  });
});

describe('a locked file', () => {
  test('is named as locked after the time to wait, can still be read, and is written once it is free', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file, { busyTimeoutMs: 20 });
    await store.get('a');
    const other = new DatabaseSync(file);
    other.exec('BEGIN EXCLUSIVE');
    const append = () => store.append('a', { after: 1, input: true }, [receive('x')], 'running');
    const error = await fail(append());
    expect(error.code).toBe('store-locked');
    expect(error.message).toContain(file);
    expect(await store.read('a')).toHaveLength(1);
    other.exec('COMMIT');
    expect(await append()).toEqual({ type: 'appended', seq: 2 });
    other.close();
  });

  test('is named as locked when it is not a store yet', async () => {
    const file = makeFile();
    const other = new DatabaseSync(file);
    other.exec('BEGIN EXCLUSIVE');
    const store = sqlite(file, { busyTimeoutMs: 20 });
    expect((await fail(store.create(begin('a')))).code).toBe('store-locked');
    other.exec('COMMIT');
    other.close();
    expect((await store.create(begin('a'))).seq).toBe(1);
  });
});
