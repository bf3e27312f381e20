import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { EngineError } from '../../protocol/error.ts';
import { begin, receive } from '../../stores/conformance/samples.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from './make-file.ts';
import { appendOne, change, fail, makeJournal } from './make-journal.ts';

describe('a damaged journal', () => {
  test.each([
    ['an entry that is not JSON', `UPDATE events SET json = '{"type":' WHERE seq = 3`, 3],
    ['an entry of an unknown type', `UPDATE events SET json = '{"type":"x","at":1}' WHERE seq = 3`, 3],
    [
      'an entry with a field missing',
      `UPDATE events SET json = json_remove(json, '$.items') WHERE seq = 3`,
      3,
    ],
    ['a gap', 'DELETE FROM events WHERE seq = 3', 3],
    ['a missing start', 'DELETE FROM events WHERE seq = 1', 1],
    ['a missing end', 'DELETE FROM events WHERE seq >= 4', 4],
    ['a renumbered entry', 'UPDATE events SET seq = 9 WHERE seq = 4', 4],
  ])('with %s is refused whole, naming run and entry', async (_, sql, seq) => {
    const file = await makeJournal(5);
    change(file, sql);
    const error = await fail(sqlite(file).read('a'));
    expect(error).toMatchObject({ code: 'journal-damaged', details: { runId: 'a', seq } });
    expect(error.message).toContain('"a"');
    expect(error.message).toContain(`entry ${seq}`);
  });

  test('does not keep other runs from being read', async () => {
    const file = await makeJournal(3);
    change(file, 'UPDATE events SET json = 1');
    const store = sqlite(file);
    await store.create(begin('b'));
    expect(await store.read('b')).toHaveLength(1);
  });

  test('is written whole or not at all when SQLite rolls back by itself', async () => {
    const file = await makeJournal(2);
    const store = sqlite(file);
    await store.get('a');
    change(
      file,
      `CREATE TRIGGER fault AFTER INSERT ON events WHEN new.seq = 4 BEGIN SELECT RAISE(ROLLBACK, 'fault'); END`,
    );
    const append = () =>
      store.append('a', { after: 2, input: true }, [receive('3'), receive('4')], 'running');
    expect((await fail(append())).code).toBe('store-damaged');
    expect(await store.read('a')).toHaveLength(2);
    change(file, 'DROP TRIGGER fault');
    expect(await append()).toEqual({ type: 'appended', seq: 4 });
  });

  test('is begun whole or not at all when SQLite rolls back by itself', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file);
    await store.get('a');
    change(
      file,
      `CREATE TRIGGER fault AFTER INSERT ON events WHEN new.seq = 3 BEGIN SELECT RAISE(ROLLBACK, 'fault'); END`,
    );
    const rest = { events: [receive('2'), receive('3')], status: 'waiting' } as const;
    expect((await fail(store.create(begin('b'), undefined, rest))).code).toBe('store-damaged');
    expect(await store.get('b')).toBeUndefined();
    change(file, 'DROP TRIGGER fault');
    expect(await store.create(begin('b'), undefined, rest)).toEqual({ epoch: 0, seq: 3 });
  });

  test('is found when an item leads to it', async () => {
    const file = await makeJournal(3);
    change(file, 'DELETE FROM events WHERE seq = 1');
    expect((await fail(sqlite(file).findItem('i0'))).code).toBe('journal-damaged');
  });

  test('with an entry behind its recorded end is not written over', async () => {
    const file = await makeJournal(3);
    change(file, 'UPDATE runs SET seq = 2');
    const store = sqlite(file);
    const append = store.append('a', { after: 2, input: true }, [receive('x')], 'running');
    expect((await fail(append)).code).toBe('store-damaged');
    change(file, 'UPDATE runs SET seq = 3');
    expect(await store.read('a')).toHaveLength(3);
  });

  test('with a record that makes no sense is named', async () => {
    const file = await makeJournal(1);
    change(file, `UPDATE runs SET status = 'dancing'`);
    const error = await fail(sqlite(file).list());
    expect(error).toMatchObject({ code: 'store-damaged', details: { runId: 'a' } });
  });

  test('loses nothing by a damaged snapshot: there is none', async () => {
    const file = await makeJournal(2);
    const store = sqlite(file);
    await store.saveSnapshot('a', { seq: 2, state: { value: 'resting' } });
    change(file, `UPDATE snapshots SET state = '{'`);
    expect(await store.loadSnapshot('a')).toBeUndefined();
  });

  test('with garbage in its pages is refused, never half read', async () => {
    const whole = await makeJournal(60);
    const bytes = readFileSync(whole);
    const pages = bytes.length / 4096;
    let refused = 0;
    for (let page = 1; page < pages; page += 1) {
      const damaged = Buffer.from(bytes);
      damaged.fill(0xa5, page * 4096, (page + 1) * 4096);
      const file = makeFile();
      writeFileSync(file, damaged);
      const store = sqlite(file);
      const result = await store.read('a').catch((error: EngineError) => error);
      await store.close();
      if (Array.isArray(result)) expect(result).toHaveLength(60);
      else expect(['store-damaged', 'journal-damaged']).toContain(result.code);
      if (!Array.isArray(result)) refused += 1;
    }
    expect(refused).toBeGreaterThan(10);
  });

  test('with a torn log ends at a commit: no entry is half there', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a'));
    for (let seq = 2; seq <= 20; seq += 1) await appendOne(store, seq);
    const lengths = new Set<number>();
    for (const part of [0.3, 0.5, 0.77, 0.9, 1]) {
      const copy = makeFile();
      const log = readFileSync(`${file}-wal`);
      copyFileSync(file, copy);
      writeFileSync(`${copy}-wal`, log.subarray(0, Math.floor(log.length * part)));
      const torn = sqlite(copy);
      const record = await torn.get('a');
      const journal = await torn.read('a');
      expect(journal.map(({ seq }) => seq)).toEqual(
        Array.from({ length: record?.seq ?? 0 }, (_, i) => i + 1),
      );
      lengths.add(journal.length);
      await torn.close();
    }
    await store.close();
    expect(lengths.size).toBe(5);
    expect(lengths).toContain(20);
  });
});
