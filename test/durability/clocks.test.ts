import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import {
  calls,
  countEvents,
  eventsOf,
  makeGate,
  makeTool,
  makeTracedTool,
  resultsIn,
} from '../support/engine/agents.ts';
import { recordRequests } from '../support/engine/models.ts';
import { watchStore } from '../support/engine/watched-store.ts';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const DAY = 24 * HOUR;
const START = Date.UTC(2026, 0, 1);

const NEVER = new Promise<never>(() => {});

/** Ways in which a machine wakes up after a day of sleep. */
const ASLEEP: [name: string, sleep: (host: ManualHost) => void][] = [
  ['both clocks advanced', host => host.jump(DAY)],
  ['the monotonic clock stood still', host => host.setWallClock(host.now() + DAY)],
];

const busy = (times: number, retryAfterMs: number) =>
  ({ error: { code: 'overloaded', times, retryAfterMs } }) as const;

async function timesOf(store: Store, runId: string, type: string): Promise<number[]> {
  return (await eventsOf(store, runId)).filter(event => event.type === type).map(({ at }) => at);
}

/** The adapter with a hook that runs before each call. */
function preceded(adapter: ModelAdapter, happen: () => void): ModelAdapter {
  return {
    provider: adapter.provider,
    model: adapter.model,
    capabilities: adapter.capabilities,
    generate: (request, options) => {
      happen();
      return adapter.generate(request, options);
    },
    stream: (request, options) => {
      happen();
      return adapter.stream(request, options);
    },
  };
}

describe('the wait before a retry', () => {
  test.each(ASLEEP)('ends once when the machine wakes after a day: %s', async (_, sleep) => {
    const [host, store] = [new ManualHost(), memory()];
    const { model, requests } = recordRequests(scripted([busy(1, HOUR), { text: 'done' }]));
    const run = await createAgent({ name: 'a', host, store, model }).start('go');
    await host.advance(SECOND);
    expect(requests).toHaveLength(1);
    sleep(host);
    await host.advance(60 * SECOND);
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'done' });
    expect(requests).toHaveLength(2);
    expect(await countEvents(store, run.id, 'timer.fired')).toBe(1);
    expect(await countEvents(store, run.id, 'run.claimed')).toBe(1);
  });

  test('keeps its length when the wall clock is set back during the wait', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const model = scripted([busy(1, 10 * SECOND), { text: 'done' }]);
    const run = await createAgent({ name: 'a', host, store, model }).start('go');
    await host.advance(SECOND);
    host.setWallClock(host.now() - HOUR);
    await host.advance(8 * SECOND);
    expect(await countEvents(store, run.id, 'timer.fired')).toBe(0);
    await host.advance(2 * SECOND);
    expect((await run.settled()).status).toBe('finished');
  });

  test('keeps its length when the wall clock was set back before it', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const asked: number[] = [];
    const model = preceded(scripted([busy(2, 10 * SECOND), { text: 'done' }]), () => {
      asked.push(host.monotonic());
      if (asked.length === 1) host.setWallClock(START - HOUR);
    });
    const run = await createAgent({ name: 'a', host, store, model }).start('go');
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(asked).toEqual([0, 10 * SECOND, 20 * SECOND]);
  });

  test('and the attempts add up over processes: a later process has only the remaining ones', async () => {
    const store = memory();
    let now = START;
    const seen: string[] = [];
    for (let process = 0; process < 4; process += 1) {
      const host = new ManualHost({ now, name: `p${process}_` });
      const model = preceded(scripted([busy(9, 5 * SECOND), { text: 'never' }]), () => {
        seen.push(`process ${process} at ${(host.now() - START) / SECOND}`);
      });
      const agent = createAgent({ name: 'a', host, store, model, retry: { attempts: 3 } });
      const run = process === 0 ? await agent.start('go') : await agent.open('run_p0_1');
      if (process > 0) void run.settled();
      await host.advance(2 * SECOND);
      now = host.now() + 10 * SECOND;
    }
    expect(seen).toEqual(['process 0 at 0', 'process 1 at 12', 'process 2 at 24']);
    expect((await store.get('run_p0_1'))?.status).toBe('failed');
  });
});

