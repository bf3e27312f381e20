import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type AgentOptions, createAgent } from '../../../agent/index.ts';
import { redactRun } from '../../../engine/journal/redaction/redact-run.ts';
import { RunBlobs } from '../../../engine/journal/run-blobs.ts';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { replayExport } from '../../../engine/replay/replay-export.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { readStory } from '../../../engine/story/read-story.ts';
import { isChangedRun, type Store } from '../../../protocol/store.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { recordRequests } from '../../support/engine/models.ts';
import { makeFile } from '../../support/stores/make-file.ts';

/** What is redacted: a value in entry 1, in a text that fills a page of a load, and one that follows it. */
const FIRST = 'ann@example.org';
const SECOND = 'bob@example.org';
const INPUT = '/1/input/0/content/0/text';
const NEXT = '/1/input/1/content/0/text';
const PAGE_CHARS = 300_000;

const TURNS: ScriptedTurn[] = [calls('pay'), { text: 'Done.' }, { text: 'More.' }, { text: 'Last.' }];

const WAITING = [
  {
    type: 'message' as const,
    role: 'user' as const,
    content: [textOf(`${FIRST} ${'x'.repeat(PAGE_CHARS)}`)],
  },
  { type: 'message' as const, role: 'user' as const, content: [textOf(SECOND)] },
];

function textOf(text: string) {
  return { type: 'text' as const, text };
}

type Desk = { file: string; store: Store; requests: { transcript: readonly unknown[] }[] };

function makeAgent(store: Store, turns: ScriptedTurn[] = TURNS, options: Partial<AgentOptions> = {}) {
  const { model, requests } = recordRequests(scripted(turns));
  const tools = [makeTool('pay', { approval: true })];
  return { requests, agent: createAgent({ name: 'desk', store, model, tools, ...options }) };
}

/** A run that waits for an approval, in a file, in which the first page of a load is entry 1. */
async function beginRun(): Promise<{ file: string; store: Store }> {
  const file = makeFile();
  const store = sqlite(file);
  const run = await makeAgent(store).agent.start(WAITING, { runId: 'r' });
  expect((await run.settled()).status).toBe('waiting');
  return { file, store };
}

/** The same run after it has paid and finished. */
async function beginFinished(): Promise<{ file: string; store: Store }> {
  const { file, store } = await beginRun();
  const run = await makeAgent(store, TURNS.slice(1)).agent.open('r');
  await run.approve('call_0_0');
  expect((await run.settled()).status).toBe('finished');
  return { file, store };
}

/**
 * The store, in which a redaction commits once: `when` says after which read of a page of the run, by default the first
 * of its beginning.
 */
function redactBetweenPages(
  store: Store,
  path = INPUT,
  when = (after: number, entries: number) => after === 0 && entries > 1,
): Store {
  let isDone = false;
  return {
    ...store,
    async read(runId, after = 0, page) {
      const entries = await store.read(runId, after, page);
      if (isDone || runId !== 'r' || page === undefined || !when(after, page.entries)) return entries;
      isDone = true;
      await store.redact('r', { paths: [path] });
      return entries;
    },
  };
}

/** Asserts that a value is in no file of the store, and that the run replays and shows its redactions. */
async function expectGone({ file, store }: Pick<Desk, 'file' | 'store'>, text: string, redacted = 1) {
  expect(await replayRun(store, 'r')).toMatchObject({ equal: true, redacted });
  const folder = dirname(file);
  const found = readdirSync(folder).filter(name => readFileSync(join(folder, name)).includes(text));
  expect(found).toEqual([]);
  await store.close();
}

