import { TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { instrument } from '../../../fronts/otel/index.ts';
import { memory } from '../../../stores/memory.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, clientTool, makeTool } from '../../support/engine/agents.ts';
import { byId, recordSpans, tracedAfterwards, treeOf } from '../../support/fronts/otel/record-spans.ts';

const USAGE = { inputTokens: 10, outputTokens: 4, cachedInputTokens: 3 };

describe('the spans of a run', () => {
  test('say which request did not begin with the one before it, and why', async () => {
    const { tracerProvider, spans } = recordSpans();
    const agent = createAgent({
      name: 'a',
      store: memory(),
      model: scripted([calls('look'), { text: 'done' }]),
      tools: [makeTool('look', { sideEffect: 'none' }), makeTool('pay')],
      prepareTurn: ({ turns }) => ({ tools: turns < 1 ? ['look'] : ['look', 'pay'] }),
    });
    const run = await instrument(agent, { tracerProvider }).start('go');
    await run.settled();
    const chats = spans().filter(({ name }) => name === 'chat script');
    expect(chats.map(({ attributes }) => attributes['agentchart.broken.by'])).toEqual([undefined, 'tools']);
  });

  test('are one trace over a pause, live and from the journal alike', async () => {
    const { tracerProvider, spans } = recordSpans();
    const store = memory();
    const agent = instrument(
      createAgent({
        name: 'refunds',
        store,
        model: scripted({
          turns: [
            { ...calls('look', 'pay'), usage: USAGE },
            { text: 'done', usage: USAGE },
          ],
        }),
        prices: { script: { input: 1_000_000, output: 0 } },
        tools: [makeTool('look', { sideEffect: 'none' }), makeTool('pay', { approval: true })],
      }),
      { tracerProvider },
    );
    const run = await agent.start('go', { thread: 'c1' });
    await run.settled();
    const [resting] = spans().filter(({ name }) => name.startsWith('invoke_agent'));
    expect(resting?.attributes).toEqual({
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': 'refunds',
      'gen_ai.conversation.id': 'c1',
      'gen_ai.usage.input_tokens': 10,
      'gen_ai.usage.output_tokens': expect.any(Number),
      'agentchart.run.id': run.id,
      'agentchart.run.status': 'waiting',
      'agentchart.drive': 1,
      'agentchart.model_calls': 1,
      'agentchart.tool_calls': 1,
      'agentchart.cost': 10,
    });
    await run.approve('call_0_1', { by: 'ann' });
    await run.settled();

    expect(treeOf(spans())).toEqual([
      'invoke_agent refunds',
      '  chat script',
      '  execute_tool look',
      '  agentchart.wait',
      '  invoke_agent refunds',
      '    execute_tool pay',
      '    chat script',
    ]);
    expect(new Set(spans().map(({ traceId }) => traceId)).size).toBe(1);
    expect(byId(spans())).toEqual(byId(await tracedAfterwards(store, run.id)));
    const [chat] = spans().filter(({ name }) => name === 'chat script');
    expect(chat).toMatchObject({
      kind: 'client',
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'scripted',
        'gen_ai.request.model': 'script',
        'gen_ai.response.finish_reasons': ['tool_calls'],
        'gen_ai.usage.input_tokens': 10,
        'gen_ai.usage.cache_read.input_tokens': 3,
        'gen_ai.conversation.id': 'c1',
        'agentchart.cost': 10,
      },
    });
    const wait = spans().find(({ name }) => name === 'agentchart.wait');
    expect(wait?.attributes).toMatchObject({
      'agentchart.wait.for': 'approval',
      'agentchart.wait.outcome': 'approve',
      'gen_ai.tool.name': 'pay',
    });
  });

  test('have a wait for each time a tool asks people, with what became of it', async () => {
    const { tracerProvider, spans } = recordSpans();
    const book = tool({
      name: 'book',
      description: 'Books.',
      input: z.object({}),
      prepare: async ({ ask }) => [
        await ask({ key: 'a', message: 'A?', schema: z.string() }),
        await ask({ key: 'b', message: 'B?', schema: z.string() }).catch(() => 'none'),
      ],
      run: (_, { prepared }) => prepared,
    });
    const model = scripted([calls('book'), { text: 'Done.' }]);
    const agent = instrument(createAgent({ name: 'tables', store: memory(), model, tools: [book] }), {
      tracerProvider,
    });
    const run = await agent.start('go');
    await run.settled();
    await run.answer('call_0_0', { answers: { a: 'one' } });
    await run.settled();
    await run.reject('call_0_0', { reason: 'no' });
    expect((await run.settled()).status).toBe('finished');
    const waits = spans().filter(({ name }) => name === 'agentchart.wait');
    expect(waits.map(({ attributes }) => attributes)).toMatchObject(
      ['answered', 'declined'].map(outcome => ({
        'agentchart.wait.for': 'answer',
        'agentchart.wait.outcome': outcome,
        'gen_ai.tool.name': 'book',
      })),
    );
  });

  test('have no content unless it is asked for', async () => {
    const secret = 'the-secret-text';
    const make = async (content: boolean) => {
      const { tracerProvider, spans } = recordSpans();
      const model = scripted({ turns: [calls(['pay', { to: secret }]), { text: secret }] });
      const pay = makeTool('pay', { approval: true, run: () => Promise.reject(new Error(secret)) });
      const instructions = () => `Keep ${secret}.`;
      const agent = createAgent({ name: 'a', model, instructions, tools: [pay] });
      const run = await instrument(agent, { tracerProvider, content }).start(secret);
      await run.settled();
      await run.approve('call_0_0', { by: secret });
      await run.settled();
      return spans();
    };
    expect(JSON.stringify(await make(false))).not.toContain(secret);
    const attributes = (await make(true)).flatMap(span => Object.entries(span.attributes));
    const withSecret = attributes.filter(([, value]) => JSON.stringify(value).includes(secret));
    expect(new Set(withSecret.map(([name]) => name))).toEqual(
      new Set([
        'gen_ai.system_instructions',
        'gen_ai.input.messages',
        'gen_ai.output.messages',
        'gen_ai.tool.call.arguments',
        'gen_ai.tool.call.result',
        'agentchart.wait.by',
      ]),
    );
  });

  test('with content, have the instructions of each model call, as parts', async () => {
    const { tracerProvider, spans } = recordSpans();
    const instructions = ({ user }: { user: string }) => `You help ${user}.`;
    const model = scripted([calls('look'), { text: 'done' }]);
    const tools = [makeTool('look', { sideEffect: 'none' })];
    const runContext = z.object({ user: z.string() });
    const agent = createAgent({ name: 'a', model, instructions, tools, runContext });
    await instrument(agent, { tracerProvider, content: true }).run('go', { runContext: { user: 'Ann' } });
    const chats = spans().filter(({ name }) => name.startsWith('chat'));
    const parts = JSON.stringify([{ type: 'text', content: 'You help Ann.' }]);
    expect(chats.map(({ attributes }) => attributes['gen_ai.system_instructions'])).toEqual([parts, parts]);
  });

  test('with content, have a turn as one message', async () => {
    const { tracerProvider, spans } = recordSpans();
    const model = scripted([
      { ...calls(['look', { a: 1 }]), text: 'Looking.', reasoning: 'Hm.' },
      { text: 'done' },
    ]);
    const tools = [makeTool('look', { sideEffect: 'none' })];
    await instrument(createAgent({ name: 'a', model, tools }), { tracerProvider, content: true }).run('go');
    const [chat] = spans().filter(({ name }) => name.startsWith('chat'));
    const written: unknown = JSON.parse(String(chat?.attributes['gen_ai.output.messages']));
    expect(written).toMatchObject([
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', content: 'Hm.' },
          { type: 'text', content: 'Looking.' },
          { type: 'tool_call', name: 'look' },
        ],
      },
    ]);
  });

  test('have the call that wrote a summary, and say which calls read a compacted transcript', async () => {
    const { tracerProvider, spans } = recordSpans();
    const usage = { inputTokens: 3_000, outputTokens: 4 };
    const model = scripted({
      turns: [
        { ...calls('look'), usage: USAGE },
        { ...calls('look'), usage },
        { text: 'They looked.', usage: USAGE },
        { text: 'done', usage: USAGE },
      ],
    });
    const agent = createAgent({
      name: 'a',
      model,
      tools: [makeTool('look', { sideEffect: 'none' })],
      compaction: { at: 2_000, summarize: 'model' },
    });
    const settled = await instrument(agent, { tracerProvider }).run('go');
    const chats = spans().filter(({ name }) => name === 'chat script');
    expect(
      chats.map(({ attributes }) => [
        attributes['agentchart.summary'],
        attributes['gen_ai.conversation.compacted'],
        attributes['gen_ai.usage.input_tokens'],
      ]),
    ).toEqual([
      [undefined, undefined, 10],
      [undefined, undefined, 3_000],
      [true, undefined, 10],
      [undefined, true, 10],
    ]);
    const drive = spans().find(({ name }) => name === 'invoke_agent a');
    expect(drive?.attributes).toMatchObject({
      'agentchart.model_calls': 4,
      'gen_ai.usage.input_tokens': settled.usage?.inputTokens,
    });
  });

  test('show retries, waits between them, and why a run failed', async () => {
    const { tracerProvider, spans } = recordSpans();
    const model = scripted({ turns: [{ error: { code: 'overloaded', times: 1 } }, { text: 'done' }] });
    const retry = { baseMs: 20, maxMs: 20 };
    await instrument(createAgent({ name: 'a', model, retry }), { tracerProvider }).run('go');
    expect(treeOf(spans())).toEqual([
      'invoke_agent a',
      '  chat script',
      '  agentchart.backoff',
      '  chat script',
    ]);
    const failing = scripted({ turns: [{ error: { code: 'quota' } }] });
    const runs = recordSpans();
    await instrument(createAgent({ name: 'a', model: failing, retry }), {
      tracerProvider: runs.tracerProvider,
    }).run('go');
    const [chat, drive] = runs.spans();
    expect(chat).toMatchObject({
      error: 'quota',
      attributes: { 'error.type': 'quota', 'gen_ai.response.finish_reasons': ['error'] },
    });
    expect(drive?.attributes).toMatchObject({ 'agentchart.run.status': 'failed', 'error.type': 'quota' });
  });

  test('of sub-agents belong to the trace of the topmost run, below the call that started them', async () => {
    const { tracerProvider, spans } = recordSpans();
    const store = memory();
    const below = createAgent({
      name: 'below',
      model: scripted({ turns: [calls('pay'), { text: 'paid' }] }),
      tools: [makeTool('pay', { approval: true })],
    });
    const above = createAgent({
      name: 'above',
      store,
      model: scripted({ turns: [calls(['ask', { input: 'pay' }]), { text: 'done' }] }),
      tools: [below.asTool({ name: 'ask', description: 'Asks.' })],
    });
    const run = await instrument(above, { tracerProvider }).start('go');
    const waiting = await run.settled();
    if (waiting.status !== 'waiting') throw new Error(waiting.status);
    await run.approve(waiting.approvals[0] ?? '');
    expect((await run.settled()).status).toBe('finished');
    expect(treeOf(spans())).toEqual([
      'invoke_agent above',
      '  chat script',
      '  execute_tool ask',
      '    invoke_agent below',
      '      chat script',
      '      agentchart.wait',
      '      invoke_agent below',
      '        execute_tool pay',
      '        chat script',
      '  invoke_agent above',
      '    chat script',
    ]);
    expect(byId(spans())).toEqual(byId(await tracedAfterwards(store, run.id)));
  });

  test('of waits that a cancellation ended at rest are emitted, also those of a sub-agent', async () => {
    const { tracerProvider, spans } = recordSpans();
    const store = memory();
    const pay = makeTool('pay', { approval: true });
    const below = createAgent({ name: 'below', model: scripted({ turns: [calls('pay')] }), tools: [pay] });
    const above = createAgent({
      name: 'above',
      store,
      model: scripted({ turns: [calls(['ask', { input: 'pay' }], 'pay')] }),
      tools: [below.asTool({ name: 'ask', description: 'Asks.' }), pay],
    });
    const run = await instrument(above, { tracerProvider }).start('go');
    await run.settled();
    expect(await run.cancel()).toEqual({ accepted: true });
    const waits = spans().filter(({ name }) => name === 'agentchart.wait');
    expect(
      waits
        .map(({ attributes }) => [attributes['gen_ai.agent.name'], attributes['agentchart.wait.outcome']])
        .sort(),
    ).toEqual([
      ['above', 'cancelled'],
      ['below', 'cancelled'],
    ]);
    expect(byId(spans())).toEqual(byId(await tracedAfterwards(store, run.id)));
  });

  test('of a fork begin with the fork', async () => {
    const { tracerProvider, spans } = recordSpans();
    const store = memory();
    const model = scripted({ turns: [calls('ask'), { text: 'done' }] });
    const agent = instrument(createAgent({ name: 'a', store, model, tools: [clientTool('ask')] }), {
      tracerProvider,
    });
    const run = await agent.start('go');
    await run.settled();
    await run.answer('call_0_0', { output: 'yes' });
    await run.settled();
    const before = spans().length;
    const { seq } = (await store.get(run.id)) ?? { seq: 0 };
    const fork = await run.fork({ at: seq - 2 });
    await fork.settled();
    const forked = spans().slice(before);
    expect(treeOf(forked)).toEqual(['invoke_agent a', '  chat script']);
    expect(forked[0]?.traceId).not.toBe(spans()[0]?.traceId);
    expect(byId(forked)).toEqual(byId(await tracedAfterwards(store, fork.id)));
  });

  test('are sampled as a whole, whichever process drives', async () => {
    for (const ratio of [0, 1]) {
      const { tracerProvider, spans } = recordSpans(new TraceIdRatioBasedSampler(ratio));
      const model = scripted({ turns: [calls('look'), { text: 'done' }] });
      const agent = createAgent({ name: 'a', model, tools: [makeTool('look')] });
      await instrument(agent, { tracerProvider }).run('go');
      expect(spans().length).toBe(ratio === 0 ? 0 : 4);
    }
  });

  test('never fail the run when their export throws', async () => {
    const tracerProvider = {
      getTracer: () => ({
        startSpan: () => {
          throw new Error('no exporter');
        },
        startActiveSpan: () => undefined,
      }),
    };
    const model = scripted({ turns: [{ text: 'done' }] });
    const agent = instrument(createAgent({ name: 'a', model }), { tracerProvider: tracerProvider as never });
    expect((await agent.run('go')).status).toBe('finished');
  });
});
