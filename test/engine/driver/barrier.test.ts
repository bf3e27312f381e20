import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { SideEffect } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { createAgent } from '../../../tools/agent/agent.ts';
import { ManualHost } from '../../../tools/testing/manual-host.ts';
import { calls, eventsOf, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

/** What reached the disk and what was touched outside, in the order it happened. */
function makeLog() {
  const log: string[] = [];
  const afterAppend = (_: string, events: readonly RunEvent[]) => {
    log.push(events.map(nameOf).join('+'));
  };
  return { log, store: watchStore(memory(), { afterAppend }) };
}

function nameOf(event: RunEvent): string {
  return 'callId' in event ? `${event.type}(${event.callId})` : event.type;
}

const twoRounds = [calls('read', 'read'), calls('read', 'read'), { text: 'done' }];

describe('E1: the barrier', () => {
  test('everything reported is durable before a model or a tool is called', async () => {
    const { log, store } = makeLog();
    const script = scripted(twoRounds);
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      store,
      model: answerWith(async request => {
        log.push('MODEL');
        return await script.generate(request, { signal: new AbortController().signal });
      }),
      tools: [
        makeTool('read', { sideEffect: 'idempotent', run: (_, { callId }) => log.push(`TOOL ${callId}`) }),
      ],
    });
    await agent.run('go');
    expect(log).toEqual([
      'run.started',
      'MODEL',
      'calls.started+turn.completed+tool.started(call_0_0)+tool.started(call_0_1)',
      'TOOL call_0_0',
      'TOOL call_0_1',
      'tool.settled(call_0_0)+tool.settled(call_0_1)',
      'MODEL',
      'calls.started+turn.completed+tool.started(call_1_0)+tool.started(call_1_1)',
      'TOOL call_1_0',
      'TOOL call_1_1',
      'tool.settled(call_1_0)+tool.settled(call_1_1)',
      'MODEL',
      'text.started+turn.completed',
    ]);
  });

  test.each<[commits: number, width: number, sideEffect: SideEffect]>([
    [2, 1, 'once'],
    [2, 4, 'once'],
    [2, 32, 'idempotent'],
    [1, 1, 'none'],
    [1, 4, 'none'],
    [1, 32, 'none'],
  ])('%i commits a round of %i parallel tools that are declared %s', async (expected, width, sideEffect) => {
    const countCommits = async (rounds: number) => {
      const { log, store } = makeLog();
      const round = calls(...Array.from({ length: width }, () => 'read'));
      const agent = createAgent({
        name: 'a',
        host: new ManualHost(),
        store,
        limits: { toolCalls: 1000 },
        model: scripted([...Array.from({ length: rounds }, () => round), { text: 'done' }]),
        tools: [makeTool('read', { sideEffect })],
      });
      expect((await agent.run('go')).status).toBe('finished');
      return log.length;
    };
    expect((await countCommits(6)) - (await countCommits(5))).toBe(expected);
  });

  test('a command is accepted only once its event is durable', async () => {
    const gate = makeGate();
    let held = false;
    const store = watchStore(memory(), {
      beforeAppend: (_, events) => {
        if (!events.some(({ type }) => type === 'approval.decided')) return;
        held = true;
        return gate.promise;
      },
    });
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
    let answered = false;
    const answer = run.approve('call_0_0').finally(() => {
      answered = true;
    });
    await host.advance(1000);
    expect({ held, answered }).toEqual({ held: true, answered: false });
    gate.open();
    expect(await answer).toEqual({ accepted: true });
  });

  test('a refusal waits for what it tells of: the decision that came first', async () => {
    const host = new ManualHost();
    const slow = makeGate<string>();
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('slow', 'act'), { text: 'done' }]),
      tools: [
        makeTool('slow', { sideEffect: 'none', run: () => slow.promise }),
        makeTool('act', { approval: true }),
      ],
    });
    const run = await agent.start('go');
    await host.idle();
    const [first, second] = await Promise.all([
      run.approve('call_0_1', { by: 'ann' }),
      run.approve('call_0_1', { by: 'bob' }),
    ]);
    expect(first).toEqual({ accepted: true });
    expect(second).toMatchObject({ accepted: false, code: 'already-decided', by: 'ann' });
    slow.open('x');
    expect((await run.settled()).status).toBe('finished');
  });

  test('relaxed runs call tools without waiting for the disk, and journal the same', async () => {
    const gate = makeGate();
    const relaxed = memory();
    const touched: string[] = [];
    const store = watchStore(relaxed, {
      beforeAppend: (_, events) =>
        events.some(({ type }) => type === 'tool.started') ? gate.promise : undefined,
    });
    const host = new ManualHost();
    const tools = [makeTool('read', { run: (_, { callId }) => touched.push(callId) })];
    const options = { name: 'a', model: scripted([calls('read'), { text: 'done' }]), tools };
    const run = await createAgent({ ...options, host, store, durability: 'relaxed' }).start('go');
    await host.idle();
    expect(touched).toEqual(['call_0_0']);
    expect(await wordsOf(relaxed, run.id)).not.toContain('tool.started call_0_0');
    gate.open();
    await run.settled();

    const strict = memory();
    await createAgent({ ...options, host: new ManualHost(), store: strict }).run('go');
    const [one, other] = [await eventsOf(relaxed, run.id), await eventsOf(strict, run.id)];
    expect(one.map(({ type }) => type)).toEqual(other.map(({ type }) => type));
  });

  test('a tool is not called when the commit of its start fails, and no other of its batch is', async () => {
    const touched: string[] = [];
    let failed = false;
    const store = memory();
    const failing = watchStore(store, {
      beforeAppend: (_, events) => {
        if (failed || !events.some(({ type }) => type === 'tool.started')) return;
        failed = true;
        throw new Error('disk full');
      },
    });
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      store: failing,
      model: scripted([calls('pay', 'pay', 'pay'), { text: 'done' }]),
      tools: [makeTool('pay', { run: (_, { callId }) => touched.push(callId) })],
    });
    const run = await agent.start('go');
    await expect(run.settled()).rejects.toThrow('disk full');
    expect(touched).toEqual([]);
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(touched).toEqual(['call_0_0', 'call_0_1', 'call_0_2']);
  });
});

