import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import { hashState, loadRun } from '../../../engine/journal/load-run.ts';
import {
  exportRun,
  hashHead,
  hashNext,
  hashSeal,
  type RunExport,
} from '../../../engine/replay/export-run.ts';
import { readExport } from '../../../engine/replay/read-export.ts';
import { replayExport } from '../../../engine/replay/replay-export.ts';
import type { ReplayedEntry } from '../../../engine/replay/replay-journal.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { runDrill } from '../../support/engine/crash-drill.ts';
import { answerWith } from '../../support/engine/models.ts';
import { type Recipe, recipes, recordRun } from '../../support/engine/recorded-run.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { randomCases } from '../../support/sample.ts';

const RECIPE: Recipe = {
  turns: [
    { text: 'Let me see.', toolCalls: [{ name: 'read' }, { name: 'act' }] },
    { error: { code: 'overloaded', times: 1 } },
    { toolCalls: [{ name: 'show' }] },
    { text: 'Done.' },
  ],
  words: ['approve', 'answer'],
};

/** The text of the exported file. */
function asFile(exported: RunExport): string {
  return JSON.stringify(exported, null, 2);
}

function replayText(text: string) {
  return replayExport(readExport(text, 'the file'));
}

/** The export file with one change, as an editor would make it. */
function tamper(exported: RunExport, change: (copy: RunExport) => void): string {
  const copy: RunExport = JSON.parse(asFile(exported));
  change(copy);
  return asFile(copy);
}

/** Recomputes all hashes, as a forger of the whole file could. */
function rechain(copy: RunExport): void {
  copy.hashes = [];
  for (const { seq, event } of copy.journal) {
    const before = copy.hashes.at(-1) ?? hashHead(copy.run, copy.chain?.at(-1)?.seal);
    copy.hashes.push(hashNext(before, seq, event));
  }
  copy.seal = hashSeal(copy.hashes.at(-1) ?? '', copy.end);
}

/** A store, and the names of the methods called on it. */
function listen(store: Store): { store: Store; called: Set<string> } {
  const called = new Set<string>();
  return { store: watchStore(store, { before: method => void called.add(method) }), called };
}

