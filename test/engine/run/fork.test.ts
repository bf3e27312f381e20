import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { forkRun } from '../../../engine/run/forks/fork-run.ts';
import { toStored } from '../../../machines/snapshot.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { textOf } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, eventsOf, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { runDrill } from '../../support/engine/crash-drill.ts';
import { finishedRun, foldOf, makeAgent, seqOf, startedIn } from '../../support/engine/forked-run.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const BOOKKEEPING: RunEvent['type'][] = ['run.claimed', 'tool.late'];

describe('a fork', () => {
  test('begins with the journal of its source, without claims, and names its source', async () => {
    const { store, run, events } = await finishedRun();
    const at = seqOf(events, 'approval.decided');
    const fork = await run.fork({ at });
    const copied = events.slice(1, at).filter(({ type }) => !BOOKKEEPING.includes(type));
    expect(await eventsOf(store, fork.id)).toEqual([
      {
        ...events[0],
        runId: fork.id,
        forkOf: { runId: run.id, at },
        people: { starters: [null], senders: [null] },
      },
      ...copied,
    ]);
    expect(fork.id).not.toBe(run.id);
    expect(await eventsOf(store, run.id)).toEqual(events);
    expect(await store.get(fork.id)).toMatchObject({ status: 'running', createdAt: events[0]?.at });
    expect((await store.get(fork.id))?.owner).toBeUndefined();
  });

  test('is not driven until it is used, and then runs independently', async () => {
    const { host, keys, store, run, events } = await finishedRun();
    const fork = await run.fork({ at: seqOf(events, 'approval.decided') - 1 });
    const before = keys.length;
    await host.advance(60_000);
    expect(keys).toHaveLength(before);
    const waiting = await host.settle(fork.settled());
    expect(waiting).toMatchObject({ status: 'waiting', approvals: [{ callId: 'call_0_1', runId: fork.id }] });
    await fork.reject('call_0_1', { reason: 'not this time' });
    expect((await host.settle(fork.settled())).status).toBe('finished');
    expect(keys.slice(before)).toEqual([`${fork.id}:2:call_1_0`]);
    expect(await eventsOf(store, run.id)).toEqual(events);
    expect((await run.settled()).status).toBe('finished');
  });

  test('at the last entry of an ended run has the same outcome', async () => {
    const { run, events } = await finishedRun();
    const fork = await run.fork({ at: events.length });
    expect(await fork.settled()).toEqual(await run.settled());
  });

  test('inside a running turn repeats the model call', async () => {
    const { host, run, events } = await finishedRun();
    const fork = await run.fork({ at: seqOf(events, 'text.started') });
    expect((await host.settle(fork.settled())).status).toBe('finished');
    const fresh = await run.fork({ at: 1 });
    expect((await host.settle(fresh.settled())).status).toBe('waiting');
  });

  test.each([
    ['none', 'read'],
    ['idempotent', 'put'],
    ['once', 'pay'],
  ] as const)('has a started, unsettled call with side effect %s in doubt', async (sideEffect, name) => {
    const [host, store, gate] = [new ManualHost(), memory(), makeGate<string>()];
    let ran = 0;
    const run = await createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls(name, 'other'), { text: 'done' }]),
      tools: [
        makeTool(name, { sideEffect, run: () => (++ran === 1 ? gate.promise : 'ran again') }),
        makeTool('other', { sideEffect: 'none' }),
      ],
    }).start('go');
    await host.idle();
    const events = await eventsOf(store, run.id);
    const started = events.find(event => event.type === 'tool.started');
    const fork = await run.fork({ at: events.length });
    gate.open('ran');
    expect((await host.settle(run.settled())).status).toBe('finished');

    const waiting = await host.settle(fork.settled());
    expect(waiting).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect(waiting).toMatchObject({ doubts: [{ reason: expect.stringContaining(run.id) }] });
    expect(ran).toBe(1);
    expect(await fork.resolve('call_0_0', { retry: true })).toEqual({ accepted: true });
    expect((await host.settle(fork.settled())).status).toBe('finished');
    expect(ran).toBe(2);
    const again = (await eventsOf(store, fork.id)).filter(
      event => event.type === 'tool.started' && event.callId === 'call_0_0',
    );
    expect(again).toMatchObject([{ attempt: 1 }, { attempt: 2, key: started?.key }]);
  });

  test('does not count time after its fork point as active', async () => {
    const [host, store, gate] = [new ManualHost(), memory(), makeGate()];
    const run = await createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay'), { text: 'done' }]),
      tools: [makeTool('pay', { run: () => gate.promise })],
    }).start('go');
    await host.idle();
    host.jump(24 * 60 * 60 * 1000);
    const fork = await run.fork({ at: (await store.read(run.id)).length });
    expect((await loadRun(store, fork.id)).state.context.activeMs).toBeLessThan(1000);
    gate.open();
    await host.settle(run.settled());
  });

  test('continues the same run as its source, and reads the same transcript', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const { model, requests } = recordRequests(
      answerWith(({ transcript }) => ({ text: `${transcript.length}` })),
    );
    const agent = createAgent({ name: 'a', host, store, model });
    const first = await agent.start('one');
    await first.settled();
    const second = await agent.start('two', { continues: first.id });
    await second.settled();
    const fork = await second.fork({ at: 1 });
    await host.settle(fork.settled());
    expect(requests.at(-1)?.transcript.map(textOf)).toEqual(['one', '1', 'two']);
    expect((await store.chain(fork.id)).map(({ runId }) => runId)).toEqual([first.id, fork.id]);
  });

  test('can be forked, and the new fork names it as its source', async () => {
    const { store, run, events } = await finishedRun();
    const fork = await run.fork({ at: events.length });
    const other = await fork.fork({ at: 2 });
    expect((await eventsOf(store, other.id))[0]).toMatchObject({ forkOf: { runId: fork.id, at: 2 } });
  });

  test.each([0, -1, 1.5, Number.NaN, 1000])('at %s is refused, naming the valid range', async at => {
    const { run, store, events } = await finishedRun();
    await expect(run.fork({ at })).rejects.toMatchObject({
      code: 'input-invalid',
      message: expect.stringContaining(`from 1 to ${events.length}`),
    });
    expect((await store.list()).runs).toHaveLength(1);
  });

  test('of a run that was restored from a snapshot is refused with advice', async () => {
    const host = new ManualHost();
    const here = await makeAgent(memory(), host).start('go');
    await host.settle(here.settled());
    const there = await makeAgent(memory(), host).restore(here.snapshot());
    const refused = { code: 'refused', message: expect.stringContaining('in the store where it began') };
    await expect(there.fork({ at: 1 })).rejects.toMatchObject(refused);
    await there.reject('call_0_1');
    await host.settle(there.settled());
    await expect(there.fork({ at: 1 })).rejects.toMatchObject(refused);
  });

  test('leaves nothing behind when the store fails', async () => {
    const { host, store, run } = await finishedRun();
    const failing = watchStore(store, {
      beforeAppend: () => {
        throw new Error('the disk is full');
      },
    });
    await expect(forkRun({ store: failing, host }, run.id, 5)).rejects.toThrow('the disk is full');
    expect((await store.list()).runs).toHaveLength(1);
  });

  test('on a model with which its beginning would cost more than it may, is refused', async () => {
    const host = new ManualHost();
    const counts = { inputTokens: 1_000_000, outputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0 };
    const usage = { ...counts, reasoningTokens: 0 };
    const model = answerWith(
      (_, before) =>
        before < 2 ? { usage, toolCalls: [{ callId: `c${before}`, name: 'look' }] } : { usage },
      { model: 'cheap' },
    );
    const dear = answerWith(() => ({ usage }), { model: 'dear' });
    const agent = createAgent({
      ...{ name: 'a', host, model, forkModels: [dear], tools: [makeTool('look')], limits: { cost: 10 } },
      prices: { cheap: { input: 1, output: 1 }, dear: { input: 100, output: 100 } },
    });
    const run = await agent.start('go');
    await host.settle(run.settled());
    const fork = (at: number) => run.fork({ at, model: { provider: 'test', model: 'dear' } });
    const second = seqOf(await eventsOf(agent.store, run.id), 'tool.settled') + 2;
    await expect(fork(second + 1)).rejects.toMatchObject({
      code: 'refused',
      message: expect.stringContaining('limit `cost`'),
    });
    expect(await fork(1)).toBeDefined();
  });

  test('of a run that does not exist is refused', async () => {
    const { host, store } = await finishedRun();
    await expect(forkRun({ store, host }, 'run_x', 1)).rejects.toMatchObject({ code: 'run-unknown' });
  });
});