describe('E1: a call without side effects that nobody had to allow does not wait for the disk', () => {
  /** An agent whose starts of calls become durable when the gate opens; `acted` are the calls that ran. */
  function makeSlowDisk(options: Parameters<typeof makeTool>[1] = {}) {
    const gate = makeGate();
    const inner = memory();
    const acted: string[] = [];
    const models: number[] = [];
    const script = scripted([calls('read'), { text: 'done' }]);
    const host = new ManualHost();
    const store = watchStore(inner, {
      beforeAppend: (_, events) =>
        events.some(({ type }) => type === 'tool.started') ? gate.promise : undefined,
    });
    const agent = createAgent({
      name: 'a',
      host,
      store,
      retry: { baseMs: 1, maxMs: 1 },
      model: answerWith(async request => {
        models.push(request.transcript.length);
        return await script.generate(request, { signal: new AbortController().signal });
      }),
      tools: [
        makeTool('read', { sideEffect: 'none', run: (_, { callId }) => acted.push(callId), ...options }),
      ],
    });
    return { gate, inner, acted, models, host, agent };
  }

  test('it starts while its commit is on its way, and the model reads its result behind that commit', async () => {
    const { gate, inner, acted, models, host, agent } = makeSlowDisk();
    const run = await agent.start('go');
    await host.idle();
    expect(acted).toEqual(['call_0_0']);
    expect(await wordsOf(inner, run.id)).toEqual(['run.started', 'run.claimed']);
    expect(models).toHaveLength(1);
    gate.open();
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(models).toHaveLength(2);
    expect(acted).toEqual(['call_0_0']);
  });

  test('nobody is told of its result before that commit', async () => {
    const { gate, host, agent } = makeSlowDisk();
    const run = await agent.start('go');
    const told: string[] = [];
    const reading = (async () => {
      for await (const happening of run.events()) told.push(happening.type);
    })();
    await host.idle();
    expect(told).not.toContain('tool.settled');
    gate.open();
    await host.settle(reading);
    expect(told).toContain('tool.settled');
  });

  test('a pause that comes first: it is aborted, its result dropped, and the call counts once when it runs', async () => {
    const started = makeGate();
    const ends: unknown[] = [];
    const acted: string[] = [];
    let attempts = 0;
    const { gate, inner, host, agent } = makeSlowDisk({
      run: async (_, { callId, signal }) => {
        attempts += 1;
        if (attempts === 1) {
          started.open();
          await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));
          ends.push(signal.aborted);
          return 'of nobody';
        }
        acted.push(callId);
        return 'read';
      },
    });
    const run = await agent.start('go');
    await started.promise;
    const { seq = 0 } = (await inner.get(run.id)) ?? {};
    const pause = { type: 'pause.requested', at: host.now() } as const;
    await inner.append(run.id, { after: seq, input: true }, [pause], { status: 'running' });
    gate.open();
    expect(await host.settle(run.settled())).toMatchObject({ status: 'waiting', paused: true });
    expect(ends).toEqual([true]);
    const words = await wordsOf(inner, run.id);
    expect(words.filter(word => word.startsWith('tool.'))).toEqual([]);
    await run.unpause();
    const settled = await host.settle(run.settled());
    expect(settled).toMatchObject({ status: 'finished', results: [{ output: 'read' }] });
    expect(acted).toEqual(['call_0_0']);
    expect(run.context.toolCalls).toBe(1);
  });

  test.each<[string, Parameters<typeof makeTool>[1]]>([
    ['an idempotent call', { sideEffect: 'idempotent' }],
    ['a once call', { sideEffect: 'once' }],
  ])('%s waits', async (_, options) => {
    const { gate, acted, host, agent } = makeSlowDisk(options);
    const run = await agent.start('go');
    await host.idle();
    expect(acted).toEqual([]);
    gate.open();
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(acted).toEqual(['call_0_0']);
  });

  test('an approved call waits, also one whose input was changed', async () => {
    const { gate, acted, host, agent } = makeSlowDisk({ approval: true });
    const run = await agent.start('go');
    await host.settle(run.settled());
    await run.approve('call_0_0', { input: { changed: true } });
    await host.idle();
    expect(acted).toEqual([]);
    gate.open();
    expect((await host.settle(run.settled())).status).toBe('finished');
  });

  test('a second attempt waits', async () => {
    const attempts: number[] = [];
    const { gate, host, agent } = makeSlowDisk({
      retries: 1,
      run: () => {
        attempts.push(attempts.length + 1);
        if (attempts.length === 1) throw new Error('busy');
      },
    });
    const run = await agent.start('go');
    await host.idle();
    await host.advance(1_000);
    expect(attempts).toEqual([1]);
    gate.open();
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(attempts).toEqual([1, 2]);
  });
});
