import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Store } from '../../protocol/store.ts';
import { begin, receive, request } from '../../stores/conformance/check.ts';
import { SCHEMA, versionOf } from '../../stores/sqlite/schema.ts';
import { translateError } from '../../stores/sqlite/translate-error.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { change, fail, makeJournal } from '../support/stores/make-journal.ts';
import { makeDisk } from '../support/stores/sqlite-disk.ts';

function query(file: string, sql: string): unknown {
  const db = new DatabaseSync(file);
  const row = db.prepare(sql).get();
  db.close();
  return Object.values(row ?? {})[0];
}

describe('a file created by the sqlite store', () => {
  test('is created with its folder on first use, not earlier', async () => {
    const file = join(dirname(makeFile()), 'deep', 'er', 'runs.db');
    const store = sqlite(file);
    expect(() => readFileSync(file)).toThrow();
    await store.create(begin('a'));
    await store.close();
    expect(query(file, 'PRAGMA journal_mode')).toBe('wal');
    expect(query(file, 'PRAGMA user_version')).toBe(versionOf(SCHEMA));
  });

  test('holds all data after close, without its log', async () => {
    const file = await makeJournal(5);
    const copy = makeFile();
    copyFileSync(file, copy);
    expect(await sqlite(copy).read('a')).toHaveLength(5);
  });

  test('may exist empty beforehand', async () => {
    const file = makeFile();
    writeFileSync(file, '');
    expect(await sqlite(file).create(begin('a'))).toEqual({ epoch: 0, seq: 1 });
  });
});

test('a snapshot takes much less of a file than the JSON that it repeats', async () => {
  const file = await makeJournal(1);
  const store = sqlite(file);
  const items = Array.from({ length: 2_000 }, (_, n) => ({
    type: 'message',
    id: `item_${n}`,
    text: `Said ${n}.`,
  }));
  await store.saveSnapshot('a', { seq: 1, state: { items } });
  expect(await store.loadSnapshot('a')).toEqual({ seq: 1, state: { items } });
  expect(query(file, 'SELECT length(state) FROM snapshots')).toBeLessThan(JSON.stringify(items).length / 3);
});