describe('replay', () => {
  test('of any recorded run is equal, from the store and from its export', async () => {
    await fc.assert(
      fc.asyncProperty(recipes, async recipe => {
        const { store, run } = await recordRun(recipe);
        const fromStore = await replayRun(store, run.id);
        const { state, seq } = await loadRun(store, run.id);
        expect(fromStore).toMatchObject({ equal: true, entries: seq });
        expect(fromStore.end?.state.value).toEqual(state.value);
        const exported = await exportRun(store, run.id);
        const fromFile = replayText(asFile(exported));
        expect(fromFile).toMatchObject({ equal: true, entries: seq, end: { hash: exported.end.stateHash } });
        expect(fromFile.end?.hash).toBe(fromStore.end?.hash);
      }),
      { numRuns: randomCases(30) },
    );
  });

  test('of a run that crashed anywhere is equal', async () => {
    for (const deaths of [[], [12], [20, 9], [25], [31, 14]]) {
      const { store, runId } = await runDrill({ deaths });
      expect(await replayRun(store, runId)).toMatchObject({ equal: true });
    }
  });

  test('reads the store and writes nothing', async () => {
    const { store, run } = await recordRun(RECIPE);
    const watched = listen(store);
    await replayRun(watched.store, run.id);
    await exportRun(watched.store, run.id);
    expect([...watched.called].sort()).toEqual(['loadSnapshot', 'read']);
  });

  test('reports the states in order, and the reason for each decision', async () => {
    const { store, run } = await recordRun(RECIPE);
    const seen: ReplayedEntry[] = [];
    await replayRun(store, run.id, entry => seen.push(entry));
    expect(seen.map(({ event }) => event)).toEqual((await store.read(run.id)).map(({ event }) => event));
    const decided = seen.flatMap(({ next }) => (next === undefined ? [] : [next]));
    expect(decided.map(({ type }) => type)).toEqual([
      'callModel',
      'executeTools',
      'interruptForApproval',
      'executeTools',
      'callModel',
      'backOff',
      'callModel',
      'awaitResults',
      'callModel',
      'finish',
    ]);
    for (const { why } of decided) expect(why).not.toBe('');
  });

  test('of a run whose snapshot differs from its fold names the entry and the difference', async () => {
    const { store, run } = await recordRun(RECIPE);
    const { seq, image: state } = structuredClone(run.snapshot()) as { seq: number; image: JsonValue };
    if (isJsonObject(state) && isJsonObject(state.state) && isJsonObject(state.state.context))
      state.state.context.turns = 99;
    await store.saveSnapshot(run.id, { seq, state });
    const verdict = await replayRun(store, run.id);
    expect(verdict).toMatchObject({ equal: false, entries: seq, problem: { seq } });
    expect(verdict.problem?.message).toContain('context.turns');
  });

  test('compares the state at each rest and at the end with the hash recorded there', async () => {
    const { store, run } = await recordRun(RECIPE);
    const places = (await store.read(run.id)).filter(({ stateHash }) => stateHash !== undefined);
    const states: string[] = [];
    const verdict = await replayRun(store, run.id, ({ state }) => states.push(hashState(state)));
    expect(places.map(({ seq }) => states[seq - 1])).toEqual(places.map(({ stateHash }) => stateHash));
    expect(places.length).toBeGreaterThan(2);
    const last = places.at(-1)?.seq;
    expect(verdict.comparedWith).toBe(`the hashes of ${places.length} states up to entry ${last}`);
    expect(await store.loadSnapshot(run.id)).toBeUndefined();
  });

  test('of a store whose journals nobody verifies compares with no hash', async () => {
    const { store, run } = await recordRun(RECIPE, { ...memory(), hashes: false });
    const entries = await store.read(run.id);
    expect(entries.filter(({ stateHash }) => stateHash !== undefined)).toEqual([]);
    expect(await replayRun(store, run.id)).toMatchObject({ equal: true, entries: entries.length });
  });

  test.each([0, 1])('of a run with a wrong state hash %i rests before its last is not equal', async back => {
    const { store, run } = await recordRun(RECIPE);
    const entries = await store.read(run.id);
    const place = entries.filter(({ stateHash }) => stateHash !== undefined).at(-1 - back)?.seq ?? 0;
    const lying: Store = watchStore(store, {});
    lying.read = async (...args) =>
      (await store.read(...args)).map(entry =>
        entry.seq === place ? { ...entry, stateHash: 'f'.repeat(64) } : entry,
      );
    const verdict = await replayRun(lying, run.id);
    expect(verdict).toMatchObject({ equal: false, problem: { seq: place } });
    expect(verdict.problem?.message).toContain('leads to a state with another hash than the recorded one');
  });

  test('of a run whose snapshot is damaged, or ahead of the journal, is not equal', async () => {
    const { store, run } = await recordRun(RECIPE);
    const { seq } = await loadRun(store, run.id);
    await store.saveSnapshot(run.id, { seq, state: 'garbage' });
    expect(await replayRun(store, run.id)).toMatchObject({ equal: false, problem: { seq } });
    await store.saveSnapshot(run.id, { seq: seq + 5, state: 'garbage' });
    expect(await replayRun(store, run.id)).toMatchObject({ equal: false, problem: { seq: seq + 1 } });
  });

  test('of a run that was restored from a snapshot is refused with advice', async () => {
    const { agent, run } = await recordRun({ ...RECIPE, words: [] });
    const store = memory();
    const there = createAgent({ ...agent.options, store });
    await there.restore(run.snapshot());
    const refused = { code: 'refused', message: expect.stringContaining('in the store where it began') };
    await expect(replayRun(store, run.id)).rejects.toMatchObject(refused);
    await expect(exportRun(store, run.id)).rejects.toMatchObject(refused);
  });
});