describe('a fork at any entry', () => {
  test('of a crashed run has the state of its source, with exactly the running calls in doubt', async () => {
    let doubted = 0;
    for (const deaths of [[], [12], [20, 9], [25], [31, 14]]) {
      const { store, runId } = await runDrill({ deaths });
      const host = new ManualHost({ name: 'forks' });
      const entries = await store.read(runId);
      for (const { seq } of entries) {
        const before = foldOf(entries.slice(0, seq));
        const fork = await forkRun({ store, host }, runId, seq);
        const { state } = await loadRun(store, fork.runId);
        expect(toStored(state)).toEqual(toStored(fork.loaded.state));
        const started = before.status === 'active' ? startedIn(entries.slice(0, seq)) : [];
        const doubts = state.context.calls.filter(({ status }) => status === 'doubted');
        expect(doubts.map(({ callId }) => callId).sort(), `${deaths} at ${seq}`).toEqual(started);
        for (const { callId, key } of doubts)
          expect(key).toBe(before.context.calls.find(call => call.callId === callId)?.key);
        doubted += started.length;
        if (started.length > 0) continue;
        const context = { ...before.context, runId: fork.runId };
        expect(toStored(state)).toEqual({ ...toStored(before), context });
      }
    }
    expect(doubted).toBeGreaterThan(20);
  });

  test('never runs a call again that its source had started', async () => {
    const { host, store, keys, agent, run, events } = await finishedRun();
    for (const [index] of events.entries()) {
      const { runId } = await forkRun({ store, host }, run.id, index + 1);
      const started = startedIn(await store.read(runId));
      const before = keys.length;
      const fork = await agent.open(runId);
      const settled = await host.settle(fork.settled());
      for (const callId of started)
        expect(
          keys.slice(before).some(key => key.endsWith(callId)),
          `at ${index + 1}`,
        ).toBe(false);
      if (started.length > 0) expect(settled.status).toBe('waiting');
    }
    expect(await wordsOf(store, run.id)).toHaveLength(events.length);
  });

  test('keeps waiting for a client call', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('show'), { text: 'done' }]),
      tools: [clientTool('show')],
    }).start('go');
    await run.settled();
    const fork = await run.fork({ at: (await store.read(run.id)).length });
    expect(await fork.settled()).toMatchObject({
      status: 'waiting',
      open: [{ kind: 'result', callId: 'call_0_0' }],
    });
  });
});

