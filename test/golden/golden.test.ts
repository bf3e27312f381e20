import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { nameEdge } from '../../explore/explorer.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import { statusOf } from '../../machines/status.ts';
import { listEdges } from '../../machines/step.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { listScenes, recordScene } from './engine-journals.ts';
import { explainChange, explainFormat, findUnknown, REGENERATE } from './explain-change.ts';
import { describeFormat } from './format.ts';
import { foldAll, type GoldenJournal, makeGolden, readGolden } from './golden-journal.ts';

const JOURNALS = [...readGolden('edges'), ...readGolden('runs')];
const EDGES = 'edges';

function eventsOf({ entries }: GoldenJournal): RunEvent[] {
  return entries.map(({ event }) => event as RunEvent);
}

function readFormat(): { format: number; events: JsonObject } {
  return JSON.parse(readFileSync(fileURLToPath(new URL('format.json', import.meta.url)), 'utf8'));
}

describe('the golden journals', () => {
  it.each(JOURNALS)('%s reaches the recorded states, entry by entry', (name, golden) => {
    expect(explainChange(name, golden).join('\n')).toBe('');
  });

  it('match the current chart; a changed chart needs a new version', () => {
    const { version, hash } = chartIdentity();
    const [, first] = JOURNALS[0] ?? [];
    const advice =
      first?.chart.version === version && first.chart.hash !== hash
        ? `The chart's structure changed: raise CHART_VERSION (it is ${version}, as in the golden journals). ${REGENERATE}`
        : `The chart has version ${version}. ${REGENERATE}`;
    for (const [name, { chart }] of JOURNALS) expect(chart, `${name}: ${advice}`).toEqual({ version, hash });
  });

  it('take every edge of the chart', () => {
    const taken = new Set(readGolden(EDGES).flatMap(([, { edges = [] }]) => edges));
    const missing = listEdges()
      .map(nameEdge)
      .filter(edge => !taken.has(edge));
    expect(missing, REGENERATE).toEqual([]);
  });

  it('over edges all end, and no two are equal', () => {
    const ways = readGolden(EDGES).map(([, golden]) => eventsOf(golden));
    expect(ways.filter(events => foldAll(events).at(-1)?.status !== 'done')).toEqual([]);
    expect(new Set(ways.map(events => JSON.stringify(events))).size).toBe(ways.length);
  });

  it.each(listScenes())('the engine writes the recorded journal of %s', async name => {
    const [, golden] = readGolden('runs').find(([file]) => file === `runs/${name}.json`) ?? [];
    expect(golden, REGENERATE).toBeDefined();
    const { about, events } = await recordScene(name);
    const recorded = makeGolden(about, events);
    const words = ({ entries }: GoldenJournal) => entries.map(({ event, path }) => `${event.type} → ${path}`);
    if (golden === undefined) return;
    expect(words(recorded), REGENERATE).toEqual(words(golden));
    expect(recorded, REGENERATE).toEqual(golden);
  });
});

describe('the vocabulary of the journal', () => {
  it('matches the recorded vocabulary', () => {
    const { format, events } = readFormat();
    const present = describeFormat();
    const advice = `If old journals are not read as before, raise JOURNAL_FORMAT (it is ${present.format}). ${REGENERATE}`;
    expect(explainFormat(events, present.events), advice).toEqual([]);
    expect(present.format, REGENERATE).toBe(format);
  });

  it('has a golden journal for every event', () => {
    const used = new Set(JOURNALS.flatMap(([, golden]) => eventsOf(golden).map(({ type }) => type)));
    const known = Object.keys(describeFormat().events);
    const left = known.filter(type => !used.has(type as RunEvent['type']));
    expect(left).toEqual([]);
  });

  it('survives a store: reading returns what was written', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'golden-'));
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    const store = sqlite(join(folder, 'runs.db'));
    for (const [name, golden] of JOURNALS) {
      const [first, ...rest] = eventsOf(golden);
      const last = foldAll(eventsOf(golden)).at(-1);
      if (first?.type !== 'run.started' || last === undefined) throw new Error(`${name} has no beginning`);
      const started = { ...first, runId: name };
      await store.create(started, undefined, { events: rest, status: statusOf(last) });
      const read = await store.read(name);
      expect(JSON.stringify(read.map(({ event }) => event))).toBe(JSON.stringify([started, ...rest]));
    }
    await store.close();
  });
});

describe('a change', () => {
  const [name, golden] = readGolden('runs').find(([file]) => file.includes('in-doubt')) ?? [];
  if (name === undefined || golden === undefined) throw new Error('the golden journal in-doubt is missing');
  const changed = (change: (journal: GoldenJournal) => void): string => {
    const copy = structuredClone(golden);
    change(copy);
    return explainChange(name, copy).join('\n');
  };
  const last = golden.entries.length;

  it('of a folded state is reported with its entry, and asks for a new chart version', () => {
    const report = changed(({ entries, end }) => {
      for (const entry of entries.slice(-1)) Object.assign(entry, { hash: '0', path: 'executingTools' });
      (end.context as JsonObject).turns = 7;
    });
    expect(report).toContain(
      `entry ${last} (tool.interrupted) leads to resting.inDoubt, and led to executingTools`,
    );
    expect(report).toContain('at the end context.turns is 1, and was 7');
    expect(report).toContain(`raise CHART_VERSION (it is ${chartIdentity().version}`);
    expect(report).toContain('node test/golden/write-golden.ts');
  });

  it('under a version that was already raised asks only for the journals to be regenerated', () => {
    const report = changed(({ entries, chart }) => {
      chart.version -= 1;
      for (const entry of entries.slice(-1)) entry.hash = '0';
    });
    expect(report).not.toContain('raise CHART_VERSION');
    expect(report).toContain('node test/golden/write-golden.ts');
  });

  it('that makes an event inapplicable is reported with the entry', () => {
    const report = changed(({ entries }) => entries.splice(3, 1));
    expect(report).toMatch(/entry \d \(tool\.started\) does not fit the state/);
  });

  it('of an event is detected as an extra field, a missing field or another type', () => {
    const [started] = eventsOf(golden);
    const event = JSON.parse(JSON.stringify(started));
    expect(findUnknown(event)).toBeNull();
    expect(findUnknown({ ...event, color: 'red' })).toBe('has color, which is not read any more');
    expect(findUnknown({ ...event, agent: { ...event.agent, color: 'red' } })).toContain('agent.color');
    expect(findUnknown({ ...event, stream: undefined })).toContain('stream');
    expect(findUnknown({ ...event, at: 'noon' })).toContain('at');
    expect(changed(({ entries }) => Object.assign(entries[0]?.event ?? {}, { color: 'red' }))).toContain(
      'raise JOURNAL_FORMAT',
    );
  });

  it('of the vocabulary is reported by event and field', () => {
    const { events } = describeFormat();
    const was = structuredClone(events);
    const started = was['run.started'] as { properties: JsonObject };
    delete started.properties.tools;
    delete was['tool.late'];
    was['run.lost'] = {};
    expect(explainFormat(was, events)).toEqual([
      'run.lost is gone',
      'run.started changed at tools',
      'tool.late is new',
    ]);
  });
});