describe('a tool timeout', () => {
  test.each(ASLEEP)('fires when the machine wakes after a day in the call: %s', async (_, sleep) => {
    for (const sideEffect of ['none', 'once'] as const) {
      const [host, store] = [new ManualHost(), memory()];
      const tool = makeTool('slow', { sideEffect, timeoutMs: 30 * SECOND, run: () => NEVER });
      const model = scripted([calls('slow'), { text: 'done' }]);
      const run = await createAgent({ name: 'a', host, store, model, tools: [tool] }).start('go');
      await host.advance(SECOND);
      sleep(host);
      await host.advance(30 * SECOND);
      const settled = await run.settled();
      if (sideEffect === 'none')
        expect(settled).toMatchObject({
          status: 'finished',
          results: [{ isError: true, output: 'The tool did not answer within 30000 ms.' }],
        });
      else expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
      expect(await countEvents(store, run.id, 'tool.started')).toBe(1);
    }
  });

  test('applies to the attempt of a later process too, counted from its own start', async () => {
    const store = memory();
    const make = (host: ManualHost) =>
      createAgent({
        name: 'a',
        host,
        store,
        model: scripted([calls('slow'), { text: 'done' }]),
        tools: [makeTool('slow', { sideEffect: 'idempotent', timeoutMs: HOUR, run: () => NEVER })],
      });
    const run = await make(new ManualHost()).start('go');
    await new Promise(setImmediate);
    const later = new ManualHost({ now: START + 2 * HOUR, name: 'b' });
    const settled = (await make(later).open(run.id)).settled();
    await later.advance(HOUR - SECOND);
    expect(await countEvents(store, run.id, 'tool.settled')).toBe(0);
    expect(await later.settle(settled)).toMatchObject({ status: 'finished', results: [{ isError: true }] });
    const [, again = 0] = await timesOf(store, run.id, 'tool.started');
    expect(await timesOf(store, run.id, 'tool.settled')).toEqual([again + HOUR]);
  });
});

describe('a call during which the machine sleeps for a day', () => {
  test.each(ASLEEP)('settles with its result on waking, and runs once: %s', async (_, sleep) => {
    const [host, store] = [new ManualHost(), memory()];
    const slow = makeGate<string>();
    const keys: string[] = [];
    const tool = makeTracedTool('pay', keys, {
      run: (_: unknown, { key }: { key: string }) => {
        keys.push(key);
        return slow.promise;
      },
    });
    const model = scripted([calls('pay'), { text: 'done' }]);
    const run = await createAgent({ name: 'a', host, store, model, tools: [tool] }).start('go');
    await host.advance(SECOND);
    sleep(host);
    slow.open('paid');
    expect(await host.settle(run.settled())).toMatchObject({ results: [{ output: 'paid' }] });
    expect(keys).toHaveLength(1);
    expect(await countEvents(store, run.id, 'tool.started')).toBe(1);
  });
});

describe('an approval that expires', () => {
  const make = (host: ManualHost, store: Store, keys: string[] = []) =>
    createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('act'), { text: 'done' }]),
      tools: [makeTracedTool('act', keys, { approval: { required: true, expiresInMs: HOUR } })],
    });

  test.each(ASLEEP)('expires once although several processes wake up to it: %s', async (_, sleep) => {
    const store = memory();
    const hosts = ['', 'b', 'c'].map(name => new ManualHost({ name }));
    const [first = new ManualHost(), ...others] = hosts;
    const run = await make(first, store).start('go');
    await run.settled();
    for (const host of others) await make(host, store).open(run.id);
    for (const host of hosts) sleep(host);
    await Promise.all(hosts.map(host => host.advance(60 * SECOND)));
    expect((await store.get(run.id))?.status).toBe('finished');
    expect(await countEvents(store, run.id, 'timer.fired')).toBe(1);
    expect(await countEvents(store, run.id, 'turn.completed')).toBe(2);
  });

  test('neither expires early nor reopens when the wall clock is set back', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await make(host, store).start('go');
    const waiting = await run.settled();
    expect(waiting).toMatchObject({ approvals: [{ expiresAt: START + HOUR }] });
    host.setWallClock(START - HOUR);
    await host.advance(HOUR + SECOND);
    expect(await run.settled()).toEqual(waiting);
    await host.advance(HOUR);
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    host.setWallClock(START);
    expect(await run.approve('call_0_0')).toMatchObject({ accepted: false });
    expect(await countEvents(store, run.id, 'timer.fired')).toBe(1);
  });

  test('and a decision in its last millisecond: whichever is journaled first wins, and the other is refused', async () => {
    for (const isDecisionFirst of [true, false]) {
      const [host, store] = [new ManualHost(), memory()];
      const keys: string[] = [];
      const run = await make(host, store, keys).start('go');
      await run.settled();
      await host.advance(HOUR - 1);
      const other = await make(new ManualHost({ now: START + HOUR - 1, name: 'b' }), store, keys).open(
        run.id,
      );
      if (!isDecisionFirst) await host.advance(1);
      const answer = await other.approve('call_0_0');
      if (isDecisionFirst) await host.advance(1);
      expect(answer.accepted).toBe(isDecisionFirst);
      await host.advance(15 * SECOND);
      expect(await host.settle(run.settled())).toMatchObject({
        status: 'finished',
        results: [{ isError: !isDecisionFirst }],
      });
      expect(keys).toHaveLength(isDecisionFirst ? 1 : 0);
    }
  });
});