describe('a redaction that commits between two pages of a load', () => {
  test('and one planned meanwhile: both values are gone', async () => {
    const { file, store } = await beginRun();
    const redacted = await redactRun(redactBetweenPages(store, NEXT), 'r', { paths: [INPUT] });
    expect(redacted.values).toBe(1);
    expect(JSON.stringify(await store.read('r'))).not.toContain('@example.org');
    await expectGone({ file, store }, '@example.org', 2);
  });

  test('reaches a run that is opened meanwhile and continues', async () => {
    const { file, store } = await beginRun();
    const { agent, requests } = makeAgent(redactBetweenPages(store), TURNS.slice(1));
    const run = await agent.open('r');
    await run.approve('call_0_0');
    expect((await run.settled()).status).toBe('finished');
    expect(JSON.stringify(requests)).toContain(SECOND);
    expect(JSON.stringify(requests)).not.toContain(FIRST);
    await expectGone({ file, store }, FIRST);
  });

  test('reaches a run that continues the run', async () => {
    const { file, store } = await beginFinished();
    const { agent, requests } = makeAgent(redactBetweenPages(store), TURNS.slice(2));
    const later = await agent.start('And now?', { continues: 'r' });
    await later.settled();
    expect(JSON.stringify(requests)).toContain(SECOND);
    expect(JSON.stringify(requests)).not.toContain(FIRST);
    await expectGone({ file, store }, FIRST);
  });

  test('reaches a fork that is made meanwhile', async () => {
    const { file, store } = await beginFinished();
    let isOpen = false;
    const forking = redactBetweenPages(store, INPUT, after => isOpen && after === 0);
    const run = await makeAgent(forking).agent.open('r');
    isOpen = true;
    const fork = await run.fork({ at: (await store.read('r')).length });
    expect(JSON.stringify(await store.read(fork.id))).not.toContain(FIRST);
    expect(await replayRun(store, fork.id)).toMatchObject({ equal: true, redacted: 1 });
    await expectGone({ file, store }, FIRST);
  });

  test('does not make a replay fail, which reports it', async () => {
    const { file, store } = await beginFinished();
    expect(await replayRun(redactBetweenPages(store), 'r')).toMatchObject({ equal: true, redacted: 1 });
    await expectGone({ file, store }, FIRST);
  });

  test('is in an export that is made meanwhile', async () => {
    const { file, store } = await beginFinished();
    const exported = await exportRun(redactBetweenPages(store), 'r');
    expect(JSON.stringify(exported)).not.toContain(FIRST);
    expect(replayExport(exported)).toMatchObject({ equal: true, redacted: 1 });
    await expectGone({ file, store }, FIRST);
  });

  test('is in the story that is read meanwhile', async () => {
    const { file, store } = await beginFinished();
    const told = JSON.stringify(await readStory(redactBetweenPages(store), { runId: 'r' }));
    expect(told).toContain(SECOND);
    expect(told).not.toContain(FIRST);
    await expectGone({ file, store }, FIRST);
  });

  test('reaches a process that has read the run and catches up with it', async () => {
    const { file, store } = await beginRun();
    let isHeld = false;
    const catchesUp = redactBetweenPages(store, INPUT, () => isHeld);
    const { agent, requests } = makeAgent(catchesUp, TURNS.slice(1));
    const run = await agent.open('r');
    await store.redact('r', { paths: [NEXT] });
    isHeld = true;
    await run.approve('call_0_0');
    expect((await run.settled()).status).toBe('finished');
    expect(JSON.stringify(requests)).not.toContain('@example.org');
    await expectGone({ file, store }, '@example.org', 2);
  });
});

