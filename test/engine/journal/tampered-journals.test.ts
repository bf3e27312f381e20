import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import { exportRun, type RunExport } from '../../../engine/replay/export-run.ts';
import { readExport } from '../../../engine/replay/read-export.ts';
import { replayExport } from '../../../engine/replay/replay-export.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { isJsonObject, type JsonValue } from '../../../protocol/json.ts';
import type { RunRecord, Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { answerWith } from '../../support/engine/models.ts';
import { type Recipe, recordRun } from '../../support/engine/recorded-run.ts';

const RECIPE: Recipe = {
  turns: [{ text: 'Let me see.', toolCalls: [{ name: 'read' }, { name: 'act' }] }, { text: 'Done.' }],
  words: ['approve'],
};

const RECORDED = recordRun(RECIPE);

async function makeExport(): Promise<RunExport> {
  const { store, run } = await RECORDED;
  return await exportRun(store, run.id);
}

/** `false` also for a value that is no longer a valid export. */
function isEqual(exported: unknown): boolean {
  try {
    return replayExport(readExport(JSON.stringify(exported), 'the file')).equal;
  } catch {
    return false;
  }
}

function number({ journal }: RunExport): void {
  for (const [index, entry] of journal.entries()) entry.seq = index + 1;
}

type Path = (string | number)[];

/** The paths of all primitive values. */
function leavesOf(value: JsonValue, path: Path = []): Path[] {
  if (Array.isArray(value)) return value.flatMap((inner, index) => leavesOf(inner, [...path, index]));
  if (!isJsonObject(value)) return [path];
  return Object.entries(value).flatMap(([key, inner]) => leavesOf(inner, [...path, key]));
}

function changeAt(value: JsonValue, [key, ...rest]: Path): JsonValue {
  if (key === undefined) return typeof value === 'number' ? value + 1 : `${String(value)}x`;
  if (Array.isArray(value))
    return value.map((inner, index) => (index === key ? changeAt(inner, rest) : inner));
  if (!isJsonObject(value)) throw new Error('there is no such place');
  return { ...value, [key]: changeAt(value[String(key)] ?? null, rest) };
}

/** The store, with one change applied to every event it reads. */
function withEvent(store: Store, change: (event: RunEvent) => RunEvent): Store {
  const changed: Store = Object.create(store, {});
  changed.read = async (...args) =>
    (await store.read(...args)).map(({ seq, event }) => ({ seq, event: change(event) }));
  changed.get = runId => store.get(runId);
  changed.chain = runId => store.chain(runId);
  changed.loadSnapshot = async () => undefined;
  return changed;
}

function withRecord(store: Store, change: Partial<RunRecord>): Store {
  const changed: Store = Object.create(store, {});
  const alter = (record: RunRecord) => ({ ...record, ...change });
  changed.read = (...args) => store.read(...args);
  changed.get = async runId => {
    const record = await store.get(runId);
    return record && alter(record);
  };
  changed.loadSnapshot = runId => store.loadSnapshot(runId);
  return changed;
}

describe('an export', () => {
  test('with any single value changed is not equal', async () => {
    const full: JsonValue = JSON.parse(JSON.stringify(await makeExport()));
    const leaves = leavesOf(full);
    expect(leaves.length).toBeGreaterThan(150);
    expect(isEqual(full)).toBe(true);
    for (const path of leaves) expect(isEqual(changeAt(full, path)), path.join('.')).toBe(false);
  });

  test('with any entries and their hashes removed is not equal', async () => {
    const full = await makeExport();
    const { length } = full.journal;
    fc.assert(
      fc.property(
        fc.nat(length - 1),
        fc.integer({ min: 1, max: length }),
        fc.boolean(),
        (from, count, renumber) => {
          const copy: RunExport = structuredClone(full);
          copy.journal.splice(from, count);
          copy.hashes.splice(from, count);
          if (renumber) number(copy);
          return !isEqual(copy);
        },
      ),
      { numRuns: 200 },
    );
  });

  test('with reordered and renumbered entries and hashes is not equal', async () => {
    const full = await makeExport();
    for (let place = 1; place < full.journal.length - 1; place += 1) {
      const copy: RunExport = structuredClone(full);
      copy.journal.splice(place, 2, ...copy.journal.slice(place, place + 2).reverse());
      copy.hashes.splice(place, 2, ...copy.hashes.slice(place, place + 2).reverse());
      number(copy);
      expect(isEqual(copy), `entry ${place}`).toBe(false);
    }
  });

  test('spliced from two runs is not equal', async () => {
    const [full, { store, run }] = [await makeExport(), await recordRun(RECIPE)];
    const other = await exportRun(store, run.id);
    const differing = structuredClone(other);
    const first = differing.journal[0]?.event;
    if (first?.type === 'run.started') first.agent = { name: first.agent.name, version: 'other' };
    for (let at = 1; at < full.journal.length; at += 1) {
      const spliced = structuredClone(differing);
      spliced.journal.splice(at, Number.POSITIVE_INFINITY, ...full.journal.slice(at));
      spliced.hashes.splice(at, Number.POSITIVE_INFINITY, ...full.hashes.slice(at));
      expect(isEqual({ ...spliced, end: full.end, seal: full.seal }), `at ${at}`).toBe(false);
    }
  });

  test('of a continuing run is bound to the journal it continues, not only to its run id', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const agent = createAgent({ name: 'a', host, store, model: answerWith(() => ({ text: 'done' })) });
    const first = await agent.start('one');
    await first.settled();
    const second = await agent.start('two', { continues: first.id });
    await second.settled();
    const full = await exportRun(store, second.id);
    expect(isEqual(full)).toBe(true);
    const elsewhere = createAgent({ ...agent.options, host: new ManualHost(), store: memory() });
    const another = await elsewhere.start('other words');
    await another.settled();
    expect(another.id).toBe(first.id);
    const { format: _, ...theirs } = await exportRun(elsewhere.options.store ?? store, another.id);
    expect(isEqual({ ...full, chain: [theirs] })).toBe(false);
  });
});

