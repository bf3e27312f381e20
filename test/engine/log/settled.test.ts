import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { userMessage } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, countEvents, makeGate, makeTool } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';

const usage = {
  inputTokens: 10,
  outputTokens: 5,
  cachedInputTokens: 4,
  cacheWriteTokens: null,
  reasoningTokens: 1,
};

describe('settled', () => {
  test('finished: text, results of all rounds, unread messages, usage and turns', async () => {
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      model: scripted([
        { ...calls(['read', { n: 1 }]), usage },
        { ...calls('act'), usage },
        { text: 'done', usage },
      ]),
      tools: [makeTool('read', { sideEffect: 'none' }), makeTool('act')],
    });
    expect(await agent.run('go')).toEqual({
      status: 'finished',
      agent: 'a',
      text: 'done',
      results: [
        { callId: 'call_0_0', name: 'read', input: { n: 1 }, output: 'read ran', isError: false },
        { callId: 'call_1_0', name: 'act', input: {}, output: 'act ran', isError: false },
      ],
      unread: [],
      turns: 3,
      usage: {
        inputTokens: 30,
        outputTokens: 15,
        cachedInputTokens: 12,
        cacheWriteTokens: null,
        reasoningTokens: 3,
      },
    });
  });

  test('finished, incomplete: the reason is the limit or the finish reason', async () => {
    const make = (options: Partial<AgentOptions>) =>
      createAgent({
        name: 'a',
        host: new ManualHost(),
        model: scripted([{ text: 'half', finishReason: 'length' }]),
        tools: [makeTool('read')],
        ...options,
      });
    expect(await make({}).run('go')).toMatchObject({ text: 'half', incomplete: { reason: 'length' } });
    const model = scripted([calls('read'), calls('read'), { text: 'done' }]);
    expect(await make({ model, limits: { turns: 2 } }).run('go')).toMatchObject({
      status: 'finished',
      incomplete: { reason: 'turns' },
      turns: 3,
    });
    expect(await make({ model, limits: { turns: 2 }, onLimit: 'stop' }).run('go')).toMatchObject({
      text: '',
      incomplete: { reason: 'turns' },
      turns: 2,
    });
  });

  test('waiting: open calls by kind, and whether the run is paused', async () => {
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('act', ['show', { page: 2 }], 'pay'), { text: 'done' }]),
      tools: [
        makeTool('act', { approval: { required: true, reason: 'it costs', expiresInMs: 5000 } }),
        clientTool('show'),
        makeTool('pay', { timeoutMs: 10, run: () => new Promise(() => {}) }),
      ],
    });
    const run = await agent.start('go');
    await host.idle();
    await run.pause();
    const started = host.now();
    await host.advance(1_020);
    const digest = expect.stringMatching(/^[0-9a-f]{32}$/);
    const common = { runId: run.id, digest, sideEffect: 'once' };
    const approval = {
      ...common,
      id: `approval:${run.id}:call_0_0`,
      kind: 'approval',
      callId: 'call_0_0',
      name: 'act',
      input: {},
      reason: 'it costs',
      expiresAt: started + 5000,
    };
    const result = {
      ...common,
      id: `result:${run.id}:call_0_1`,
      kind: 'result',
      callId: 'call_0_1',
      name: 'show',
      input: { page: 2 },
    };
    const doubt = {
      ...common,
      id: `doubt:${run.id}:call_0_2`,
      kind: 'doubt',
      callId: 'call_0_2',
      name: 'pay',
      input: {},
      reason: 'The tool did not answer within 10 ms.',
    };
    expect(await run.settled()).toEqual({
      status: 'waiting',
      open: [approval, result, doubt, { id: `pause:${run.id}`, kind: 'pause', runId: run.id }],
      approvals: [approval],
      doubts: [doubt],
      results: [],
      questions: [],
      reviews: [],
      paused: true,
      turns: 1,
      usage: null,
    });
  });

  test('failed: the code and message of the final error', async () => {
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      model: scripted([{ error: { code: 'authentication', message: 'bad key' } }]),
    });
    expect(await agent.run('go')).toEqual({
      status: 'failed',
      error: { code: 'authentication', message: 'bad key' },
      turns: 0,
      usage: null,
    });
  });

  test('cancelled: the calls without a result, with their statuses', async () => {
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      model: scripted([calls('act', 'show', 'read'), { text: 'done' }]),
      tools: [makeTool('act', { approval: true }), clientTool('show'), makeTool('read')],
    });
    const run = await agent.start('go');
    await run.settled();
    expect(await run.cancel()).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({
      status: 'cancelled',
      unsettled: [
        { callId: 'call_0_0', status: 'gated' },
        { callId: 'call_0_1', status: 'waiting' },
      ],
    });
  });

  test('is the same for every caller and every call', async () => {
    const host = new ManualHost();
    const store = memory();
    const options = { name: 'a', host, store, model: scripted([{ text: 'done' }]) };
    const run = await createAgent(options).start('go');
    const first = await run.settled();
    expect(await Promise.all([run.settled(), run.settled()])).toEqual([first, first]);
    expect(await (await createAgent(options).open(run.id)).settled()).toEqual(first);
    expect(await countEvents(store, run.id, 'run.claimed')).toBe(1);
  });

  test('a message after the last model call is reported as unread', async () => {
    const host = new ManualHost();
    const gate = makeGate();
    const model = answerWith(async (_, before) => {
      if (before === 0) await gate.promise;
      return { text: `answer ${before}` };
    });
    const run = await createAgent({ name: 'a', host, model, limits: { turns: 1 }, onLimit: 'stop' }).start(
      'go',
    );
    await host.idle();
    expect(await run.send('one more thing')).toEqual({ accepted: true });
    gate.open();
    expect(await run.settled()).toMatchObject({
      status: 'finished',
      text: 'answer 0',
      unread: [{ ...userMessage('one more thing'), id: 'item_2' }],
    });
  });

  test('a message during the model call is read by one more call', async () => {
    const host = new ManualHost();
    const gate = makeGate();
    const model = answerWith(async (_, before) => {
      if (before === 0) await gate.promise;
      return { text: `answer ${before}` };
    });
    const run = await createAgent({ name: 'a', host, model }).start('go');
    await host.idle();
    await run.send('one more thing');
    gate.open();
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'answer 1', unread: [] });
  });
});