describe('the limit on active time', () => {
  /** A turn takes 4 s, a call 3 s. The second process dies in a call. */
  test('adds up active time over processes, without rest and without time between processes', async () => {
    const store = memory();
    let dead = false;
    const make = (host: ManualHost) => {
      const model = preceded(scripted([calls('act', 'ask'), calls('act'), { text: 'closed' }]), () =>
        host.jump(4 * SECOND),
      );
      const { model: recorded, requests } = recordRequests(model);
      const agent = createAgent({
        name: 'a',
        host,
        store,
        model: recorded,
        limits: { activeMs: 15 * SECOND },
        tools: [
          makeTool('act', {
            sideEffect: 'idempotent',
            run: () => {
              if (dead) return NEVER;
              host.jump(3 * SECOND);
              return 'acted';
            },
          }),
          makeTool('ask', { approval: true, sideEffect: 'none' }),
        ],
      });
      return { agent, requests };
    };
    const first = new ManualHost();
    const run = await make(first).agent.start('go');
    expect(await run.settled()).toMatchObject({ status: 'waiting' });
    expect(run.context.activeMs).toBe(7 * SECOND);

    const second = new ManualHost({ now: START + DAY, name: 'b' });
    const resumed = await make(second).agent.open(run.id);
    dead = true;
    await resumed.approve('call_0_1');
    await second.idle();
    expect(resumed.context).toMatchObject({ activeMs: 11 * SECOND, turns: 2 });
    expect(await countEvents(store, run.id, 'tool.started')).toBe(3);

    const third = new ManualHost({ now: START + 2 * DAY, name: 'c' });
    dead = false;
    const { agent, requests } = make(third);
    const settled = await third.settle((await agent.open(run.id)).settled());
    expect(requests).toHaveLength(1);
    expect(settled).toMatchObject({ status: 'finished', text: 'closed' });
    expect((await agent.open(run.id)).context.activeMs).toBe(18 * SECOND);
  });

  test('counts nothing for a call during which the wall clock is set back, and the run continues', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const agent = createAgent({
      name: 'a',
      host,
      store,
      limits: { activeMs: HOUR },
      model: scripted([calls('act'), { text: 'done' }]),
      tools: [makeTool('act', { run: () => host.setWallClock(START - HOUR) })],
    });
    const run = await agent.start('go');
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(run.context.activeMs).toBe(0);
  });
});

test('a run continues in order with correct results after the wall clock is set back', async () => {
  const [host, inner] = [new ManualHost(), memory()];
  const store = watchStore(inner, {
    beforeAppend: (_, events) => {
      if (events.some(({ type }) => type === 'tool.started')) host.setWallClock(START - HOUR);
    },
  });
  const { model, requests } = recordRequests(scripted([calls('act', 'gated'), { text: 'done' }]));
  const tools = [makeTool('act'), makeTool('gated', { approval: true })];
  const run = await createAgent({ name: 'a', host, store, model, tools }).start('go');
  await host.settle(run.settled());
  expect(await run.approve('call_0_1')).toEqual({ accepted: true });
  expect((await host.settle(run.settled())).status).toBe('finished');
  expect(resultsIn(requests[1]?.transcript ?? [])).toEqual({ call_0_0: 'act ran', call_0_1: 'gated ran' });
  expect(run.context.now).toBeGreaterThanOrEqual(START);
});
