import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Run } from '../../engine/run/run.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import type { ToolCallContext } from '../../protocol/tool.ts';
import { memory } from '../../stores/memory.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { calls, countEvents, eventsOf, makeTool, makeTracedTool } from '../support/engine/agents.ts';
import { type Watch, watchStore } from '../support/engine/watched-store.ts';

const DAY = 24 * 3_600_000;

function makePutting(store: Store, host: ManualHost, keys: string[]) {
  return createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('put'), { text: 'done' }]),
    tools: [makeTracedTool('put', keys, { sideEffect: 'idempotent' })],
  });
}

const isStart = (events: readonly RunEvent[]) => events.some(({ type }) => type === 'tool.started');

/** Two processes on one store; `watch` hooks into the store calls of the first. */
function makeTwo(watch: Watch) {
  const inner = memory();
  const [first, second] = [new ManualHost(), new ManualHost({ name: 'b' })];
  const keys: { first: string[]; second: string[] } = { first: [], second: [] };
  const one = makePutting(watchStore(inner, watch), first, keys.first);
  const two = makePutting(inner, second, keys.second);
  return { inner, first, second, keys, one, two };
}

const ASLEEP: [name: string, pass: (host: ManualHost) => void][] = [
  ['both clocks advanced', host => host.jump(DAY)],
  ['its monotonic clock stood still', host => host.setWallClock(host.now() + DAY)],
  [
    'its wall clock was set back',
    host => {
      host.jump(DAY);
      host.setWallClock(host.now() - 2 * DAY);
    },
  ],
];

