import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, eventsOf, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';

describe('E8: reports carry a generation', () => {
  test('every report in the journal names the generation of its service', async () => {
    const store = memory();
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      store,
      model: scripted([calls('read'), { text: 'done' }]),
      tools: [makeTool('read', { sideEffect: 'none' })],
    });
    const run = await agent.start('go');
    await run.settled();
    const generations = (await eventsOf(store, run.id)).flatMap(event =>
      'generation' in event ? [`${event.generation} ${event.type}`] : [],
    );
    expect(generations).toEqual([
      '1 calls.started',
      '1 turn.completed',
      '2 tool.started',
      '2 tool.settled',
      '3 text.started',
      '3 turn.completed',
    ]);
  });

  test('a turn that completes after its run was cancelled changes nothing', async () => {
    const store = memory();
    const host = new ManualHost();
    const gate = makeGate();
    const model = answerWith(async () => {
      await gate.promise;
      return { text: 'too late' };
    });
    const run = await createAgent({ name: 'a', host, store, model }).start('go');
    await host.idle();
    const cancelled = run.cancel({ by: 'ann' });
    await host.advance(6_000);
    expect(await cancelled).toEqual({ accepted: true });
    const before = await wordsOf(store, run.id);
    gate.open();
    await host.advance(1_000);
    expect(await wordsOf(store, run.id)).toEqual(before);
    expect((await run.settled()).status).toBe('cancelled');
  });

  test("a once tool's result after cancellation is kept as tool.late; others are dropped", async () => {
    const store = memory();
    const host = new ManualHost();
    const gate = makeGate<string>();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay', 'read'), { text: 'done' }]),
      tools: [
        makeTool('pay', { run: () => gate.promise }),
        makeTool('read', { sideEffect: 'none', run: () => gate.promise }),
      ],
    });
    const run = await agent.start('go');
    await host.idle();
    const cancelled = run.cancel();
    await host.advance(5_000);
    expect(await cancelled).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({
      status: 'cancelled',
      unsettled: [{ callId: 'call_0_0', sideEffect: 'once' }, { callId: 'call_0_1' }],
    });
    gate.open('paid');
    await host.idle();
    const late = (await eventsOf(store, run.id)).filter(({ type }) => type === 'tool.late');
    expect(late).toMatchObject([{ callId: 'call_0_0', output: 'paid', isError: false }]);
    expect((await run.settled()).status).toBe('cancelled');
  });

  test("a once tool's late result is also kept when another process cancelled the run", async () => {
    const store = memory();
    const host = new ManualHost();
    const gate = makeGate<string>();
    const make = () =>
      createAgent({
        name: 'a',
        host,
        store,
        model: scripted([calls('pay'), { text: 'done' }]),
        tools: [makeTool('pay', { run: () => gate.promise })],
      });
    const run = await make().start('go');
    await host.idle();
    expect(await (await make().open(run.id)).cancel()).toEqual({ accepted: true });
    expect((await host.settle(run.settled())).status).toBe('cancelled');
    gate.open('paid');
    await host.idle();
    expect(await wordsOf(store, run.id)).toContain('tool.late call_0_0');
  });

  test('a tool that settles within the grace time keeps its result and is not listed as unsettled', async () => {
    const store = memory();
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay', 'act', 'show'), { text: 'done' }]),
      tools: [
        makeTool('pay', {
          run: (_, { signal }) =>
            new Promise(resolve => signal.addEventListener('abort', () => resolve('paid just in time'))),
        }),
        makeTool('act', { approval: true }),
        clientTool('show'),
      ],
    });
    const run = await agent.start('go');
    await host.idle();
    expect(await run.cancel({ reason: 'changed my mind', by: 'ann' })).toEqual({ accepted: true });
    const settled = await run.settled();
    expect(settled.status === 'cancelled' && settled.unsettled.map(({ callId }) => callId)).toEqual([
      'call_0_1',
      'call_0_2',
    ]);
    const events = await eventsOf(store, run.id);
    expect(events.at(-1)).toMatchObject({
      type: 'run.cancelled',
      reason: 'changed my mind',
      by: 'ann',
      unsettled: ['call_0_1', 'call_0_2'],
    });
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'tool.settled', output: 'paid just in time' }),
    );
  });

  test("a timed-out once tool's result is kept although its call is in doubt", async () => {
    const store = memory();
    const host = new ManualHost();
    const gate = makeGate<string>();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay'), { text: 'done' }]),
      tools: [makeTool('pay', { timeoutMs: 1_000, run: () => gate.promise })],
    });
    const run = await agent.start('go');
    expect(await host.settle(run.settled())).toMatchObject({ doubts: [{ callId: 'call_0_0' }] });
    gate.open('paid after all');
    await host.idle();
    expect((await eventsOf(store, run.id)).at(-1)).toMatchObject({
      type: 'tool.late',
      callId: 'call_0_0',
      output: 'paid after all',
    });
    expect(await run.resolve('call_0_0', { happened: true, output: 'paid after all' })).toEqual({
      accepted: true,
    });
    expect((await host.settle(run.settled())).status).toBe('finished');
  });
});