describe('a decision', () => {
  const raiseInput = (event: RunEvent): RunEvent =>
    event.type === 'turn.completed'
      ? { ...event, calls: event.calls.map(call => ({ ...call, input: { amount: 1_000_000 } })) }
      : event;

  test('on a call whose journaled input differs from the approved one is reported by replay and export', async () => {
    const { store, run } = await RECORDED;
    const changed = withEvent(store, raiseInput);
    const verdict = await replayRun(changed, run.id);
    expect(verdict).toMatchObject({ equal: false, problem: { message: expect.stringContaining('digest') } });
    const damaged = { code: 'journal-damaged', message: expect.stringContaining('digest') };
    await expect(exportRun(changed, run.id)).rejects.toMatchObject(damaged);
  });

  test('whose digest differs from the digest of its call is reported with both', async () => {
    const { store, run } = await RECORDED;
    const changed = withEvent(store, event =>
      event.type === 'approval.decided' ? { ...event, digest: 'seen-elsewhere' } : event,
    );
    const message = expect.stringMatching(
      /decides on call \S+ with digest seen-elsewhere, .* has digest [0-9a-f]{32}/,
    );
    expect(await replayRun(changed, run.id)).toMatchObject({ equal: false, problem: { message } });
    await expect(exportRun(changed, run.id)).rejects.toMatchObject({ message });
  });

  test('whose edit does not match its edit digest is reported', async () => {
    const { store, run } = await RECORDED;
    const changed = withEvent(store, event =>
      event.type === 'approval.decided'
        ? { ...event, decision: { type: 'approve', input: { amount: 2 }, editDigest: 'other' } }
        : event,
    );
    const message = expect.stringContaining('edits call');
    expect(await replayRun(changed, run.id)).toMatchObject({ equal: false, problem: { message } });
    await expect(exportRun(changed, run.id)).rejects.toMatchObject({ message });
  });
});

describe("a run's record", () => {
  const changes: Partial<RunRecord>[] = [
    { status: 'running' },
    { epoch: 9 },
    { updatedAt: 1 },
    { createdAt: 1 },
    { agent: 'other' },
    { continues: 'run_other' },
  ];
  test.each(changes)(
    'that contradicts the journal with %j is reported by replay and export',
    async change => {
      const { store, run } = await RECORDED;
      const [key = ''] = Object.keys(change);
      const changed = withRecord(store, change);
      const message = expect.stringContaining(`${key} is ${JSON.stringify(Object.values(change)[0])}`);
      expect(await replayRun(changed, run.id)).toMatchObject({ equal: false, problem: { message } });
      await expect(exportRun(changed, run.id)).rejects.toMatchObject({ code: 'journal-damaged', message });
    },
  );
});
