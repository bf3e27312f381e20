import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { makeOwner } from '../../../engine/host/owner.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeGate, makeTool, makeTracedTool, wordsOf } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const silent = { id: 'driver_x', host: 'elsewhere', pid: 1, startedAt: '' };

describe('E4: one driver', () => {
  test('a second process follows while the first drives, and gets the same outcome', async () => {
    const store = memory();
    const host = new ManualHost();
    const slow = makeGate<string>();
    const keys: string[] = [];
    const make = (name: string) =>
      createAgent({
        name: 'a',
        host: host,
        store,
        model: scripted([calls('slow'), { text: 'done' }]),
        tools: [
          makeTool('slow', {
            run: (_, { key }) => {
              keys.push(`${name} ${key}`);
              return slow.promise;
            },
          }),
        ],
      });
    const run = await make('one').start('go');
    await host.idle();
    const follower = await make('two').open(run.id);
    const followed = follower.settled();
    await host.advance(5_000);
    slow.open('x');
    const [one, two] = await Promise.all([host.settle(run.settled()), host.settle(followed)]);
    expect(two).toEqual(one);
    expect(keys).toEqual([`one ${run.id}:1:call_0_0`]);
    expect((await eventsOf(store, run.id)).filter(({ type }) => type === 'run.claimed')).toHaveLength(1);
  });

  test('a run that ends right before another process claims it has no claim after its end', async () => {
    const store = memory();
    const host = new ManualHost();
    const slow = makeGate<string>();
    const make = (on: Store) =>
      createAgent({
        name: 'a',
        host,
        store: on,
        model: scripted([calls('slow'), { text: 'done' }]),
        tools: [makeTool('slow', { run: () => slow.promise })],
      });
    const run = await make(store).start('go');
    await host.idle();
    let ended: Promise<unknown> | undefined;
    const second = watchStore(store, {
      async before(method) {
        if (method !== 'claim') return;
        slow.open('x');
        ended ??= run.settled();
        await ended;
      },
    });
    const follower = await make(second).open(run.id);
    expect(await host.settle(follower.settled())).toMatchObject({ status: 'finished' });
    expect(ended).toBeDefined();
    expect((await wordsOf(store, run.id)).at(-1)).toBe('turn.completed');
    expect((await store.get(run.id))?.owner).toBeUndefined();
  });

  test('a driver renews its lease for as long as a tool runs', async () => {
    const store = memory();
    const host = new ManualHost();
    const slow = makeGate<string>();
    const options = {
      name: 'a',
      host,
      store,
      model: scripted([calls('slow'), { text: 'done' }]),
      tools: [makeTool('slow', { run: () => slow.promise })],
    };
    const run = await createAgent(options).start('go');
    const follower = await createAgent(options).open(run.id);
    const followed = follower.settled();
    for (let minute = 0; minute < 10; minute += 1) {
      await host.advance(60_000);
      expect((await store.get(run.id))?.leaseUntil).toBeGreaterThan(host.now());
    }
    slow.open('x');
    expect((await host.settle(followed)).status).toBe('finished');
    expect((await eventsOf(store, run.id)).filter(({ type }) => type === 'run.claimed')).toHaveLength(1);
  });

  test('a driver that was stopped past its lease reports nothing more, and its late result is kept', async () => {
    const store = memory();
    const [first, second] = [new ManualHost(), new ManualHost({ name: 'b' })];
    const slow = makeGate<string>();
    const keys: string[] = [];
    const options = { name: 'a', store, model: scripted([calls('pay'), { text: 'done' }]) };
    const zombie = await createAgent({
      ...options,
      host: first,
      tools: [makeTool('pay', { run: () => slow.promise })],
    }).start('go');
    await first.idle();
    second.jump(11_000);
    const run = await createAgent({ ...options, host: second, tools: [makeTracedTool('pay', keys)] }).open(
      zombie.id,
    );
    expect(await second.settle(run.settled())).toMatchObject({
      status: 'waiting',
      doubts: [{ callId: 'call_0_0' }],
    });
    first.jump(11_000);
    slow.open('paid by the first');
    await first.idle();
    const settled = await first.settle(zombie.settled());
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect(keys).toEqual([]);
    const words = await wordsOf(store, run.id);
    expect(words.filter(word => word.startsWith('tool.'))).toEqual([
      'tool.started call_0_0',
      'tool.interrupted call_0_0',
      'tool.late call_0_0',
    ]);
    const late = (await eventsOf(store, run.id)).find(({ type }) => type === 'tool.late');
    expect(late).toMatchObject({ output: 'paid by the first' });
  });

  test('the store refuses a report of an older epoch', async () => {
    const store = memory();
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('act'), { text: 'done' }]),
      tools: [makeTool('act', { approval: true })],
    });
    const run = await agent.start('go');
    await run.settled();
    const at = host.now();
    const { seq = 0 } = (await store.get(run.id)) ?? {};
    const late = { type: 'timer.fired', at, generation: 1 } as const;
    const claim = await store.claim(run.id, { owner: silent, now: at, leaseMs: 1000, isDead: () => false });
    expect(claim).toMatchObject({ type: 'claimed', epoch: 2 });
    expect(await store.append(run.id, { after: seq + 1, epoch: 1 }, [late], { status: 'waiting' })).toEqual({
      type: 'superseded',
    });
  });

  test('an owner that is known to be dead is replaced immediately', async () => {
    const store = memory();
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('act'), { text: 'done' }]),
      tools: [makeTool('act', { approval: true })],
    });
    const run = await agent.start('go');
    await run.settled();
    const owner = { ...makeOwner('driver_gone'), pid: 2 ** 30 };
    await store.claim(run.id, { owner, now: host.now(), leaseMs: 60_000, isDead: () => false });
    const before = host.now();
    const other = await agent.open(run.id);
    expect(await other.approve('call_0_0')).toEqual({ accepted: true });
    expect((await host.settle(other.settled())).status).toBe('finished');
    expect(host.now() - before).toBeLessThan(1000);
  });

  test('a silent owner on another host is replaced after its lease, not before', async () => {
    const store = memory();
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('act'), { text: 'done' }]),
      tools: [makeTool('act', { approval: true })],
    });
    const run = await agent.start('go');
    await run.settled();
    await store.claim(run.id, { owner: silent, now: host.now(), leaseMs: 8_000, isDead: () => false });
    const other = await agent.open(run.id);
    const before = host.now();
    await other.approve('call_0_0');
    const settled = other.settled();
    await host.advance(7_900);
    expect(await wordsOf(store, run.id)).not.toContain('tool.started call_0_0');
    expect((await host.settle(settled)).status).toBe('finished');
    expect(host.now() - before).toBeGreaterThanOrEqual(8_000);
    expect(host.now() - before).toBeLessThan(8_400);
  });

  test('a driver sees a decision of another process within 200 ms', async () => {
    const store = memory();
    const host = new ManualHost();
    const slow = makeGate<string>();
    const make = () =>
      createAgent({
        name: 'a',
        host,
        store,
        model: scripted([calls('slow', 'act'), { text: 'done' }]),
        tools: [makeTool('slow', { run: () => slow.promise }), makeTool('act', { approval: true })],
      });
    const run = await make().start('go');
    await host.advance(1_000);
    const foreign = await make().open(run.id);
    expect(await foreign.reject('call_0_1', { by: 'eve' })).toEqual({ accepted: true });
    await host.advance(200);
    expect(JSON.stringify(run.snapshot())).toContain('the call was rejected');
    expect(await run.approve('call_0_1')).toMatchObject({ code: 'already-decided', by: 'eve' });
    slow.open('x');
    expect((await host.settle(run.settled())).status).toBe('finished');
  });

  test("a decision between a driver's last read and its release is acted on", async () => {
    const inner = memory();
    const host = new ManualHost();
    let foreign: Promise<unknown> | undefined;
    const store = watchStore(inner, {
      before: async method => {
        if (method !== 'release' || foreign !== undefined) return;
        foreign = other(inner, host).then(run => run.approve('call_0_0'));
        await foreign;
      },
    });
    const run = await makeGated(store, host).start('go');
    await host.idle();
    expect(await foreign).toEqual({ accepted: true });
    await host.advance(1_000);
    expect((await inner.get(run.id))?.status).toBe('finished');
  });
});

function makeGated(store: Store, host: ManualHost) {
  return createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('act'), { text: 'done' }]),
    tools: [makeTool('act', { approval: true })],
  });
}

async function other(store: Store, host: ManualHost): Promise<Run> {
  return await makeGated(store, host).open('run_1');
}
