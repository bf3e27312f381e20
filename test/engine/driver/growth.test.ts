import { beforeAll, describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import { hashState, loadRun } from '../../../engine/journal/load-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Store, StoredSnapshot } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const STEPS = 2000;

/** Counts what a store is asked to write, in characters of JSON. */
class Counted {
  journal = 0;
  readonly snapshots: (StoredSnapshot & { characters: number })[] = [];
  readonly store: Store;

  constructor() {
    const store = watchStore(memory(), {
      beforeAppend: (_, events) => {
        this.journal += JSON.stringify(events).length;
      },
    });
    const save = store.saveSnapshot;
    store.saveSnapshot = async (runId, snapshot) => {
      this.snapshots.push({ ...snapshot, characters: JSON.stringify(snapshot.state).length });
      await save(runId, snapshot);
    };
    this.store = store;
  }
}

/** Runs `steps` rounds of one call; `step` gets the number of earlier model calls. */
async function runSteps({ store }: { store: Store }, step: (number: number) => void, steps = STEPS) {
  const host = new ManualHost();
  const agent = createAgent({
    name: 'a',
    host,
    store,
    limits: { turns: 2 * STEPS, toolCalls: 2 * STEPS },
    model: answerWith((_, before) => {
      step(before);
      if (before === steps) return { text: 'Measured.' };
      return { toolCalls: [{ callId: `call_${before}`, name: 'measure', input: { point: before } }] };
    }),
    tools: [makeTool('measure', { sideEffect: 'none', run: () => 'x'.repeat(200) })],
  });
  const run = await agent.start('go', { stream: false });
  expect((await run.settled()).status).toBe('finished');
  return { store, runId: run.id };
}

describe(`a run of ${STEPS.toLocaleString('en')} steps`, () => {
  const counted = new Counted();
  const written: number[] = [];
  let ended: { store: Store; runId: string };

  beforeAll(async () => {
    ended = await runSteps(counted, number => {
      written[number] = counted.journal;
    });
  });

  test('writes as much per late step as per early step', () => {
    const perStep = (from: number) => ((written[from + 100] ?? 0) - (written[from] ?? 0)) / 100;
    const [early, late] = [perStep(100), perStep(STEPS - 100)];
    expect(early).toBeGreaterThan(500);
    expect(late / early).toBeLessThan(1.05);
  });

  test('has snapshots whose total size is less than twice its journal', () => {
    const total = counted.snapshots.reduce((sum, { characters }) => sum + characters, 0);
    expect(total / counted.journal).toBeLessThan(2);
    const last = counted.snapshots.at(-1);
    expect(total / (last?.characters ?? 0)).toBeLessThan(5);
  });

  test('keeps the latest snapshot within a quarter of a long journal', () => {
    const seqs = [0, ...counted.snapshots.map(({ seq }) => seq)];
    for (const [place, seq] of seqs.slice(1).entries()) {
      const before = seqs[place] ?? 0;
      expect(seq - before).toBeLessThanOrEqual(Math.max(520, 0.26 * seq));
    }
    expect(seqs.length).toBeGreaterThan(4);
  });

  test('restores the same state from each of its snapshots', async () => {
    const { store, runId } = ended;
    const expected = hashState((await loadRun(store, runId)).state);
    for (const { seq, state } of [...counted.snapshots]) {
      await store.saveSnapshot(runId, { seq, state });
      expect(hashState((await loadRun(store, runId)).state)).toBe(expected);
    }
    expect(await replayRun(store, runId)).toMatchObject({ equal: true });
  });
});

test('a run continues when its intermediate snapshots cannot be saved', async () => {
  const store = memory();
  const save = store.saveSnapshot.bind(store);
  let failures = 0;
  store.saveSnapshot = async (runId, snapshot) => {
    if ((await store.get(runId))?.status === 'finished') return await save(runId, snapshot);
    failures += 1;
    throw new Error('the cache is full');
  };
  await runSteps({ store }, () => {}, 300);
  expect(failures).toBe(2);
});
