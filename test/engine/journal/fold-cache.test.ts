import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { charsOf, FoldCache } from '../../../engine/journal/fold-cache.ts';
import { InheritedTranscripts } from '../../../engine/journal/load-history.ts';
import { hashState, loadRun } from '../../../engine/journal/load-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { makeFile } from '../../support/stores/make-file.ts';

const SECRET = 'ann@example.org';
const INPUT = '/1/input/0/content/0/text';

function makeAgent(store: Store) {
  const model = scripted([calls('pay'), { text: 'Paid.' }, { text: 'More.' }]);
  return createAgent({ name: 'desk', store, model, tools: [makeTool('pay', { approval: true })] });
}

/** A run that waits, in a file that two processes have open; the first has loaded it. */
async function beginRun() {
  const file = makeFile();
  const [store, other] = [sqlite(file), sqlite(file)];
  const run = await makeAgent(store).start(`For ${SECRET}.`, { runId: 'r' });
  await run.settled();
  await loadRun(store, 'r');
  return { file, store, other };
}

/** The same store as another process has it. */
function asElsewhere(store: Store): Store {
  return { ...store };
}

/** The store, and the place after which each page was read from it. */
function recordReads(store: Store) {
  const reads: number[] = [];
  const read: Store['read'] = (runId, after = 0, page) => {
    reads.push(after);
    return store.read(runId, after, page);
  };
  return { reads, store: { ...store, read } };
}

describe('a run that this process has driven or loaded', () => {
  test('is not read again, and then only after the last entry that was appended or read', async () => {
    const inner = memory();
    const { reads, store } = recordReads(inner);
    const run = await makeAgent(store).start('go', { runId: 'r' });
    await run.settled();
    reads.length = 0;
    const { seq, state } = await loadRun(store, 'r');
    expect(reads).toEqual([]);
    expect(hashState(state)).toBe(hashState((await loadRun(asElsewhere(inner), 'r')).state));
    await (await makeAgent(asElsewhere(inner)).open('r')).approve('call_0_0');
    const loaded = await loadRun(store, 'r');
    expect(reads[0]).toBe(seq);
    expect(hashState(loaded.state)).toBe(hashState((await loadRun(asElsewhere(inner), 'r')).state));
    const read = reads.length;
    await loadRun(store, 'r');
    expect(reads).toHaveLength(read);
  });

  test('is not read again because its record was read before the last entries were', async () => {
    const inner = memory();
    const { reads, store } = recordReads(inner);
    const run = await makeAgent(store).start('go', { runId: 'r' });
    await run.settled();
    const old = await inner.get('r');
    await run.approve('call_0_0');
    await run.settled();
    let isFirst = true;
    const get = store.get;
    store.get = async runId => {
      if (!isFirst) return await get(runId);
      isFirst = false;
      return old;
    };
    reads.length = 0;
    expect((await loadRun(store, 'r')).seq).toBe(run.durable.seq);
    expect(reads).toEqual([]);
  });

  test('is loaded with what another process has appended', async () => {
    const { store, other } = await beginRun();
    const run = await makeAgent(other).open('r');
    await run.approve('call_0_0');
    await run.settled();
    expect((await loadRun(store, 'r')).state).toEqual(run.durable.state);
  });

  test('is loaded without what another process has redacted, also by the runs that continue it', async () => {
    const { store, other } = await beginRun();
    const run = await makeAgent(store).open('r');
    await run.approve('call_0_0');
    await run.settled();
    const histories = InheritedTranscripts.of(store);
    expect(JSON.stringify([await loadRun(store, 'r'), await histories.load('r')])).toContain(SECRET);
    await other.redact('r', { paths: [INPUT] });
    expect(JSON.stringify([await loadRun(store, 'r'), await histories.load('r')])).not.toContain(SECRET);
  });

  test('is unknown once another process has deleted it, and another run under its id is loaded from its start', async () => {
    const { store, other } = await beginRun();
    await (await makeAgent(other).open('r')).cancel();
    await other.delete('r');
    await expect(loadRun(store, 'r')).rejects.toMatchObject({ code: 'run-unknown' });
    const next = await makeAgent(other).start('Something else.', { runId: 'r' });
    await next.settled();
    await next.approve('call_0_0');
    await next.settled();
    expect((await loadRun(store, 'r')).state).toEqual(next.durable.state);
  });

  test('is refused if an entry after those that were read is damaged', async () => {
    const { file, store, other } = await beginRun();
    await (await makeAgent(other).open('r')).send('Please hurry.');
    damage(file, 'Please hurry.', 'Please tarry.');
    await expect(loadRun(store, 'r')).rejects.toMatchObject({ code: 'journal-damaged' });
  });

  test('is still read as a whole to be proved: a replay finds an entry that was damaged since', async () => {
    const { file, store } = await beginRun();
    damage(file, SECRET, 'bob@example.org');
    await expect(replayRun(store, 'r')).rejects.toMatchObject({ code: 'journal-damaged' });
  });
});

test('folds are kept up to a number of characters: those not used for longest go first', () => {
  const cache = new FoldCache<string>(10);
  const version = (runId: string, seq = 1) => ({ runId, createdAt: 1, redactions: 0, seq });
  const keep = (runId: string, chars: number) => cache.keep(version(runId), { seq: 1, fold: runId, chars });
  const kept = () => ['a', 'b', 'c'].filter(runId => cache.find(version(runId)) !== undefined);
  keep('a', 4);
  keep('b', 4);
  cache.find(version('a'));
  keep('c', 4);
  expect(kept()).toEqual(['a', 'c']);
  keep('b', 11);
  expect(kept()).toEqual([]);
  keep('a', 1);
  expect(cache.find(version('a', 0))).toBeUndefined();
  expect(kept()).toEqual([]);
});

test('the size of a fold counts its texts', () => {
  expect(charsOf({ text: 'x'.repeat(1_000) })).toBeGreaterThanOrEqual(1_000);
  expect(charsOf([null, 1, true, { a: ['y'.repeat(500)] }])).toBeLessThan(700);
});

function damage(file: string, text: string, other: string): void {
  using database = new DatabaseSync(file);
  const { changes } = database
    .prepare('UPDATE appends SET json = replace(json, ?, ?) WHERE json LIKE ?')
    .run(text, other, `%${text}%`);
  expect(Number(changes)).toBeGreaterThan(0);
}