describe('a process that sleeps for a day between the journaled start of a call and the call', () => {
  test.each(ASLEEP)('does not make the call if another process took over the run: %s', async (_, sleep) => {
    let slept = false;
    const processes = makeTwo({
      afterAppend: async (_, events) => {
        if (!isStart(events) || slept) return;
        slept = true;
        sleep(processes.first);
        processes.second.jump(DAY);
        await processes.second.settle((await processes.two.open('run_1')).settled());
      },
    });
    const { inner, first, keys, one } = processes;
    const run = await one.start('go');
    expect(await first.settle(run.settled())).toMatchObject({ status: 'finished', text: 'done' });
    expect(slept).toBe(true);
    expect(keys).toEqual({ first: [], second: [`${run.id}:1:call_0_0`] });
    expect(await countEvents(inner, run.id, 'tool.settled')).toBe(1);
  });

  test.each(ASLEEP)('renews its lease and makes the call if no process took over: %s', async (_, sleep) => {
    let slept = false;
    const processes = makeTwo({
      afterAppend: (_, events) => {
        if (!isStart(events) || slept) return;
        slept = true;
        sleep(processes.first);
      },
    });
    const { inner, first, keys, one } = processes;
    const run = await one.start('go');
    expect(await first.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(slept).toBe(true);
    expect(keys.first).toHaveLength(1);
    expect(await countEvents(inner, run.id, 'tool.interrupted')).toBe(0);
    expect(await countEvents(inner, run.id, 'run.claimed')).toBe(1);
  });
});

test('a lease counts from the time of the request, however late the response arrives', async () => {
  const inner = memory();
  const [first, second] = [new ManualHost(), new ManualHost({ name: 'b' })];
  const keys: string[] = [];
  const pass = (ms: number) => {
    first.jump(ms);
    second.jump(ms);
  };
  const store = watchStore(inner, {
    afterAppend: async (runId, events) => {
      if (events.some(({ type }) => type === 'run.started')) pass(9_000);
      if (!isStart(events) || first.now() !== start + 9_000) return;
      pass(4_000);
      const other: Run = await makePutting(inner, second, keys).open(runId);
      void other.settled();
      await second.idle();
    },
  });
  const start = first.now();
  const run = await makePutting(store, first, keys).start('go');
  // No timer fires: only its own calculation of the lease stops the first process.
  for (let rounds = 0; rounds < 10; rounds += 1) await first.idle();
  expect(first.now()).toBe(start + 13_000);
  expect(keys).toHaveLength(1);
  expect(await first.settle(run.settled())).toMatchObject({ status: 'finished' });
  expect(keys).toHaveLength(1);
});

test('a process whose lease expired continues by itself if no other process claimed the run', async () => {
  const inner = memory();
  const host = new ManualHost();
  const keys: string[] = [];
  let stalls = 0;
  const store = watchStore(inner, {
    afterAppend: (_, events) => {
      if (isStart(events) && stalls === 0) host.jump(6_000);
    },
    before: method => {
      if (method !== 'renew' || stalls === 3) return;
      stalls += 1;
      host.jump(11_000);
    },
  });
  const run = await makePutting(store, host, keys).start('go');
  const types: string[] = [];
  const reading = (async () => {
    for await (const event of run.events()) types.push(event.type);
  })();
  await host.settle(reading);
  expect(stalls).toBe(3);
  expect(types.filter(type => type === 'run.claimed')).toHaveLength(2);
  expect(keys).toEqual([`${run.id}:1:call_0_0`]);
  expect((await inner.get(run.id))?.status).toBe('finished');
});

test('a wall clock set back by an hour does not affect the driver: it renews, and no process takes over', async () => {
  const processes = makeTwo({
    afterAppend: (_, events) => {
      if (isStart(events)) processes.first.setWallClock(processes.first.now() - 3_600_000);
    },
  });
  const { inner, first, keys, one, two } = processes;
  const run = await one.start('go');
  const follower = await two.open(run.id);
  const [a, b] = [first.settle(run.settled()), follower.settled()];
  expect(await a).toMatchObject({ status: 'finished' });
  expect(await processes.second.settle(b)).toEqual(await a);
  expect(keys).toEqual({ first: [`${run.id}:1:call_0_0`], second: [] });
  expect(await countEvents(inner, run.id, 'run.claimed')).toBe(1);
});

test('the events of the process that lost the run name the new owner, and it follows the run to the same end', async () => {
  let slept = false;
  const processes = makeTwo({
    afterAppend: async (_, events) => {
      if (!isStart(events) || slept) return;
      slept = true;
      processes.first.jump(DAY);
      processes.second.jump(DAY);
      await processes.second.settle((await processes.two.open('run_1')).settled());
    },
  });
  const { inner, first, one } = processes;
  const run = await one.start('go');
  const claims: RunEvent[] = [];
  const reading = (async () => {
    for await (const event of run.events()) if (event.type === 'run.claimed') claims.push(event);
  })();
  const settled = await first.settle(run.settled());
  await first.settle(reading);
  expect(claims).toMatchObject([{ epoch: 1 }, { epoch: 2, replaces: expect.stringMatching(/:\d+@/) }]);
  expect((await eventsOf(inner, run.id)).at(-1)?.type).toBe('turn.completed');
  expect(settled).toMatchObject({ status: 'finished' });
});

test('a driver notices within 200 ms that another process took over the run, and aborts its running call', async () => {
  const store = memory();
  const host = new ManualHost();
  let signal: AbortSignal | undefined;
  const agent = createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('pay'), { text: 'done' }]),
    tools: [
      makeTool('pay', {
        run: (_: unknown, context: ToolCallContext) => {
          signal = context.signal;
          return new Promise(() => {});
        },
      }),
    ],
  });
  const run = await agent.start('go');
  await host.advance(2_000);
  const owner = { id: 'driver_x', host: 'elsewhere', pid: 1, startedAt: '' };
  const request = { owner, now: host.now() + 15_000, leaseMs: 10_000, isDead: () => false };
  expect(await store.claim(run.id, request)).toMatchObject({ type: 'claimed', epoch: 2 });
  expect(signal?.aborted).toBe(false);
  await host.advance(200);
  expect(signal?.aborted).toBe(true);
});
