import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { SideEffect } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

/** Commits and external calls, in the order they happened. */
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

  test('a command is accepted only after its event is durable', async () => {
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

  test('a refusal waits until the earlier decision that it reports is durable', async () => {
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

  test('relaxed runs call tools before the commit, and write the same journal', async () => {
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

  test('when the commit of their starts fails, no tool of the batch is called', async () => {
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

describe('E1: a call without side effects and without approval does not wait for the commit', () => {
  /** An agent whose tool.started events become durable when the gate opens; `acted` lists the calls that ran. */
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

  test('it starts during its commit, and the model reads its result only after that commit', async () => {
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

  test('readers see its result only after that commit', async () => {
    const { gate, host, agent } = makeSlowDisk();
    const run = await agent.start('go');
    const seen: string[] = [];
    const reading = (async () => {
      for await (const happening of run.events()) seen.push(happening.type);
    })();
    await host.idle();
    expect(seen).not.toContain('tool.settled');
    gate.open();
    await host.settle(reading);
    expect(seen).toContain('tool.settled');
  });

  test('a pause committed first aborts it, drops its result, and the call counts once when it runs later', async () => {
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

  test('an approved call waits, with or without an edited input', async () => {
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
