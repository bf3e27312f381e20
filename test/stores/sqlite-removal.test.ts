import { existsSync, readFileSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import type { Redaction, Store } from '../../protocol/store.ts';
import { begin, makeProgress, receive, say } from '../../stores/conformance/check.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';

const DIGEST = 'ab'.repeat(32);

/** Whether the file of a store or its log contains these words. */
function holds(file: string, words: string): boolean {
  return ['', '-wal'].some(end => existsSync(file + end) && readFileSync(file + end).includes(words));
}

/** Creates runs that are found by the characters of each, and others after them, so that the index has the words. */
async function sayRareWords(store: Store, runs: Readonly<Record<string, string>>): Promise<void> {
  const others = Array.from({ length: 6 }, (_, at) => [`other${at}`, 'others']);
  for (const [runId = '', rare = ''] of [...Object.entries(runs), ...others]) {
    const rest = { events: [], status: 'waiting', words: `first ${rare}` } as const;
    await store.create(begin(runId, { title: `title ${rare}` }), undefined, rest);
    for (let after = 1; after < 4; after += 1) {
      const words = `${runId} ${rare} ${after} `.padEnd(12_000, `${rare} and others`);
      await store.append(runId, { after, input: true }, [receive('x')], { status: 'waiting', words });
    }
  }
}

/** Appends to many runs in a fixed shuffled order, so that pages are split and entries move between them. */
async function grow(store: Store, runs: number, entries: number): Promise<number[]> {
  const lengths = Array.from({ length: runs }, () => 1);
  for (let run = 0; run < runs; run += 1) {
    await store.create(begin(`run${run}`, { input: [say(wordsOf(run, 9), `item${run}`)] }));
    await store.putBlob(`run${run}`, `${run}`.padStart(64, '0'), JSON.stringify(wordsOf(run, 9000)));
  }
  let random = 1;
  for (let count = runs; count < runs * entries; count += 1) {
    random = (random * 1_103_515_245 + 12_345) % 2 ** 31;
    const run = (random >> 8) % runs;
    const after = lengths[run] ?? 0;
    const text = wordsOf(run, random % 10 === 0 ? 900 : (random >> 4) % 60);
    const appended = store.append(`run${run}`, { after, input: true }, [receive(text)], {
      status: 'waiting',
    });
    lengths[run] = after + 1;
    if (count % 8 === 0) await appended;
    if (count % 9 === 0)
      await store.saveSnapshot(`run${run}`, { seq: after, state: wordsOf(run, after * 9) });
  }
  return lengths;
}

function wordsOf(run: number, times: number): string {
  return `secret-of-${run}-`.repeat(1 + times);
}

/** Redacts the words of every message of a run, and of its input. */
async function redactAll(store: Store, runId: string, after: number): Promise<Redaction> {
  const entries = (await store.read(runId)).map(({ seq }) => ({
    seq,
    event: seq === 1 ? begin(runId, { input: [say('gone', 'item')] }) : receive('gone'),
  }));
  const event = { type: 'run.redacted' as const, at: 9000, paths: ['/1'] };
  return {
    after,
    redactions: 0,
    entries,
    blobs: [],
    state: 'gone',
    progress: makeProgress('finished'),
    event,
    now: 9000,
    isDead: () => false,
  };
}

describe('data removed from a file', () => {
  test('is neither in the file nor in its log after a redaction, and other runs are unchanged', async () => {
    const file = makeFile();
    const store = sqlite(file);
    const lengths = await grow(store, 20, 60);
    const other = await store.read('run3');
    expect(holds(file, wordsOf(7, 0))).toBe(true);
    for (const run of [4, 7, 11, 16]) {
      const redaction = await redactAll(store, `run${run}`, lengths[run] ?? 0);
      await store.rewrite(`run${run}`, { ...redaction, blobs: [`${run}`.padStart(64, '0')] });
    }
    expect([4, 7, 11, 16].filter(run => holds(file, wordsOf(run, 0)))).toEqual([]);
    expect(holds(file, wordsOf(3, 0))).toBe(true);
    expect(await store.read('run3')).toEqual(other);
    expect(await store.read('run7')).toHaveLength(1 + (lengths[7] ?? 0));
    await store.close();
  });

  test('frees its space after a deletion', async () => {
    const file = makeFile();
    const store = sqlite(file);
    const lengths = await grow(store, 6, 20);
    const pages = readPragma(file, 'page_count');
    for (const run of [0, 1, 2, 3, 4]) await store.delete(`run${run}`);
    expect(readPragma(file, 'page_count')).toBeLessThan(pages / 3);
    expect(statSync(file).size).toBe(readPragma(file, 'page_count') * readPragma(file, 'page_size'));
    expect(statSync(`${file}-wal`).size).toBe(0);
    expect(await store.read('run5')).toHaveLength(lengths[5] ?? 0);
    expect(holds(file, wordsOf(2, 9))).toBe(false);
    await store.close();
  });

  test('also shrinks a file that another program created, and enables auto_vacuum for later removals', async () => {
    const file = makeFile();
    const old = new DatabaseSync(file);
    old.exec('PRAGMA journal_mode = WAL');
    old.close();
    const store = sqlite(file);
    const lengths = await grow(store, 4, 10);
    expect(readPragma(file, 'auto_vacuum')).toBe(0);
    const pages = readPragma(file, 'page_count');
    await store.delete('run0');
    await store.delete('run1');
    expect(readPragma(file, 'auto_vacuum')).toBe(2);
    expect(readPragma(file, 'page_count')).toBeLessThan(pages);
    expect(await store.read('run3')).toHaveLength(lengths[3] ?? 0);
    await store.close();
  });

  test('is reported as left in the log while another process reads, and gone with the next deletion', async () => {
    const file = makeFile();
    const store = sqlite(file, { busyTimeoutMs: 1 });
    for (const runId of ['a', 'b', 'c'])
      await store.create(begin(runId, { input: [say(`words of ${runId}`)] }));
    const reader = new DatabaseSync(file);
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM runs').get();
    await expect(store.delete('a')).rejects.toMatchObject({
      code: 'store-locked',
      message: expect.stringContaining('still in its log'),
    });
    expect(await store.get('a')).toBeUndefined();
    reader.exec('COMMIT');
    reader.close();
    await store.delete('b');
    expect([holds(file, 'words of a'), holds(file, 'words of b'), holds(file, 'words of c')]).toEqual([
      false,
      false,
      true,
    ]);
    await store.close();
  });

  test('includes the words by which searches found it, and the groups of their characters', async () => {
    const file = makeFile();
    const store = sqlite(file);
    const runs = { redacted: '龘靐齉齾', deleted: '爨癵驫麷', kept: '麤鱻灩虋' };
    await sayRareWords(store, runs);
    for (const rare of Object.values(runs)) expect(holds(file, rare.slice(-2))).toBe(true);
    await store.delete('deleted');
    expect(holds(file, runs.deleted)).toBe(false);
    await store.rewrite('redacted', await redactAll(store, 'redacted', 4));
    // The index has groups without the characters that they share with the group before.
    const ends = Object.values(runs).map(rare => rare.slice(-2));
    expect(ends.map(end => holds(file, end))).toEqual([false, false, true]);
    expect((await store.list({ text: `kept ${runs.kept}` })).runs).toHaveLength(1);
    await store.close();
  });

  test('includes words that were not yet in the index', async () => {
    const file = makeFile();
    const store = sqlite(file);
    for (const runId of ['a', 'b'])
      await store.create(begin(runId), undefined, {
        events: [],
        status: 'waiting',
        words: `only-of-${runId}`,
      });
    await store.delete('a');
    expect(['a', 'b'].map(runId => holds(file, `only-of-${runId}`))).toEqual([false, true]);
    expect((await store.list({ text: 'only-of-' })).runs.map(({ runId }) => runId)).toEqual(['b']);
    await store.close();
  });

  test('includes the blobs that no other run uses, and no part of the run is left', async () => {
    const file = makeFile();
    const store = sqlite(file);
    await store.create(begin('a', { input: [say('hello', 'i')] }));
    await store.saveSnapshot('a', { seq: 1, state: {} });
    await store.putBlob('a', DIGEST, JSON.stringify('x'.repeat(200_000)));
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }));
    await store.delete('a');
    expect(rowsOf(file)).toMatchObject({ runs: 1, journals: 1, appends: 1, blobs: 4, run_blobs: 1 });
    await store.delete('fork');
    expect(Object.values(rowsOf(file))).toEqual([0, 0, 0, 0, 0, 0]);
    await store.close();
  });
});

const TABLES = ['runs', 'journals', 'appends', 'snapshots', 'blobs', 'run_blobs'];

function rowsOf(file: string): Record<string, unknown> {
  const db = new DatabaseSync(file, { readOnly: true });
  const counts = TABLES.map(table => [table, db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n]);
  db.close();
  return Object.fromEntries(counts);
}

function readPragma(file: string, name: string): number {
  const db = new DatabaseSync(file);
  const [found] = Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {});
  db.close();
  return Number(found);
}