describe('replay until an entry', () => {
  test('ends in the state at that entry, from the store and from an export', async () => {
    await fc.assert(
      fc.asyncProperty(recipes, fc.nat(), async (recipe, place) => {
        const { store, run } = await recordRun(recipe);
        const entries = await store.read(run.id);
        const until = (place % entries.length) + 1;
        const seen: ReplayedEntry[] = [];
        const verdict = await replayRun(store, run.id, entry => seen.push(entry), { until });
        expect(verdict).toMatchObject({ equal: true, entries: until, of: entries.length });
        expect(seen.map(({ seq }) => seq)).toEqual(entries.slice(0, until).map(({ seq }) => seq));
        const full: ReplayedEntry[] = [];
        await replayRun(store, run.id, entry => full.push(entry));
        expect(verdict.end?.hash).toBe(hashState(full[until - 1]?.state ?? fail()));
        const text = asFile(await exportRun(store, run.id));
        const fromFile = replayExport(readExport(text, 'the file'), () => {}, { until });
        expect(fromFile).toMatchObject({ equal: true, entries: until, of: entries.length });
        expect(fromFile.end?.hash).toBe(verdict.end?.hash);
      }),
      { numRuns: randomCases(20) },
    );
  });

  test.each([0, -1, 1.5, Number.NaN, 1000])(
    '%s, which does not exist, is refused with the valid range',
    async until => {
      const { store, run } = await recordRun(RECIPE);
      const { seq } = await loadRun(store, run.id);
      const refused = { code: 'input-invalid', message: expect.stringContaining(`from 1 to ${seq}`) };
      await expect(replayRun(store, run.id, () => {}, { until })).rejects.toMatchObject(refused);
      const exported = readExport(asFile(await exportRun(store, run.id)), 'the file');
      expect(() => replayExport(exported, () => {}, { until })).toThrow(`from 1 to ${seq}`);
    },
  );

  test('reports damage before that entry, and ignores damage after it', async () => {
    const { store, run } = await recordRun(RECIPE);
    const text = tamper(await exportRun(store, run.id), ({ journal }) => {
      const entry = journal[5];
      if (entry !== undefined) entry.event.at += 1;
    });
    const replay = (until: number) => replayExport(readExport(text, 'the file'), () => {}, { until });
    expect(replay(5)).toMatchObject({ equal: true, entries: 5 });
    expect(replay(6)).toMatchObject({ equal: false, problem: { seq: 6 } });
  });
});

function fail(): never {
  throw new Error('there is no such entry');
}