describe('a fork of a paused run', () => {
  /** A run that was quarantined after five dead processes, with one running call and one queued call. */
  async function quarantinedRun(sideEffect: 'none' | 'once') {
    const store = memory();
    const make = (name: string) =>
      createAgent({
        name: 'a',
        store,
        toolConcurrency: 1,
        host: new ManualHost({ now: Date.UTC(2026, 0, 1) + deaths * 60_000, name }),
        model: scripted([calls('hang', 'other'), { text: 'done' }]),
        tools: [
          makeTool('hang', { sideEffect, run: () => new Promise<never>(() => {}) }),
          makeTool('other', { sideEffect: 'none' }),
        ],
      });
    let deaths = 0;
    for (; deaths < 5; deaths += 1) {
      const agent = make(`p${deaths}_`);
      const host = agent.options.host as ManualHost;
      if (deaths === 0) await agent.start('go', { runId: 'run_1' });
      else void (await agent.open('run_1')).settled().catch(() => {});
      await host.idle();
    }
    const agent = make('last_');
    const host = agent.options.host as ManualHost;
    const run = await agent.open('run_1');
    return { host, store, run, settled: await host.settle(run.settled()) };
  }

  test('has the running call in doubt, and is paused', async () => {
    const { host, store, run, settled } = await quarantinedRun('none');
    expect(settled).toMatchObject({ status: 'waiting', paused: true });
    const at = seqOf(await eventsOf(store, run.id), 'run.quarantined');
    const fork = await run.fork({ at });
    expect(await host.settle(fork.settled())).toMatchObject({ status: 'waiting', paused: true });
    expect(fork.context.calls.map(({ status }) => status)).toEqual(['doubted', 'queued']);
    await fork.unpause();
    expect(await host.settle(fork.settled())).toMatchObject({ doubts: [{ callId: 'call_0_0' }] });
    await fork.resolve('call_0_0', { happened: true, output: 1 });
    expect((await host.settle(fork.settled())).status).toBe('finished');
  });

  test('does not inherit a resolution to retry', async () => {
    const [host, store] = [new ManualHost({ name: 'again_' }), memory()];
    let ran = 0;
    const run = await createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay'), { text: 'done' }]),
      tools: [
        makeTool('pay', {
          run: () => {
            ran += 1;
            throw new InDoubt('no answer');
          },
        }),
      ],
    }).start('go');
    await host.settle(run.settled());
    await run.pause();
    await run.resolve('call_0_0', { retry: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'waiting', doubts: [], paused: true });
    const fork = await run.fork({ at: (await store.read(run.id)).length });
    await fork.unpause();
    expect(await host.settle(fork.settled())).toMatchObject({ doubts: [{ callId: 'call_0_0' }] });
    expect(ran).toBe(1);
  });
});
