import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Store } from '../../protocol/store.ts';
import { createStoryHandler, worker } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { calls, makeGate, makeTool } from '../support/engine/agents.ts';

const fixture = new BundledFixture('map-fixture');

const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

/** An agent whose runs call a tool that waits for `gate`, and how often the tool was called, and at once. */
function makeDesk(store: Store, gate: Promise<void> = Promise.resolve()) {
  const seen = { calls: 0, busy: 0, most: 0 };
  const look = makeTool('look', {
    sideEffect: 'none',
    run: async () => {
      seen.calls += 1;
      seen.busy += 1;
      seen.most = Math.max(seen.most, seen.busy);
      await gate;
      seen.busy -= 1;
      return 'seen';
    },
  });
  const model = scripted([calls('look'), { text: 'Done.' }]);
  return { agent: createAgent({ name: 'desk', store, model, tools: [look] }), seen };
}

/** Begins runs that no process drives. */
async function beginRuns(store: Store, count: number): Promise<string[]> {
  const { agent } = makeDesk(nonDrivingStore(store));
  const runs = await Promise.all(Array.from({ length: count }, () => agent.start('go')));
  return runs.map(({ id }) => id);
}

/** The store; `before` comes before some of its methods. */
function withBefore(store: Store, before: (method: string) => Promise<void>): Store {
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== 'get' && name !== 'read' && name !== 'takeWork') return value.bind(target);
      return async (...given: unknown[]) => {
        await before(name);
        return await value.apply(target, given);
      };
    },
  });
}

const statusesIn = async (store: Store) => (await store.list()).runs.map(({ status }) => status);
const settle = { interval: 5, timeout: 10_000 };

test('a worker in a program of its own drives the runs that a killed process left', async () => {
  const folder = fixture.makeFolder();
  const child = spawn(process.execPath, [fixture.file, folder, '4', '1000'], { stdio: 'inherit' });
  children.add(child);
  await expect
    .poll(
      () => readFileSync(join(folder, 'begun'), { encoding: 'utf8', flag: 'a+' }).split('\n').length,
      settle,
    )
    .toBeGreaterThan(4);
  child.kill('SIGKILL');
  await once(child, 'close');
  const store = sqlite(join(folder, 'runs.db'));
  const left = (await store.list({ status: 'running' })).runs.length;
  expect(left).toBeGreaterThan(0);
  const agent = createAgent({ name: 'summariser', store, model: scripted([{ text: 'By the worker.' }]) });
  {
    await using _ = worker(agent);
    await expect.poll(() => statusesIn(store), settle).toEqual(Array(4).fill('finished'));
  }
  await store.close();
});

test('a worker drives no more runs at once than it has slots', async () => {
  const store = memory();
  await beginRuns(store, 5);
  const gate = makeGate();
  const { agent, seen } = makeDesk(store, gate.promise);
  const working = worker([agent], { slots: 2 });
  await expect.poll(() => seen.calls, settle).toBe(2);
  expect(working.busy).toBe(2);
  gate.open();
  await expect.poll(() => statusesIn(store), settle).toEqual(Array(5).fill('finished'));
  expect(seen.most).toBe(2);
  expect(await working.stop()).toBe(0);
});

test('a server on nonDrivingStore starts, follows and decides runs, and a worker drives them', async () => {
  const store = memory();
  const asked: string[] = [];
  const watched = withBefore(store, async method => void asked.push(method));
  const problems: string[] = [];
  const { agent } = makeDesk(nonDrivingStore(watched));
  const story = createStoryHandler(agent, { log: line => void problems.push(line) });
  const body = JSON.stringify({ input: 'go' });
  const headers = { 'content-type': 'application/json' };
  const answered = await story(new Request('http://server/story', { method: 'POST', headers, body }));
  expect(await statusesIn(store)).toEqual(['running']);
  expect(asked).not.toContain('takeWork');
  await using _ = worker(makeDesk(store).agent);
  expect(await answered.text()).toMatch(/"type":"settled".*"status":"finished"/);
  story.close();
  expect(problems).toEqual([]);
  expect(() => worker(agent)).toThrow('nonDrivingStore');
});

test('a worker that stops hands its runs over, and leaves the runs of its program alone', async () => {
  const store = memory();
  const [runId = ''] = await beginRuns(store, 1);
  const hangs = makeDesk(store, new Promise(() => {}));
  const working = worker(hangs.agent);
  await expect.poll(() => hangs.seen.calls, settle).toBe(1);
  const gate = makeGate();
  const own = makeDesk(store, gate.promise);
  const run = await own.agent.start('go');
  await expect.poll(() => own.seen.calls, settle).toBe(1);
  expect(await working.stop({ graceMs: 0 })).toBe(0);
  expect(working.busy).toBe(0);
  const record = await store.get(runId);
  expect(record?.status).toBe('running');
  expect(record?.owner).toBeUndefined();
  expect((await store.get(run.id))?.owner).toBeDefined();
  gate.open();
  expect(await run.settled()).toMatchObject({ status: 'finished' });
  expect(await own.agent.run('go')).toMatchObject({ status: 'finished' });
  expect((await store.get(runId))?.status).toBe('running');
  await using _ = worker(makeDesk(store).agent);
  await expect.poll(async () => (await store.get(runId))?.status, settle).toBe('finished');
});

test.each(['get', 'read'] as const)(
  'a worker that stops during %s of a taken run does not claim it',
  async method => {
    const inner = memory();
    const [runId = ''] = await beginRuns(inner, 1);
    const gate = makeGate();
    const asked = makeGate();
    let reads = 0;
    const store = withBefore(inner, async name => {
      reads += name === 'read' ? 1 : 0;
      // The first read opens the run, the second is of the driver.
      if (name !== method || (name === 'read' && reads < 2)) return;
      asked.open();
      await gate.promise;
    });
    const working = worker(makeDesk(store).agent);
    await asked.promise;
    const stopped = working.stop({ graceMs: 0 });
    gate.open();
    expect(await stopped).toBe(0);
    await expect.poll(() => working.busy, settle).toBe(0);
    expect(await inner.get(runId)).toMatchObject({ status: 'running', epoch: 0 });
  },
);

test('a worker reports a store that does not answer, and takes what there is once it does', async () => {
  const inner = memory();
  await beginRuns(inner, 1);
  let isAway = true;
  const store = withBefore(inner, async name => {
    if (name === 'takeWork' && isAway) throw new Error('The store is away.');
  });
  const lines: string[] = [];
  const { agent } = makeDesk(store);
  await using _ = worker(agent, { log: line => void lines.push(line) });
  await expect.poll(() => lines, settle).toEqual(['Cannot look for runs to drive: The store is away.']);
  isAway = false;
  await expect.poll(() => statusesIn(inner), settle).toEqual(['finished']);
});

test('a worker without slots, without agents, or with agents of two stores is refused', () => {
  const { agent } = makeDesk(memory());
  expect(() => worker(agent, { slots: 0 })).toThrow('slots of worker must be a positive integer, got 0');
  expect(() => worker([])).toThrow('Expected an agent');
  const other = createAgent({ name: 'other', store: memory() });
  expect(() => worker([agent, other])).toThrow('"other" has another than "desk"');
});