describe('an export', () => {
  test('is deterministic, and names run, agent and chart', async () => {
    const { store, run } = await recordRun(RECIPE);
    const exported = await exportRun(store, run.id);
    expect(asFile(await exportRun(store, run.id))).toBe(asFile(exported));
    expect(exported).toMatchObject({
      format: 'agentchart-run/1',
      run: { runId: run.id, agent: { name: 'recorded' } },
    });
    expect(exported.journal).toEqual((await store.read(run.id)).map(({ seq, event }) => ({ seq, event })));
    expect(exported).not.toHaveProperty('chain');
  });

  test('contains the runs it continues, so that it replays without the store', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const agent = createAgent({ name: 'a', host, store, model: answerWith(() => ({ text: 'done' })) });
    const ids: string[] = [];
    for (const input of ['one', 'two', 'three']) {
      const continues = ids.at(-1);
      const run = await agent.start(input, continues === undefined ? {} : { continues });
      await run.settled();
      ids.push(run.id);
    }
    const exported = await exportRun(store, ids[2] ?? '');
    expect(exported.chain?.map(({ run }) => run.runId)).toEqual(ids.slice(0, 2));
    const seen = new Set<string>();
    const verdict = replayExport(readExport(asFile(exported), 'the file'), ({ runId }) => seen.add(runId));
    expect(verdict).toMatchObject({ runId: ids[2], equal: true });
    expect([...seen]).toEqual(ids);

    const cut = replayText(tamper(exported, copy => copy.chain?.shift()));
    expect(cut).toMatchObject({ runId: ids[1], equal: false, problem: { seq: 1 } });
    expect(cut.problem?.message).toContain(`continues run ${ids[0]}`);
    const changed = tamper(exported, ({ chain }) => {
      const [, entry] = chain?.[1]?.journal ?? [];
      if (entry !== undefined) entry.event.at += 1;
    });
    expect(replayText(changed)).toMatchObject({ runId: ids[1], equal: false, problem: { seq: 2 } });
  });

  test('with any entry changed is refused, naming that entry', async () => {
    const { store, run } = await recordRun(RECIPE);
    const exported = await exportRun(store, run.id);
    for (const [index, { seq }] of exported.journal.entries()) {
      const changed = tamper(exported, ({ journal }) => {
        const entry = journal[index];
        if (entry !== undefined) entry.event.at += 1;
      });
      expect(replayText(changed)).toMatchObject({ equal: false, problem: { seq } });
    }
  });

  const tamperings: [that: string, change: (copy: RunExport) => void, seq: number][] = [
    ['lacks an entry', ({ journal }) => void journal.splice(4, 1), 5],
    [
      'has two entries swapped',
      ({ journal }) => void journal.splice(4, 2, ...journal.slice(4, 6).reverse()),
      5,
    ],
    ['has a duplicate entry', ({ journal }) => void journal.splice(4, 0, ...journal.slice(4, 5)), 6],
    ['lacks its end', ({ journal }) => void journal.splice(4), 5],
    ['names another agent', ({ run }) => void Object.assign(run.agent, { name: 'other' }), 1],
    ['names another run', ({ run }) => void Object.assign(run, { runId: 'run_other' }), 1],
    ['has another hash for an entry', ({ hashes }) => void hashes.splice(6, 1, 'f'.repeat(64)), 7],
  ];
  test.each(tamperings)('that %s is refused, naming the entry', async (_, change, seq) => {
    const { store, run } = await recordRun(RECIPE);
    const verdict = replayText(tamper(await exportRun(store, run.id), change));
    expect(verdict).toMatchObject({ equal: false, problem: { seq } });
    expect(verdict.entries).toBe(seq - 1);
  });

  test('with another state hash is refused at its last entry', async () => {
    const { store, run } = await recordRun(RECIPE);
    const exported = await exportRun(store, run.id);
    const verdict = replayText(
      tamper(exported, copy => void Object.assign(copy.end, { stateHash: '0'.repeat(64) })),
    );
    expect(verdict).toMatchObject({ equal: false, problem: { seq: exported.journal.length } });
    expect(verdict.problem?.message).toContain(exported.end.stateHash);
  });

  test('with an entry that the chart does not accept and recomputed hashes is refused at that entry', async () => {
    const { store, run } = await recordRun(RECIPE);
    const exported = await exportRun(store, run.id);
    const last = exported.journal.at(-1);
    const forged = tamper(exported, copy => {
      if (last !== undefined) copy.journal.splice(2, Number.POSITIVE_INFINITY, { ...last, seq: 3 });
      rechain(copy);
    });
    expect(replayText(forged)).toMatchObject({ equal: false, entries: 2, problem: { seq: 3 } });
  });

  test.each<[that: string, value: JsonValue]>([
    ['is not an object', []],
    ['has no format', { journal: [] }],
    ['has another format', { format: 'agentchart-run/99' }],
    ['lacks its journal', { format: 'agentchart-run/1' }],
    ['has an empty journal', { format: 'agentchart-run/1', journal: [] }],
    ['has an unknown member', { format: 'agentchart-run/1', extra: 1 }],
  ])('that %s is not an export', (_, value) => {
    expect(() => readExport(JSON.stringify(value), 'x.json')).toThrow(/^x\.json is not the export of a run/);
  });

  test('that is truncated is refused, and one with a very deeply nested entry names that entry', async () => {
    const { store, run } = await recordRun(RECIPE);
    const exported = await exportRun(store, run.id);
    expect(() => replayText(asFile(exported).slice(0, -100))).toThrow('it is not JSON');
    const nested = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const deep = tamper(exported, ({ journal }) => void Object.assign(journal[1] ?? {}, { event: 'nested' }));
    const verdict = replayText(deep.replace('"nested"', nested));
    expect(verdict).toMatchObject({ equal: false, entries: 1, problem: { seq: 2 } });
  });
});
