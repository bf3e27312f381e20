import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun, makeImage } from '../../../engine/journal/load-run.ts';
import { checkRun } from '../../../engine/migrations/migrate-run.ts';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { forkRun } from '../../../engine/run/forks/fork-run.ts';
import type { JournalMigration } from '../../../engine/versions/migrate-journal.ts';
import { chartIdentity } from '../../../machines/snapshot.ts';
import { JOURNAL_FORMAT, type RunStarted } from '../../../protocol/event.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { FROM_OLDER, OLD, OLDER, put, storeOfOld, written } from '../../support/versions/old-journals.ts';

const { version: CHART, hash: HASH } = chartIdentity();

function agentOn(store: Store, migrations: JournalMigration[] = []) {
  return createAgent({
    migrations,
    name: 'golden',
    host: new ManualHost(),
    store,
    model: scripted([{ text: 'Hello.' }]),
  });
}

async function journalsOf(store: Store): Promise<string> {
  const records = (await store.list()).runs;
  return JSON.stringify([records, await Promise.all(records.map(({ runId }) => store.read(runId)))]);
}

/** The store, with every writing method throwing. */
function readOnly(store: Store): Store {
  const writes = new Set(['create', 'append', 'saveSnapshot', 'adopt', 'claim']);
  return watchStore(store, {
    before: method => {
      if (writes.has(method)) throw new Error(`${method} was called`);
    },
  });
}

describe('a journal of an older chart', () => {
  test.each([...OLD.keys()])(
    '%s cannot be opened, forked, replayed or exported, and nothing is written',
    async name => {
      const store = readOnly(await storeOfOld('finished', ...(name === 'finished' ? [] : [name])));
      const before = await journalsOf(store);
      const agent = agentOn(store);
      const refused = { code: 'chart-mismatch', details: { verdict: 'needs-migration', opens: false } };
      await expect(agent.open(name)).rejects.toMatchObject(refused);
      await expect(loadRun(store, name)).rejects.toMatchObject(refused);
      await expect(forkRun({ store, host: new ManualHost() }, name, 1)).rejects.toMatchObject(refused);
      await expect(replayRun(store, name)).rejects.toMatchObject(refused);
      await expect(exportRun(store, name)).rejects.toMatchObject(refused);
      expect(await journalsOf(store)).toBe(before);
    },
  );

  test('that has ended cannot be continued, and no run is created', async () => {
    const store = await storeOfOld('finished');
    await expect(agentOn(store).start('and then?', { continues: 'finished' })).rejects.toMatchObject({
      code: 'chart-mismatch',
    });
    expect((await store.list()).runs).toHaveLength(1);
  });

  test('is reported with the difference, the reason and advice', async () => {
    const store = await storeOfOld('in-doubt');
    const report = await agentOn(store, [FROM_OLDER]).check('in-doubt');
    expect(report).toMatchObject({
      runId: 'in-doubt',
      verdict: 'needs-migration',
      opens: false,
      differences: [{ what: 'chart', was: `${OLDER.version} (${OLDER.hash})`, is: `${CHART} (${HASH})` }],
    });
    expect(report.reason).toContain(`chart version ${OLDER.version}`);
    expect(report.advice).toContain("agent.migrate('in-doubt')");
    await expect(agentOn(store, [FROM_OLDER]).open('in-doubt')).rejects.toThrow(
      `Run in-doubt cannot be opened with this program: ${report.reason}. ${report.advice}`,
    );
  });

  test('without a migration to this version has advice on where to write one', async () => {
    const store = memory();
    await put(store, written('in-doubt', { chart: OLDER }));
    const { verdict, advice } = await agentOn(store).check('in-doubt');
    expect(verdict).toBe('needs-migration');
    expect(advice).toContain(
      `createAgent({ migrations: [{ from: { chart: ${OLDER.version} }, to: { chart: ${CHART} }, migrate }] })`,
    );
    expect(advice).toContain('docs/versions.md');
  });
});