describe('a file that the sqlite store cannot use', () => {
  test('is reported as damaged and left unchanged when it is not a database', async () => {
    const file = makeFile();
    const text = 'These are my notes, not a database. '.repeat(200);
    writeFileSync(file, text);
    const error = await fail(sqlite(file).list());
    expect(error).toMatchObject({ name: 'EngineError', code: 'store-damaged' });
    expect(error.message).toContain(file);
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test.each([1, 2, 99, 511, 512, 4096, 10_000])('is damaged when it is %d random bytes', async length => {
    const file = makeFile();
    const bytes = randomBytes(length);
    writeFileSync(file, bytes);
    const store = sqlite(file);
    for (const call of [store.get('a'), store.list(), store.read('a'), store.create(begin('a'))])
      expect(await fail(call)).toMatchObject({ code: 'store-damaged', details: { file } });
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  test.each([1, 100, 511, 4096, 5000, 12_288])(
    'is damaged when only its first %d bytes are left',
    async length => {
      const file = await makeJournal(12);
      truncateSync(file, length);
      expect(await fail(sqlite(file).read('a'))).toMatchObject({ code: 'store-damaged', details: { file } });
    },
  );

  test('is damaged when it was emptied and its log was not, and the log is kept', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a'));
    const copy = makeFile();
    writeFileSync(copy, '');
    copyFileSync(`${file}-wal`, `${copy}-wal`);
    const { size } = statSync(`${copy}-wal`);
    expect(size).toBeGreaterThan(0);
    expect(await fail(sqlite(copy).read('a'))).toMatchObject({
      code: 'store-damaged',
      details: { file: copy },
    });
    expect(statSync(`${copy}-wal`).size).toBe(size);
    await store.close();
  });

  test('is reported as unavailable when its schema is newer', async () => {
    const file = await makeJournal(1);
    const newer = versionOf(SCHEMA) + 1;
    change(file, `PRAGMA user_version = ${newer}`);
    const error = await fail(sqlite(file).read('a'));
    expect(error.code).toBe('store-unavailable');
    expect(error.message).toContain(`schema version ${newer}`);
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

  test('is reported as damaged when a table is missing', async () => {
    const file = await makeJournal(1);
    change(file, 'DROP TABLE snapshots');
    expect((await fail(sqlite(file).read('a'))).code).toBe('store-damaged');
  });

  test('is reported as unavailable when it is a folder, or its folder is a file', async () => {
    const file = makeFile();
    mkdirSync(file);
    expect((await fail(sqlite(file).list())).code).toBe('store-unavailable');
    const note = makeFile();
    writeFileSync(note, '');
    const error = await fail(sqlite(join(note, 'runs.db')).list());
    expect(error.code).toBe('store-unavailable');
    expect(error.message).toContain(note);
  });

  test.skipIf(process.getuid?.() === 0)('is reported as unavailable when it is not writable', async () => {
    const file = makeFile();
    chmodSync(dirname(file), 0o500);
    expect((await fail(sqlite(file).list())).code).toBe('store-unavailable');
    chmodSync(dirname(file), 0o700);
  });

  test('is reported as full, with advice, when the disk is full', () => {
    const db = new DatabaseSync(':memory:');
    db.exec('CREATE TABLE notes (text TEXT); PRAGMA max_page_count = 2');
    let full: unknown;
    try {
      db.exec('INSERT INTO notes VALUES (zeroblob(100000))');
    } catch (error) {
      full = error;
    }
    expect(translateError('/disk/runs.db', full)).toMatchObject({
      code: 'store-full',
      message: expect.stringMatching(/^\/disk\/runs.db .* full.* Free space .* resume/),
    });
  });

  test('is full from the first write without room until there is room', async () => {
    const disk = makeDisk();
    const store = sqlite(makeFile());
    await store.create(begin('a'));
    const append = (after: number) =>
      store.append('a', { after, input: true }, [receive('x'.repeat(2_000_000))], { status: 'running' });
    disk.fill();
    await store.assertRoom?.();
    expect(await fail(append(1))).toMatchObject({ code: 'store-full' });
    expect(await fail(store.assertRoom?.() ?? Promise.resolve())).toMatchObject({ code: 'store-full' });
    disk.empty();
    await store.assertRoom?.();
    disk.restore();
    expect(await append(1)).toEqual({ type: 'appended', seq: 2 });
    await store.close();
  });

  test('is opened again by the first call for which it is available', async () => {
    const file = makeFile();
    writeFileSync(file, 'not a database'.repeat(100));
    const store = sqlite(file);
    await fail(store.list());
    truncateSync(file);
    expect((await store.list()).runs).toEqual([]);
  });
});

describe('a file that changes while it is open', () => {
  const append = (store: Store, after: number) =>
    store.append('a', { after, input: true }, [receive('x')], { status: 'running' });

  async function open() {
    const file = await makeJournal(2);
    const store = sqlite(file);
    expect(await append(store, 2)).toEqual({ type: 'appended', seq: 3 });
    return { file, store };
  }

  describe.each([0, 60])('for %d s', seconds => {
    afterEach(() => void vi.useRealTimers());

    test.each<[string, (file: string) => void]>([
      ['deleted', file => rmSync(file)],
      ['deleted with its log', file => rmSync(dirname(file), { recursive: true })],
      ['moved away', file => renameSync(file, `${file}.old`)],
      ['without its log', file => rmSync(`${file}-wal`)],
      ['combined with the log of another file', file => replaceFile(`${file}-wal`)],
      ['replaced by a copy', file => replaceFile(file)],
    ])('acknowledges no commit and no read when it is %s', async (_, harm) => {
      const { file, store } = await open();
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 1000 * seconds });
      expect(await append(store, 3)).toEqual({ type: 'appended', seq: 4 });
      harm(file);
      const expected = { code: 'store-replaced', details: { file } };
      expect(await fail(append(store, 4))).toMatchObject(expected);
      expect(await fail(store.read('a'))).toMatchObject(expected);
      expect(await fail(store.chain('a'))).toMatchObject(expected);
      expect(await fail(append(store, 4))).toMatchObject(expected);
      await store.close();
    });
  });

  test('acknowledges no commit when it disappears during the write', async () => {
    const { file, store } = await open();
    const isDead = () => {
      rmSync(file);
      return true;
    };
    await store.claim('a', request('one'));
    expect(await fail(store.claim('a', request('two', { isDead })))).toMatchObject({
      code: 'store-replaced',
    });
  });

  test('is written again once it is back in place', async () => {
    const { file, store } = await open();
    renameSync(file, `${file}.old`);
    expect(await fail(store.get('a'))).toMatchObject({ code: 'store-replaced' });
    renameSync(`${file}.old`, file);
    expect(await append(store, 3)).toEqual({ type: 'appended', seq: 4 });
    await store.close();
  });

  test('acknowledges no commit when it was emptied', async () => {
    const { file, store } = await open();
    truncateSync(file);
    expect(await fail(append(store, 3))).toMatchObject({ code: 'store-damaged', details: { file } });
  });

  test('keeps working after another process checkpoints its log', async () => {
    const { file, store } = await open();
    change(file, 'PRAGMA wal_checkpoint(TRUNCATE); VACUUM');
    expect(await append(store, 3)).toEqual({ type: 'appended', seq: 4 });
    await store.close();
  });
});

function replaceFile(file: string): void {
  copyFileSync(file, `${file}.new`);
  renameSync(`${file}.new`, file);
}

describe('a locked file', () => {
  test('is reported as locked after the busy timeout, stays readable, and is writable once it is unlocked', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file, { busyTimeoutMs: 20 });
    await store.get('a');
    const other = new DatabaseSync(file);
    other.exec('BEGIN EXCLUSIVE');
    const append = () => store.append('a', { after: 1, input: true }, [receive('x')], { status: 'running' });
    const error = await fail(append());
    expect(error.code).toBe('store-locked');
    expect(error.message).toContain(file);
    expect(await store.read('a')).toHaveLength(1);
    other.exec('COMMIT');
    expect(await append()).toEqual({ type: 'appended', seq: 2 });
    other.close();
  });

  test('is reported as locked before it is a store', async () => {
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
