import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import { drivesOf } from '../../../engine/driver/drives.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const done = { text: 'done' };

/** Another process on the same runs: the same store behind another object. */
function elsewhere(store: Store): Store {
  return watchStore(store, {});
}

async function claimsOf(store: Store, runId: string) {
  return (await eventsOf(store, runId)).flatMap(event => (event.type === 'run.claimed' ? [event] : []));
}

/** A process with an agent whose tools note their calls in `begun`, and wait for `gate` where they are slow. */
function makeProcess(store: Store, name: string, slow: Parameters<typeof makeTool>[1] = {}) {
  const begun: string[] = [];
  const gate = makeGate<string>();
  const host = new ManualHost({ name: `${name}_` });
  const agent = createAgent({
    name: 'a',
    host,
    store,
    toolConcurrency: 1,
    model: scripted([calls('slow', 'second'), done]),
    tools: [
      makeTool('slow', {
        run: () => {
          begun.push('slow');
          return gate.promise;
        },
        ...slow,
      }),
      makeTool('second', {
        run: () => {
          begun.push('second');
          return 'seen';
        },
      }),
    ],
  });
  return { host, agent, begun, gate };
}

describe('a run that its process yields', () => {
  test('ends the call in progress, begins no other, and continues elsewhere without a doubt', async () => {
    const store = memory();
    const one = makeProcess(store, 'one');
    const run = await one.agent.start('go');
    await one.host.idle();
    expect(one.begun).toEqual(['slow']);
    const yielded = run.yield();
    await one.host.advance(1_000);
    one.gate.open('x');
    await one.host.settle(yielded);
    expect(await store.get(run.id)).not.toHaveProperty('owner');
    expect(await wordsOf(store, run.id)).toContain('tool.settled call_0_0');

    const two = makeProcess(elsewhere(store), 'two');
    const settled = await two.host.settle((await two.agent.open(run.id)).settled());
    expect(settled).toMatchObject({ status: 'finished', text: 'done' });
    expect([one.begun, two.begun]).toEqual([['slow'], ['second']]);
    expect((await wordsOf(store, run.id)).join(' ')).not.toMatch(/interrupted|doubted/);
    expect((await claimsOf(store, run.id)).map(({ replaces }) => replaces)).toEqual([undefined, undefined]);
  });

  test('aborts a call that outlasts the grace time: a call without side effects runs again elsewhere', async () => {
    const store = memory();
    let aborted = false;
    const one = makeProcess(store, 'one', {
      sideEffect: 'none',
      run: (_, { signal }) => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
        return new Promise(() => {});
      },
    });
    const run = await one.agent.start('go');
    await one.host.idle();
    let isOver = false;
    const yielded = run.yield({ graceMs: 2_000 }).then(() => {
      isOver = true;
    });
    await one.host.advance(1_900);
    expect([isOver, aborted]).toEqual([false, false]);
    await one.host.advance(200);
    await yielded;
    expect(aborted).toBe(true);
    const two = makeProcess(elsewhere(store), 'two', { sideEffect: 'none' });
    two.gate.open('x');
    const settled = await two.host.settle((await two.agent.open(run.id)).settled());
    expect(settled).toMatchObject({ status: 'finished' });
    expect(two.begun).toEqual(['slow', 'second']);
  });

  test('leaves a `once` call that outlasts the grace time in doubt, begun once', async () => {
    const store = memory();
    const one = makeProcess(store, 'one');
    const run = await one.agent.start('go');
    await one.host.idle();
    const yielded = run.yield({ graceMs: 0 });
    await one.host.advance(10);
    await yielded;
    const two = makeProcess(elsewhere(store), 'two');
    const settled = await two.host.settle((await two.agent.open(run.id)).settled());
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect([one.begun, two.begun]).toEqual([['slow'], ['second']]);
  });

  test('keeps the turn of a model call that ends within the grace time', async () => {
    const store = memory();
    const host = new ManualHost({ name: 'one_' });
    const agent = (on: Store, own: ManualHost) =>
      createAgent({ name: 'a', store: on, host: own, model: scripted([{ ...done, delayMs: 0 }]) });
    const slow = makeGate<void>();
    const model = scripted([done]);
    const waiting = {
      ...model,
      async *stream(...given: Parameters<typeof model.stream>) {
        await slow.promise;
        yield* model.stream(...given);
      },
    };
    const run = await createAgent({ name: 'a', store, host, model: waiting }).start('go');
    await host.idle();
    const yielded = run.yield();
    slow.open();
    await host.settle(yielded);
    expect(await store.get(run.id)).toMatchObject({ status: 'finished' });
    const other = new ManualHost({ name: 'two_' });
    const end = await other.settle(
      agent(elsewhere(store), other)
        .open(run.id)
        .then(its => its.settled()),
    );
    expect(end).toMatchObject({ status: 'finished', turns: 1 });
  });

  test('does not wait for the end of a back-off', async () => {
    const store = memory();
    const host = new ManualHost({ name: 'one_' });
    const model = scripted([{ error: { code: 'overloaded', status: 529, retryable: true } }, done]);
    const run = await createAgent({ name: 'a', store, host, model, retry: { baseMs: 60_000 } }).start('go');
    await host.idle();
    expect(run.context.failure).not.toBeNull();
    await host.settle(run.yield());
    expect(host.monotonic()).toBeLessThan(1_000);
    expect(await store.get(run.id)).not.toHaveProperty('owner');
  });

  test('is followed by those who wait for it, and driven by those who ask again', async () => {
    const store = memory();
    const one = makeProcess(store, 'one');
    const run = await one.agent.start('go');
    const waiting = run.settled();
    await one.host.idle();
    const yielded = run.yield();
    one.gate.open('x');
    await one.host.settle(yielded);
    await one.host.advance(5_000);
    expect(await claimsOf(store, run.id)).toHaveLength(1);
    const again = await one.host.settle(run.settled());
    expect(again).toMatchObject({ status: 'finished' });
    expect(await one.host.settle(waiting)).toEqual(again);
    expect(await claimsOf(store, run.id)).toHaveLength(2);
  });

  test('takes its sub-agent’s run with it, whose call ends first', async () => {
    const store = memory();
    const make = (on: Store, name: string) => {
      const begun: string[] = [];
      const gate = makeGate<string>();
      const run = () => {
        begun.push('pay');
        return gate.promise;
      };
      const clerk = createAgent({
        name: 'clerk',
        model: scripted([calls('pay'), { text: 'paid' }]),
        tools: [makeTool('pay', { run })],
      });
      const host = new ManualHost({ name: `${name}_` });
      const agent: Agent = createAgent({
        name: 'lead',
        store: on,
        host,
        model: scripted([calls(['clerk', { input: 'pay' }]), done]),
        tools: [clerk.asTool({ name: 'clerk', description: 'Pays.' })],
      });
      return { agent, host, begun, gate };
    };
    const one = make(store, 'one');
    const run = await one.agent.start('go');
    await one.host.idle();
    expect(one.begun).toEqual(['pay']);
    const yielded = run.yield();
    await one.host.advance(500);
    one.gate.open('x');
    await one.host.settle(yielded);
    const { runs } = await store.list();
    expect(runs.map(({ agent, status, owner }) => [agent, status, owner]).sort()).toEqual([
      ['clerk', 'running', undefined],
      ['lead', 'running', undefined],
    ]);
    const two = make(elsewhere(store), 'two');
    const settled = await two.host.settle((await two.agent.open(run.id)).settled());
    expect(settled).toMatchObject({ status: 'finished' });
    expect(two.begun).toEqual([]);
  });

  test('does not look poisonous, however often it changes hands without progress', async () => {
    const store = memory();
    const first = makeProcess(store, 'first', { sideEffect: 'none' });
    const { id } = await first.agent.start('go');
    await first.host.idle();
    const gone = drivesOf(store).drain(first.host, 0);
    await first.host.advance(10);
    expect(await gone).toBe(0);
    for (let hand = 0; hand < 8; hand += 1) {
      const next = makeProcess(elsewhere(store), `next${hand}`, { sideEffect: 'none' });
      const run = await next.agent.open(id);
      void run.settled().catch(() => {});
      await next.host.idle();
      expect(next.begun).toEqual(['slow']);
      const yielded = run.yield({ graceMs: 0 });
      await next.host.advance(10);
      await yielded;
    }
    const last = makeProcess(elsewhere(store), 'last', { sideEffect: 'none' });
    last.gate.open('x');
    const settled = await last.host.settle((await last.agent.open(id)).settled());
    expect(settled).toMatchObject({ status: 'finished' });
    expect(await claimsOf(store, id)).toHaveLength(10);
  });
});

