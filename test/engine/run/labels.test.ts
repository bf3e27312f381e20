import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, redactRun, tool } from '../../../agent/index.ts';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { listAll, type Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { makeFile } from '../../support/stores/make-file.ts';
import { fail } from '../../support/stores/make-journal.ts';

const usage = { inputTokens: 20, outputTokens: 5 };
const REFUND = { usage, toolCalls: [{ name: 'refund', arguments: { cents: 4200 } }] };
const DONE = { usage, text: 'Done.' };
const USER_7 = { user: '7', tenant: 'a' };

const refund = tool({
  name: 'refund',
  description: 'Pays back.',
  input: z.object({ cents: z.number() }),
  approval: true,
  run: ({ cents }) => ({ refunded: cents }),
});

function makeDesk(store: Store, turns: object[] = [REFUND, DONE]) {
  return createAgent({ name: 'desk', model: scripted(turns), tools: [refund], store });
}

async function recordOf(store: Store, runId: string) {
  return (await store.get(runId)) ?? expect.unreachable(`${runId} is unknown`);
}

describe.each([
  ['memory', memory],
  ['sqlite', () => sqlite(makeFile())],
])('labels of runs in %s', (_, open) => {
  test('find the run, and say in each list where it is', async () => {
    const store = open();
    const run = await makeDesk(store).start('Refund order A-1\nplease', { labels: USER_7 });
    await run.settled();
    const [waiting] = (await store.list({ labels: { user: '7' }, status: 'waiting' })).runs;
    expect(waiting).toMatchObject({
      runId: run.id,
      title: 'Refund order A-1',
      labels: USER_7,
      turns: 1,
      state: 'resting.awaitingApproval',
      why: expect.stringContaining('needs a decision'),
      waitsFor: [{ type: 'approval', callId: 'call_0_0', name: 'refund' }],
    });
    await run.approve('call_0_0');
    await run.settled();
    const finished = await recordOf(store, run.id);
    expect(finished).toMatchObject({ status: 'finished', state: 'finished', turns: 2, labels: USER_7 });
    expect([waiting?.tokens, finished.tokens]).toEqual([25, 50]);
    expect(finished.endedAt).toBeGreaterThanOrEqual(finished.createdAt);
    expect(finished).not.toHaveProperty('waitsFor');
    expect((await store.list({ labels: { user: '8' } })).runs).toEqual([]);
  });

  test('are journaled: the run can be exported and replayed, and labels of the record that differ are found', async () => {
    const store = open();
    const run = await makeDesk(store).start('go', { labels: USER_7, title: 'The refund of A-1' });
    await run.settled();
    expect((await store.read(run.id))[0]?.event).toMatchObject({
      labels: USER_7,
      title: 'The refund of A-1',
    });
    expect(run.context.labels).toEqual(USER_7);
    expect(await replayRun(store, run.id)).toMatchObject({ equal: true });
    const forged: Store = Object.assign(Object.create(store), {
      get: async () => ({ ...(await recordOf(store, run.id)), labels: { user: '8' } }),
    });
    for (const method of ['read', 'readJson', 'chain'] as const)
      Object.assign(forged, { [method]: store[method]?.bind(store) });
    expect((await fail(exportRun(forged, run.id))).message).toContain('labels is {"user":"8"}');
  });

  test('a failed run is listed with its error code, and a cut answer with its reason', async () => {
    const store = open();
    const failing = await makeDesk(store, []).start('go');
    const cut = await makeDesk(store, [{ text: 'Half of', finishReason: 'length' }]).start('go');
    await Promise.all([failing.settled(), cut.settled()]);
    expect(await recordOf(store, failing.id)).toMatchObject({
      state: 'failed',
      errorCode: 'script-exhausted',
    });
    expect(await recordOf(store, cut.id)).toMatchObject({
      state: 'finished',
      incomplete: { reason: 'length' },
    });
  });

  test('a run that starts paused is listed as one that waits', async () => {
    const store = open();
    const run = await makeDesk(store).start('go', { paused: true });
    expect((await store.list({ status: 'waiting' })).runs).toMatchObject([
      { runId: run.id, state: 'resting.paused', turns: 0 },
    ]);
  });

  test('a redaction of the input clears the title, also a given one', async () => {
    const store = open();
    const run = await makeDesk(store).start('My number is 4711-0815', { title: 'About 4711-0815' });
    await run.settled();
    await run.approve('call_0_0');
    await run.settled();
    await redactRun(store, run.id, { paths: ['/1/input/0/content/0/text'] });
    expect((await recordOf(store, run.id)).title).toBe('');
    expect(JSON.stringify(await store.read(run.id))).not.toContain('4711-0815');
    expect((await store.list({ text: '4711-0815' })).runs).toEqual([]);
    expect(await replayRun(store, run.id)).toMatchObject({ equal: true });
  });
});

describe('labels of related runs', () => {
  test('a continuation has those of the run it continues, unless it has its own', async () => {
    const store = memory();
    const desk = makeDesk(store, [DONE, DONE, DONE, DONE]);
    const first = await desk.start('one', { labels: USER_7, title: 'First' });
    await first.settled();
    const second = await desk.start('two', { continues: first.id });
    await second.settled();
    expect(await recordOf(store, second.id)).toMatchObject({ labels: USER_7, title: 'two' });
    const third = await desk.start('three', { continues: second.id, labels: { user: '8' } });
    await third.settled();
    expect((await recordOf(store, third.id)).labels).toEqual({ user: '8' });
    const fourth = await desk.start('four', { continues: third.id, labels: {} });
    expect((await recordOf(store, fourth.id)).labels).toEqual({});
  });

  test('a fork and a restored run keep them', async () => {
    const store = memory();
    const desk = makeDesk(store);
    const run = await desk.start('go', { labels: USER_7 });
    await run.settled();
    const fork = await run.fork({ at: 1 });
    expect(await recordOf(store, fork.id)).toMatchObject({
      labels: USER_7,
      forkOf: { runId: run.id, at: 1 },
    });
    const elsewhere = memory();
    await makeDesk(elsewhere).restore(run.snapshot());
    expect((await elsewhere.list({ labels: USER_7 })).runs).toMatchObject([
      { runId: run.id, title: 'go', state: 'resting.awaitingApproval', turns: 1 },
    ]);
  });

  test('the runs of sub-agents have those of their parent, and are found by it', async () => {
    const store = memory();
    const clerk = createAgent({ name: 'clerk', model: scripted([REFUND, DONE]), tools: [refund] });
    const boss = createAgent({
      name: 'boss',
      model: scripted([{ toolCalls: [{ name: 'ask', arguments: { input: 'Refund it' } }] }, DONE]),
      tools: [clerk.asTool({ name: 'ask', description: 'Asks the clerk.' })],
      store,
    });
    const run = await boss.start('go', { labels: USER_7 });
    await run.settled();
    const { runs } = await store.list({ parent: run.id });
    expect(runs).toMatchObject([
      { agent: 'clerk', title: 'Refund it', labels: USER_7, parent: { runId: run.id } },
    ]);
    expect((await recordOf(store, run.id)).waitsFor).toMatchObject([
      { type: 'result', name: 'ask', runId: runs[0]?.runId },
    ]);
    const opened = await boss.open(runs[0]?.runId ?? '', { labels: { user: '7' } });
    expect(opened.context.agent.name).toBe('clerk');
  });
});

describe('agent.open with labels', () => {
  test('opens a run that has them, and refuses any other with run-foreign, without saying what it has', async () => {
    const store = memory();
    const desk = makeDesk(store);
    const run = await desk.start('go', { labels: { user: '7', tenant: 'secret' } });
    await run.settled();
    expect((await desk.open(run.id, { labels: { user: '7' } })).id).toBe(run.id);
    expect((await desk.open(run.id, { labels: {} })).id).toBe(run.id);
    for (const labels of [{ user: '8' }, { user: '7', team: 'x' }, { constructor: 'x' }]) {
      const error = await fail(desk.open(run.id, { labels }));
      expect(error.code).toBe('run-foreign');
      expect(JSON.stringify([error.message, error.details])).not.toContain('secret');
    }
    const plain = await desk.start('go');
    expect((await fail(desk.open(plain.id, { labels: { user: '7' } }))).code).toBe('run-foreign');
    expect((await fail(desk.open('none', { labels: { user: '7' } }))).code).toBe('run-unknown');
    expect((await fail(desk.open(run.id, { labels: JSON.parse('{"user":7}') }))).code).toBe('input-invalid');
  });
});

test.each([
  ['a label that is not a string', { labels: { user: 7 } }],
  ['labels that are a list', { labels: ['user'] }],
  ['a label without a value', { labels: { user: '' } }],
  ['a label over two lines', { labels: { user: 'a\nb' } }],
  ['17 labels', { labels: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`n${at}`, 'v'])) }],
  ['an empty title', { title: '' }],
  ['a title that is not a string', { title: 7 }],
])('start refuses %s and begins no run', async (_, options) => {
  const store = memory();
  const error = await fail(makeDesk(store).start('go', options as object));
  expect(error.code).toBe('input-invalid');
  expect(error.message).toMatch(/^The (labels are|title is) invalid: /);
  expect((await store.list()).runs).toEqual([]);
});

test('listAll yields more runs than a page has', async () => {
  const store = memory();
  const desk = makeDesk(store, []);
  const started = desk.input('go');
  for (let at = 0; at < 2_010; at += 1)
    await store.create({ ...started, at, runId: `run_${at}`, labels: { user: String(at % 2) } });
  const found: string[] = [];
  for await (const { runId } of listAll(store, { labels: { user: '1' }, order: 'asc' })) found.push(runId);
  expect(found).toHaveLength(1_005);
  expect(new Set(found).size).toBe(1_005);
});