describe('a redaction that commits before what was read is written', () => {
  test('a fork that was read before is read again', async () => {
    const { file, store } = await beginFinished();
    let attempts = 0;
    const creating: Store = {
      ...store,
      async create(...args) {
        attempts += 1;
        if (attempts === 1) await store.redact('r', { paths: [INPUT] });
        return await store.create(...args);
      },
    };
    const run = await makeAgent(creating).agent.open('r');
    const fork = await run.fork({ at: 3 });
    expect(attempts).toBe(2);
    expect((await store.list()).runs).toHaveLength(2);
    expect(JSON.stringify(await store.read(fork.id))).not.toContain(FIRST);
    await expectGone({ file, store }, FIRST);
  });

  test('a snapshot that is saved after the lease was released is dropped', async () => {
    const { file, store } = await beginRun();
    const looks = Array.from({ length: 40 }, () => 'look');
    const released = makeGate();
    let saved = 0;
    const saving: Store = {
      ...store,
      async release(...args) {
        await store.release(...args);
        released.open();
      },
      async saveSnapshot(...args) {
        await released.promise;
        await store.redact('r', { paths: [INPUT] });
        await store.saveSnapshot(...args);
        saved += 1;
      },
    };
    const tools = [makeTool('pay'), makeTool('look')];
    const { agent } = makeAgent(saving, [calls('pay'), calls(...looks), { text: 'Done.' }], { tools });
    const run = await agent.open('r');
    await run.reject('call_0_0');
    await run.settled();
    await expect.poll(() => saved).toBe(1);
    expect(JSON.stringify(await store.loadSnapshot('r'))).not.toContain(FIRST);
    await expectGone({ file, store }, FIRST);
  });

  test('a driver whose lease has expired appends nothing of what it read, and reads the run again', async () => {
    const { file, store } = await beginRun();
    const paused = makeGate();
    const called = makeGate();
    const look = makeTool('look', {
      run: async () => {
        called.open();
        await paused.promise;
        return 'seen';
      },
    });
    const { agent, requests } = makeAgent(store, [calls('pay'), calls('look'), { text: 'Done.' }], {
      tools: [makeTool('pay'), look],
    });
    const run = await agent.open('r');
    await run.reject('call_0_0');
    const settled = run.settled();
    await called.promise;
    requests.length = 0;
    await store.redact('r', { paths: [INPUT], now: Date.now() + 3_600_000 });
    paused.open();
    expect((await settled).status).toBe('finished');
    expect(requests).toHaveLength(1);
    expect(JSON.stringify(requests)).not.toContain(FIRST);
    await expectGone({ file, store }, FIRST);
  });

  test('a run that is driven while a run that it continues is redacted asks without the value', async () => {
    const { file, store } = await beginFinished();
    const look = makeTool('look', {
      run: async () => {
        await store.redact('r', { paths: [INPUT] });
        return 'seen';
      },
    });
    const turns = [calls('pay'), { text: 'Done.' }, calls('look'), { text: 'Seen.' }];
    const { agent, requests } = makeAgent(store, turns, { tools: [makeTool('pay'), look] });
    const later = await agent.start('And now?', { continues: 'r' });
    expect((await later.settled()).status).toBe('finished');
    expect(requests.map(request => JSON.stringify(request).includes(FIRST))).toEqual([true, false]);
    await expectGone({ file, store }, FIRST);
  });

  test('a captured request is not stored, and a large result of a call is', async () => {
    const { store } = await beginRun();
    const blobs = new RunBlobs({ store, host: {}, runId: 'r', redactions: 0 });
    await store.redact('r', { paths: [INPUT] });
    await expect(blobs.capture(FIRST)).rejects.toSatisfy(isChangedRun);
    const { blob } = await blobs.put('x'.repeat(100), 'x'.repeat(100), 10);
    expect(await blobs.findFault(blob ?? { digest: '', bytes: 0 })).toBeNull();
    await store.close();
  });
});

test('of many redactions at once, from stores of their own, every value is gone', async () => {
  const { file, store } = await beginFinished();
  const last = (await store.read('r')).findLast(({ event }) => event.type === 'turn.completed');
  const paths = [INPUT, NEXT, `/${last?.seq}/text`];
  const others = paths.map(() => sqlite(file));
  await Promise.all(others.map((other, place) => other.redact('r', { paths: [paths[place] ?? ''] })));
  for (const other of others) await other.close();
  expect((await store.get('r'))?.redactions).toBe(3);
  await expectGone({ file, store }, '@example.org', 3);
});