test('a yield has ended once the store has released the lease', async () => {
  const releasing = makeGate<void>();
  const inner = memory();
  const store = watchStore(inner, {
    before: method => (method === 'release' ? releasing.promise : undefined),
  });
  const one = makeProcess(store, 'one', { sideEffect: 'none' });
  const run = await one.agent.start('go');
  await one.host.idle();
  let hasYielded = false;
  const yielded = run.yield({ graceMs: 0 }).then(() => {
    hasYielded = true;
  });
  await one.host.advance(1_000);
  expect(hasYielded).toBe(false);
  releasing.open();
  await one.host.settle(yielded);
  expect(await inner.get(run.id)).not.toHaveProperty('owner');
});

test('a run that is yielded while it is being cancelled is cancelled before its lease is released', async () => {
  const store = memory();
  const one = makeProcess(store, 'one');
  const run = await one.agent.start('go');
  await one.host.idle();
  const cancelled = run.cancel({ reason: 'enough' });
  const yielded = run.yield({ graceMs: 0 });
  await one.host.settle(yielded);
  expect(await store.get(run.id)).toMatchObject({ status: 'cancelled' });
  expect(await cancelled).toEqual({ accepted: true });
  expect((await wordsOf(store, run.id)).join(' ')).not.toContain('cancel.requested');
});