describe('a journal that this program cannot read', () => {
  const foreign: [string, Partial<RunStarted>, string][] = [
    ['of a newer chart', { chart: { version: CHART + 1, hash: HASH } }, 'newer'],
    [
      'of another chart under the same version',
      { chart: { version: CHART, hash: 'fedc' } },
      'the same version',
    ],
    ['of a newer format', { format: JOURNAL_FORMAT + 1 }, 'newer'],
  ];

  test.each(foreign)('%s is refused with the reason, and not migrated', async (_, change, reason) => {
    const store = memory();
    await put(store, written('in-doubt', change));
    const before = await journalsOf(store);
    const agent = agentOn(store);
    const report = await agent.check('in-doubt');
    expect(report).toMatchObject({ verdict: 'refused', opens: false });
    expect(report.reason).toContain(reason);
    const refused = { code: 'chart-mismatch', details: report };
    await expect(agent.open('in-doubt')).rejects.toMatchObject(refused);
    await expect(agent.migrate('in-doubt')).rejects.toMatchObject(refused);
    expect(await journalsOf(store)).toBe(before);
  });

  test('does not affect the other runs of its store', async () => {
    const store = await storeOfOld('in-doubt');
    await put(store, written('finished', {}), 'finished');
    const agent = agentOn(store);
    expect(await agent.check('finished')).toMatchObject({ opens: true });
    expect(await (await agent.open('finished')).settled()).toMatchObject({ status: 'finished' });
    expect(await agent.run('hello')).toMatchObject({ status: 'finished', text: 'Hello.' });
  });

  test('that does not exist, or lacks its first entry, has an error of its own', async () => {
    const store = memory();
    await expect(checkRun(store, 'nowhere')).rejects.toMatchObject({ code: 'run-unknown' });
    await put(store, written('in-doubt', {}));
    const beheaded = watchStore(store, {});
    beheaded.read = async () => (await store.read('in-doubt')).slice(1);
    await expect(checkRun(beheaded, 'in-doubt')).rejects.toMatchObject({ code: 'journal-damaged' });
  });
});

describe('a snapshot', () => {
  async function withSnapshot(change: (image: JsonObject) => void, journal: Partial<RunStarted> = {}) {
    const store = memory();
    await put(store, written('in-doubt', {}));
    const { state, seq } = await loadRun(store, 'in-doubt');
    const image = JSON.parse(JSON.stringify(makeImage(state)));
    change(image);
    if (Object.keys(journal).length === 0) {
      await store.saveSnapshot('in-doubt', { seq, state: image });
      return { store, state };
    }
    const other = memory();
    await put(other, written('in-doubt', journal));
    await other.saveSnapshot('in-doubt', { seq, state: image });
    return { store: other, state };
  }
  const foreign = (image: JsonObject) => Object.assign(image.state as JsonObject, { chart: OLDER });

  test.each([
    ['another chart', foreign],
    ['another format', (image: JsonObject) => Object.assign(image, { format: JOURNAL_FORMAT + 1 })],
  ])('of %s is ignored when the journal is complete and readable', async (_, change) => {
    const { store, state } = await withSnapshot(change);
    const loaded = await loadRun(store, 'in-doubt');
    expect(loaded.state.context).toEqual(state.context);
    expect(loaded.snapshotSeq).toBe(0);
  });

  test('of another chart does not make a journal of that chart readable', async () => {
    const { store } = await withSnapshot(foreign, { chart: OLDER });
    await expect(loadRun(store, 'in-doubt')).rejects.toMatchObject({ code: 'chart-mismatch' });
  });

  test('of another chart is refused when the journal is missing', async () => {
    const { store } = await withSnapshot(foreign);
    const snapshot = await store.loadSnapshot('in-doubt');
    const adopted = watchStore(store, {});
    adopted.read = async () => [];
    await expect(loadRun(adopted, 'in-doubt')).rejects.toMatchObject({
      code: 'chart-mismatch',
      details: { verdict: 'needs-migration' },
    });
    expect(await checkRun(adopted, 'in-doubt')).toMatchObject({ verdict: 'needs-migration', opens: false });
    const image = snapshot?.state ?? null;
    const restoring = agentOn(memory()).restore({ runId: 'in-doubt', seq: 7, image });
    await expect(restoring).rejects.toMatchObject({ code: 'chart-mismatch' });
  });

  test('of a newer format and the same chart cannot be restored', async () => {
    const { store } = await withSnapshot(image => Object.assign(image, { format: JOURNAL_FORMAT + 1 }));
    const image = (await store.loadSnapshot('in-doubt'))?.state ?? null;
    const restoring = agentOn(memory()).restore({ runId: 'in-doubt', seq: 7, image });
    await expect(restoring).rejects.toMatchObject({
      code: 'chart-mismatch',
      details: { verdict: 'refused' },
    });
  });
});
