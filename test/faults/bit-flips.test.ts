import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { loadRun } from '../../engine/journal/load-run.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { findFaults, makeDrilledAgent, makeEnvironment, work } from '../support/faults/drilled-run.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../support/sample.ts';
import { makeFile } from '../support/stores/make-file.ts';

type Read = { journal: JournalEntry[]; state: unknown; snapshot: unknown };

let bytes: Buffer;
let undamaged: ReadonlyMap<string, Read | string>;

/** The journal, the folded state and the snapshot of each run in a store, or the error code of its refusal. */
async function readRuns(store: Store): Promise<Map<string, Read | string>> {
  const found = new Map<string, Read | string>();
  for (const runId of RUNS) {
    try {
      const journal = await store.read(runId);
      const { state } = await loadRun(store, runId);
      const snapshot = (await store.loadSnapshot(runId))?.state;
      found.set(runId, { journal, state: [state.value, state.context], snapshot });
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      found.set(runId, error.code);
    }
  }
  return found;
}

const RUNS: string[] = [];

beforeAll(async () => {
  const file = makeFile();
  const store = sqlite(file);
  const host = new ManualHost();
  const world = makeEnvironment();
  const settled = await host.settle(work({ agent: makeDrilledAgent(host, store, world) }, store, world));
  expect(await findFaults(store, world, settled)).toEqual([]);
  RUNS.push(...(await store.list({ limit: 1000 })).runs.map(({ runId }) => runId));
  undamaged = await readRuns(store);
  await store.close();
  bytes = readFileSync(file);
});

const REFUSALS = ['journal-damaged', 'store-damaged', 'store-unavailable', 'run-unknown'];

test('a database with one flipped bit anywhere returns the original data or an error, never anything else', async () => {
  const step = TAKES_ALL ? 61 : 61 * 6;
  let [refused, unharmed] = [0, 0];
  for (let at = TAKES_ALL ? 0 : (SAMPLE_SEED % 6) * 61; at < bytes.length; at += step) {
    const damaged = Buffer.from(bytes);
    damaged.writeUInt8(damaged.readUInt8(at) ^ (1 << (at % 8)), at);
    const file = makeFile();
    writeFileSync(file, damaged);
    const store = sqlite(file);
    const found = await readRuns(store);
    await store.close().catch(() => {});
    for (const [runId, read] of found) {
      const original = undamaged.get(runId);
      if (typeof read === 'string') expect(REFUSALS, `byte ${at}`).toContain(read);
      else if (read.snapshot === undefined)
        expect({ ...read, snapshot: null }, `byte ${at}`).toEqual({ ...Object(original), snapshot: null });
      else expect(read, `byte ${at}`).toEqual(original);
    }
    if ([...found.values()].some(read => typeof read === 'string')) refused += 1;
    else unharmed += 1;
    expect(readFileSync(file).equals(damaged), `byte ${at}: the file was written`).toBe(true);
  }
  expect(refused).toBeGreaterThan(20);
  expect(unharmed).toBeGreaterThan(20);
});

test('one flipped bit in any entry is reported for that entry, and the other runs stay readable', async () => {
  let flipped = 0;
  for (const [runId, read] of undamaged) {
    if (typeof read === 'string') return expect.unreachable();
    for (const { seq, event } of read.journal) {
      const text = Buffer.from(JSON.stringify(event));
      if (!bytes.includes(text)) continue;
      flipped += 1;
      const damaged = Buffer.from(bytes);
      // Unused pages may hold copies.
      for (let place = bytes.indexOf(text); place !== -1; place = bytes.indexOf(text, place + 1)) {
        const at = place + ((seq * 31) % text.length);
        damaged.writeUInt8(damaged.readUInt8(at) ^ (1 << (seq % 7)), at);
      }
      const file = makeFile();
      writeFileSync(file, damaged);
      const store = sqlite(file);
      const error: unknown = await store.read(runId).catch(thrown => thrown);
      expect(error, `entry ${seq}`).toMatchObject({ code: 'journal-damaged', details: { runId, seq } });
      for (const other of RUNS) if (other !== runId) expect(await store.read(other)).not.toHaveLength(0);
      expect((await store.list({ limit: 1000 })).runs).toHaveLength(RUNS.length);
      await store.close();
    }
  }
  expect(flipped).toBeGreaterThan(30);
});
