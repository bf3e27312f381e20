import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { openDatabase } from '../../stores/sqlite/open-database.ts';
import { SCHEMA, type Schema, versionOf } from '../../stores/sqlite/schema.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { change, fail, makeJournal } from '../support/stores/make-journal.ts';

/** Tables of later releases than this one: with a colour, and then with another name for a sum. */
const COLOURED = "ALTER TABLE runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'";
const RENAMED = 'ALTER TABLE runs RENAME COLUMN end_sum TO last_sum';

function later(...steps: string[]): Schema {
  return { ...SCHEMA, steps: [...SCHEMA.steps, ...steps] };
}

function open(file: string, schema: Schema): number {
  const db = openDatabase(file, schema);
  const { user_version: version } = db.prepare('PRAGMA user_version').get() ?? {};
  db.close();
  return Number(version);
}

describe('a database of an older version', () => {
  test('gets the steps that it lacks, each once, and keeps its runs', async () => {
    const file = await makeJournal(3);
    const now = versionOf(SCHEMA);
    expect(open(file, later(COLOURED))).toBe(now + 1);
    expect(open(file, later(COLOURED))).toBe(now + 1);
    expect(open(file, later(COLOURED, RENAMED))).toBe(now + 2);
    const db = new DatabaseSync(file);
    expect(db.prepare('SELECT run_id, seq, colour, last_sum FROM runs').all()).toEqual([
      { run_id: 'a', seq: 3, colour: 'red', last_sum: expect.any(String) },
    ]);
    db.close();
  });

  test('stays as it was if a step fails', async () => {
    const file = await makeJournal(2);
    expect(() => open(file, later(COLOURED, 'ALTER TABLE missing ADD COLUMN one'))).toThrow(/missing/);
    const store = sqlite(file);
    expect(await store.read('a')).toHaveLength(2);
    await store.close();
    expect(open(file, SCHEMA)).toBe(versionOf(SCHEMA));
  });

  test('can no longer be written by a process that has it open, and is refused by its release', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file);
    expect(await store.read('a')).toHaveLength(1);
    open(file, later(RENAMED));
    expect((await fail(store.read('a'))).message).toContain('end_sum');
    await store.close();
    expect(await fail(sqlite(file).read('a'))).toMatchObject({
      code: 'store-unavailable',
      message: expect.stringContaining(`has schema version ${versionOf(SCHEMA) + 1}`),
    });
  });
});

test('a new database has the current version at once, without a step', () => {
  const file = makeFile();
  expect(open(file, { ...SCHEMA, steps: ['this is not SQL'] })).toBe(2);
});

test('a large result that differs from what was written is reported and not returned', async () => {
  const file = await makeJournal(3);
  const store = sqlite(file);
  await store.putBlob('a', 'ab'.repeat(32), '"large"');
  change(file, `UPDATE blobs SET bytes = CAST('"other"' AS BLOB)`);
  expect(await fail(store.readBlob('a', 'ab'.repeat(32), 0, 3))).toMatchObject({ code: 'store-damaged' });
  await store.close();
});
