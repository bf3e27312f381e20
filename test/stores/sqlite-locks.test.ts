import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { receive, request } from '../../stores/conformance/check.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { calls, eventsOf, makeTracedTool } from '../support/engine/agents.ts';
import { fail, makeJournal } from '../support/stores/make-journal.ts';

const script = fileURLToPath(new URL('../support/stores/hold-lock.ts', import.meta.url));
const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

/** Takes the write lock in another process; returns a function that releases it. */
async function lock(file: string): Promise<() => Promise<void>> {
  const child = spawn(process.execPath, [script, file], { stdio: ['pipe', 'pipe', 'inherit'] });
  children.add(child);
  await once(child.stdout, 'data');
  return async () => {
    child.stdin.end();
    await once(child, 'close');
  };
}

/** Waits until this many timers of the process have fired. */
async function tick(count: number): Promise<void> {
  for (let ticks = 0; ticks < count; ticks += 1) await delay(1);
}

/** A busy timeout longer than any test, so that no call fails because of it. */
const PATIENT = { busyTimeoutMs: 600_000 };

const append = (store: ReturnType<typeof sqlite>, text: string, after: number) =>
  store.append('a', { after, input: true }, [receive(text)], { status: 'running' });

describe('a lock of another process', () => {
  test('lets the timers of this process fire while a write waits, and the write is done once', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file, PATIENT);
    const unlock = await lock(file);
    let settled = false;
    const appended = append(store, 'x', 1).finally(() => {
      settled = true;
    });
    await tick(100);
    expect(settled).toBe(false);
    expect(await store.read('a')).toHaveLength(1);
    await unlock();
    expect(await appended).toEqual({ type: 'appended', seq: 2 });
    expect(await store.read('a', 1)).toEqual([{ seq: 2, event: receive('x') }]);
    await store.close();
  });

  test('keeps the order of the waiting writes, each done once', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file, PATIENT);
    const unlock = await lock(file);
    const waiting = Promise.all([
      append(store, 'one', 1),
      append(store, 'two', 2),
      append(store, 'too early', 2),
      store.claim('a', request('one')),
      store.renew([{ runId: 'a', epoch: 1 }], { now: 6000, leaseMs: 1000 }),
      append(store, 'three', 4),
    ]);
    await tick(20);
    await unlock();
    expect(await waiting).toMatchObject([
      { type: 'appended', seq: 2 },
      { type: 'appended', seq: 3 },
      { type: 'conflict' },
      { type: 'claimed', epoch: 1, seq: 4 },
      [],
      { type: 'appended', seq: 5 },
    ]);
    const events = (await store.read('a', 1)).map(({ event }) => event);
    expect(events).toMatchObject([receive('one'), receive('two'), { type: 'run.claimed' }, receive('three')]);
    await store.close();
  });

  test('fails each waiting call after its own timeout, not one after the other', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file, { busyTimeoutMs: 400 });
    const unlock = await lock(file);
    const calledAt = performance.now();
    const errors = await Promise.all(Array.from({ length: 50 }, () => fail(append(store, 'x', 1))));
    expect(new Set(errors.map(({ code }) => code))).toEqual(new Set(['store-locked']));
    expect(performance.now() - calledAt).toBeLessThan((50 * 400) / 2);
    await unlock();
    expect(await append(store, 'x', 1)).toEqual({ type: 'appended', seq: 2 });
    await store.close();
  });

  test('does not outlive the store: waiting calls fail when it is closed', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file, PATIENT);
    const unlock = await lock(file);
    const waiting = append(store, 'x', 1);
    await tick(3);
    await store.close();
    expect(await fail(waiting)).toMatchObject({ code: 'store-unavailable' });
    await unlock();
  });

  test('only delays a run: its calls run once, and it finishes when the file is unlocked', async () => {
    const file = await makeJournal(1);
    const store = sqlite(file, PATIENT);
    const keys: string[] = [];
    let unlock = async () => {};
    const model = scripted([calls('pay'), calls('pay'), { text: 'done' }]);
    const agent = createAgent({ name: 'a', store, model, tools: [makeTracedTool('pay', keys)] });
    const run = await agent.start('go');
    unlock = await lock(file);
    const settled = run.settled();
    await tick(100);
    await unlock();
    expect((await settled).status).toBe('finished');
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(2);
    const started = (await eventsOf(store, run.id)).filter(({ type }) => type === 'tool.started');
    expect(started).toHaveLength(2);
    await store.close();
  });
});
