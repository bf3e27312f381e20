import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { EngineError } from '../../protocol/error.ts';
import { begin, receive, request, say } from '../../stores/conformance/check.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { appendOne, change, fail, makeJournal } from '../support/stores/make-journal.ts';

function swap(column: string, one: number, other: number): string {
  return `UPDATE appends SET ${column} = (SELECT ${column} FROM appends AS other
    WHERE other.seq = ${one} + ${other} - appends.seq) WHERE seq IN (${one}, ${other})`;
}

function copy(columns: string, from: number, to: number): string {
  return `UPDATE appends SET (${columns}) = (SELECT ${columns} FROM appends WHERE seq = ${from}) WHERE seq = ${to}`;
}

/** A seeded sequence of pseudo-random numbers in [0, 1). */
function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

describe('a damaged journal', () => {
  test.each([
    ['an entry that is not JSON', `UPDATE appends SET json = '{"type":' WHERE seq = 3`, 3],
    ['an entry of an unknown type', `UPDATE appends SET json = '{"type":"x","at":1}' WHERE seq = 3`, 3],
    [
      'an entry with a missing field',
      `UPDATE appends SET json = json_remove(json, '$.items') WHERE seq = 3`,
      3,
    ],
    ['a gap', 'DELETE FROM appends WHERE seq = 3', 3],
    ['a missing first entry', 'DELETE FROM appends WHERE seq = 1', 1],
    ['a missing last entry', 'DELETE FROM appends WHERE seq >= 4', 4],
    ['a renumbered entry', 'UPDATE appends SET place = place + 5 WHERE seq = 4', 4],
    ['a changed word in an entry', `UPDATE appends SET json = replace(json, '"3 text', '"8 text')`, 3],
    ['a changed time in an entry', `UPDATE appends SET json = json_set(json, '$.at', 2001) WHERE seq = 3`, 3],
    ['two entries swapped', swap('json', 2, 4), 2],
    ['two entries swapped with their checksums', `${swap('json', 2, 4)}; ${swap('sums', 2, 4)}`, 2],
    ['an entry copied over the next one', copy('json, sums', 3, 4), 4],
    ['the last entries removed', 'DELETE FROM appends WHERE seq > 3; UPDATE runs SET seq = 3', 3],
    ['its first entries removed', 'DELETE FROM appends WHERE seq < 3; UPDATE runs SET base = 2', 3],
    ['a wrong checksum', `UPDATE appends SET sums = '0123456789abcdef' WHERE seq = 3`, 3],
    ['a missing checksum', `UPDATE appends SET sums = '' WHERE seq = 3`, 3],
    ['an extra checksum', 'UPDATE appends SET sums = sums || sums WHERE seq = 3', 3],
    ['another agent in its record', `UPDATE runs SET agent = 'other'`, 1],
    ['another time in its record', 'UPDATE runs SET created_at = created_at + 1', 1],
    ['another start in its record', 'UPDATE runs SET base = 2', 3],
    ['an earlier end in its record', 'UPDATE runs SET seq = 3', 3],
    ['a later end in its record', 'UPDATE runs SET seq = 7', 6],
  ])('with %s is rejected completely, naming run and entry', async (_, sql, seq) => {
    const file = await makeJournal(5);
    change(file, sql);
    const error = await fail(sqlite(file).read('a'));
    expect(error).toMatchObject({ code: 'journal-damaged', details: { runId: 'a', seq } });
    expect(error.message).toContain('"a"');
    expect(error.message).toContain(`entry ${seq}`);
  });

  test('with an entry of another run is rejected, even if the other entry has the same length', async () => {
    const file = await makeJournal(4);
    const store = sqlite(file);
    await store.create(begin('b', { input: [say('hello')] }));
    for (let seq = 2; seq <= 4; seq += 1) await appendOne(store, seq, 'b');
    await store.close();
    for (const seq of [1, 3]) {
      change(
        file,
        `UPDATE appends SET (json, sums) = (SELECT json, sums FROM appends WHERE run = 2 AND seq = ${seq})
         WHERE run = 1 AND seq = ${seq}`,
      );
      const damaged = sqlite(file);
      const expected = { code: 'journal-damaged', details: { runId: 'a' } };
      expect(await fail(damaged.read('a'))).toMatchObject(expected);
      expect(await damaged.read('b')).toHaveLength(4);
      await damaged.close();
    }
  });

  test('is also rejected when only its end or its messages are read', async () => {
    const file = await makeJournal(5);
    change(file, `UPDATE appends SET json = replace(json, '"4 text', '"8 text')`);
    const store = sqlite(file);
    expect(await fail(store.read('a', 3))).toMatchObject({ details: { runId: 'a', seq: 4 } });
    expect(await store.read('a', 4)).toHaveLength(1);
    expect(await store.readJson?.('a', 3)).toHaveLength(3);
    const words = store.readJson?.('a') ?? Promise.resolve();
    expect(await fail(words)).toMatchObject({ details: { runId: 'a', seq: 4 } });
  });

  test('does not prevent other runs from being read', async () => {
    const file = await makeJournal(3);
    change(file, 'UPDATE appends SET json = 1');
    const store = sqlite(file);
    await store.create(begin('b'));
    expect(await store.read('b')).toHaveLength(1);
  });

  test('is written completely or not at all when SQLite rolls back by itself', async () => {
    const file = await makeJournal(2);
    const store = sqlite(file);
    await store.get('a');
    change(
      file,
      `CREATE TRIGGER fault AFTER INSERT ON appends WHEN new.seq = 4 BEGIN SELECT RAISE(ROLLBACK, 'fault'); END`,
    );
    const append = () =>
      store.append('a', { after: 2, input: true }, [receive('3'), receive('4')], { status: 'running' });
    expect((await fail(append())).code).toBe('store-damaged');
    expect(await store.read('a')).toHaveLength(2);
    change(file, 'DROP TRIGGER fault');
    expect(await append()).toEqual({ type: 'appended', seq: 4 });
  });

  test('is created completely or not at all when SQLite rolls back by itself', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file);
    await store.get('a');
    change(
      file,
      `CREATE TRIGGER fault AFTER INSERT ON appends WHEN new.seq = 3 BEGIN SELECT RAISE(ROLLBACK, 'fault'); END`,
    );
    const rest = { events: [receive('2'), receive('3')], status: 'waiting' } as const;
    expect((await fail(store.create(begin('b'), undefined, rest))).code).toBe('store-damaged');
    expect(await store.get('b')).toBeUndefined();
    change(file, 'DROP TRIGGER fault');
    expect(await store.create(begin('b'), undefined, rest)).toEqual({ epoch: 0, seq: 3 });
  });

  test('with an entry after its recorded end does not overwrite that entry', async () => {
    const file = await makeJournal(3);
    change(file, 'UPDATE runs SET seq = 2, end_sum = (SELECT sums FROM appends WHERE seq = 2)');
    const store = sqlite(file);
    const append = store.append('a', { after: 2, input: true }, [receive('x')], { status: 'running' });
    expect(await fail(append)).toMatchObject({ code: 'journal-damaged', details: { runId: 'a', seq: 3 } });
    change(file, 'UPDATE runs SET seq = 3, end_sum = (SELECT sums FROM appends WHERE seq = 3)');
    expect(await store.read('a')).toHaveLength(3);
  });

  test('with an invalid record is reported', async () => {
    const file = await makeJournal(1);
    change(file, `UPDATE runs SET status = 'dancing'`);
    const error = await fail(sqlite(file).list());
    expect(error).toMatchObject({ code: 'store-damaged', details: { runId: 'a' } });
  });

  test('with an invalid record is reported and left out of the list of the other runs', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file);
    await store.create(begin('b'));
    change(file, `UPDATE runs SET owner = '{"id"', lease_until = 5 WHERE run_id = 'a'`);
    const damaged: EngineError[] = [];
    const listed = (await store.list({ onDamaged: error => damaged.push(error) })).runs;
    expect(listed.map(({ runId }) => runId)).toEqual(['b']);
    expect(damaged).toMatchObject([{ code: 'store-damaged', details: { runId: 'a' } }]);
    expect((await fail(store.get('a'))).message).toContain('"a"');
  });

  test('without its record is reported as damaged, not as unknown', async () => {
    const file = await makeJournal(3);
    change(file, `UPDATE runs SET run_id = 'z'`);
    const store = sqlite(file);
    const calls = [
      store.get('a'),
      store.read('a'),
      store.append('a', { after: 3, input: true }, [receive('x')], { status: 'running' }),
      store.claim('a', request('one')),
      store.chain('a'),
      store.create(begin('a')),
    ];
    for (const error of await Promise.all(calls.map(fail)))
      expect(error).toMatchObject({ code: 'store-damaged', details: { runId: 'a' } });
    expect(await fail(store.read('b'))).toMatchObject({ code: 'run-unknown' });
  });

  test('with an impossible count in its record is rejected', async () => {
    const file = await makeJournal(1);
    change(file, 'UPDATE runs SET epoch = 9223372036854775807');
    expect((await fail(sqlite(file).claim('a', request('one')))).code).toBe('store-damaged');
  });

  test('loses nothing through a damaged snapshot: the store reports none', async () => {
    const file = await makeJournal(2);
    const store = sqlite(file);
    await store.saveSnapshot('a', { seq: 2, state: { value: 'resting' } });
    change(file, `UPDATE snapshots SET state = x'7b'`);
    expect(await store.loadSnapshot('a')).toBeUndefined();
    await store.saveSnapshot('a', { seq: 2, state: { value: 'resting' } });
    expect(await store.loadSnapshot('a')).toEqual({ seq: 2, state: { value: 'resting' } });
  });

  test.each([
    ['a changed word', `UPDATE snapshots SET state = CAST('{"value":"testing"}' AS BLOB)`],
    ['a changed position', 'UPDATE snapshots SET seq = 1'],
    [
      'the state of another run',
      `UPDATE snapshots SET (state, sum) = (SELECT state, sum FROM snapshots WHERE run = 2)`,
    ],
  ])('ignores a snapshot with %s', async (_, sql) => {
    const file = await makeJournal(2);
    const store = sqlite(file);
    await store.create(begin('b'));
    await store.saveSnapshot('a', { seq: 2, state: { value: 'resting' } });
    await store.saveSnapshot('b', { seq: 1, state: { value: 'turn' } });
    change(file, sql);
    expect(await store.loadSnapshot('a')).toBeUndefined();
  });

  test('that exists only in a damaged snapshot is rejected by name', async () => {
    const file = makeFile();
    const store = sqlite(file);
    const run = { runId: 'a', agent: 'refunds', status: 'waiting', createdAt: 1, seq: 7 } as const;
    const listed = { title: '', labels: {} };
    await store.adopt({ ...run, ...listed, state: { value: 'resting' } });
    change(file, `UPDATE snapshots SET state = CAST('{"value":"testing"}' AS BLOB)`);
    const expected = { code: 'journal-damaged', details: { runId: 'a', seq: 7 } };
    expect(await fail(store.loadSnapshot('a'))).toMatchObject(expected);
  });

  test('with garbage in its pages is rejected, never read partially', async () => {
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

  test('with random bytes anywhere is rejected as damaged or returns what was written: no run gets lost', async () => {
    const whole = await makeJournal(12);
    const bytes = readFileSync(whole);
    const journal = await sqlite(whole).read('a');
    const random = makeRandom(7);
    let refused = 0;
    for (let round = 0; round < 150; round += 1) {
      const damaged = Buffer.from(bytes);
      const at = Math.floor(random() * bytes.length);
      const end = Math.min(bytes.length, at + 1 + Math.floor(random() * 5000));
      for (let place = at; place < end; place += 1) damaged.writeUInt8(Math.floor(random() * 256), place);
      const file = makeFile();
      writeFileSync(file, damaged);
      const store = sqlite(file);
      const result = await store.read('a').catch((error: EngineError) => error.code);
      await store.close();
      if (typeof result !== 'string') expect(result).toEqual(journal);
      else expect(['store-damaged', 'journal-damaged'], `bytes ${at} to ${end}`).toContain(result);
      if (typeof result === 'string') refused += 1;
    }
    expect(refused).toBeGreaterThan(40);
  });

  test('with a torn log ends at a commit: no entry is partial', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a'));
    for (let seq = 2; seq <= 20; seq += 1) await appendOne(store, seq);
    const lengths = new Set<number>();
    for (const part of [0.4, 0.55, 0.77, 0.9, 1]) {
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