describe('a process that drains', () => {
  test('gives up all its runs, also one that it is just beginning, and claims no other', async () => {
    const store = memory();
    const one = makeProcess(store, 'one', { sideEffect: 'none' });
    const { id } = await one.agent.start('go');
    await one.host.idle();
    expect(drivesOf(store).size).toBe(1);
    const drained = drivesOf(store).drain(one.host, 1_000);
    const late = await one.agent.start('late');
    await one.host.advance(1_010);
    expect(await drained).toBe(0);
    for (const runId of [id, late.id]) expect(await store.get(runId)).not.toHaveProperty('owner');
    void (await one.agent.open(id)).settled().catch(() => {});
    await one.host.advance(30_000);
    expect(await claimsOf(store, id)).toHaveLength(1);
  });

  test.each(['claim', 'create'])(
    'gives up a run that it was taking when it began to drain (%s)',
    async taking => {
      const inner = memory();
      const begun = await makeProcess(inner, 'gone', { sideEffect: 'none' }).agent.start('go');
      await begun.yield({ graceMs: 0 });
      const gate = makeGate<void>();
      const store = watchStore(inner, { before: method => (method === taking ? gate.promise : undefined) });
      const one = makeProcess(store, 'one', { sideEffect: 'none' });
      const run = taking === 'claim' ? await one.agent.open(begun.id) : undefined;
      const taken = run === undefined ? one.agent.start('go', { runId: 'late' }) : run.settled();
      void taken.catch(() => {});
      await one.host.idle();
      let isDrained = false;
      const drained = drivesOf(store)
        .drain(one.host, 1_000)
        .finally(() => {
          isDrained = true;
        });
      await one.host.idle();
      expect(isDrained).toBe(false);
      gate.open();
      await one.host.advance(1_010);
      expect(await drained).toBe(0);
      expect(await inner.get(run?.id ?? 'late')).not.toHaveProperty('owner');
    },
  );

  test('leaves a run that it begins afterwards to other processes', async () => {
    const store = memory();
    const one = makeProcess(store, 'one');
    await drivesOf(store).drain(one.host, 1_000);
    const run = await one.agent.start('go');
    await one.host.advance(1_000);
    expect(await store.get(run.id)).not.toHaveProperty('owner');
    expect(await claimsOf(store, run.id)).toEqual([]);
  });

  test('does not wait longer for a store that does not answer', async () => {
    const store = watchStore(memory(), {
      before: method => (method === 'release' ? new Promise<never>(() => {}) : undefined),
    });
    const one = makeProcess(store, 'one', { sideEffect: 'none' });
    await one.agent.start('go');
    await one.host.idle();
    const drained = drivesOf(store).drain(one.host, 1_000);
    await one.host.advance(7_000);
    expect(await drained).toBe(1);
  });
});
