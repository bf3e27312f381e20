import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import type { Limits } from '../../../protocol/config.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { createAgent } from '../../../tools/agent/agent.ts';
import { type AgentOptions, defineAgent } from '../../../tools/agent/agent-options.ts';
import { ManualHost } from '../../../tools/testing/manual-host.ts';
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
  test('finished: text, results of all rounds, what was not read, usage and turns', async () => {
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

  test('finished, incomplete: the reason is the limit, or what cut the answer off', async () => {
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

  test('waiting: what is open, by what it waits for, and whether the run is paused', async () => {
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
    expect(await run.settled()).toEqual({
      status: 'waiting',
      paused: true,
      approvals: [
        {
          ...common,
          callId: 'call_0_0',
          name: 'act',
          input: {},
          status: 'gated',
          reason: 'it costs',
          expiresAt: started + 5000,
        },
      ],
      results: [{ ...common, callId: 'call_0_1', name: 'show', input: { page: 2 }, status: 'waiting' }],
      doubts: [
        {
          ...common,
          callId: 'call_0_2',
          name: 'pay',
          input: {},
          status: 'doubted',
          reason: 'The tool did not answer within 10 ms.',
        },
      ],
      turns: 1,
      usage: null,
    });
  });

  test('failed: the code and message of what could not be helped', async () => {
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

  test('cancelled: the calls that have no result, and where each stood', async () => {
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

  test('is the same for everybody who asks, as often as they ask', async () => {
    const host = new ManualHost();
    const store = memory();
    const options = { name: 'a', host, store, model: scripted([{ text: 'done' }]) };
    const run = await createAgent(options).start('go');
    const first = await run.settled();
    expect(await Promise.all([run.settled(), run.settled()])).toEqual([first, first]);
    expect(await (await createAgent(options).open(run.id)).settled()).toEqual(first);
    expect(await countEvents(store, run.id, 'run.claimed')).toBe(1);
  });

  test('a message that came after the last model call is unread, never lost', async () => {
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

  test('a message while the model answers is read by one more call', async () => {
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

describe('start', () => {
  test('limits hold for this run alone', async () => {
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      model: scripted([calls('read'), calls('read'), { text: 'done' }]),
      tools: [makeTool('read', { sideEffect: 'none' })],
    });
    expect(await agent.run('go', { limits: { toolCalls: 1 } })).toMatchObject({
      incomplete: { reason: 'toolCalls' },
    });
    expect(await agent.run('go')).toMatchObject({ status: 'finished', text: 'done' });
  });

  test.each([
    { turns: 0 },
    { turns: -1 },
    { turns: 1.5 },
    { turns: Number.NaN },
    { toolCalls: -1 },
    { tokens: 0 },
  ])('a limit that cannot be is refused, of the agent and of the run: %j', async limits => {
    const options = { name: 'a', model: scripted([{ text: 'done' }]) };
    expect(() => defineAgent({ ...options, limits })).toThrow(/limits\./);
    await expect(createAgent(options).start('go', { limits })).rejects.toMatchObject({
      code: 'agent-invalid',
    });
  });

  test('a limit given as undefined is the default', async () => {
    const limits: Partial<Limits> = Object.fromEntries([['turns', undefined]]);
    const options = { name: 'a', host: new ManualHost(), model: scripted([{ text: 'done' }]) };
    expect(defineAgent({ ...options, limits }).limits.turns).toBe(20);
    const run = await createAgent(options).start('go', { limits });
    await run.settled();
    const { image } = run.snapshot() as { image: { state: { context: { config: unknown } } } };
    expect(image.state.context.config).toMatchObject({ limits: { turns: 20, toolCalls: 50 } });
  });

  test('a limit on cost needs prices', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    await expect(agent.start('go', { limits: { cost: 1 } })).rejects.toMatchObject({ code: 'agent-invalid' });
  });

  test('an agent without a model says so, and begins no run', async () => {
    const store = memory();
    await expect(createAgent({ name: 'a', store }).start('go')).rejects.toMatchObject({
      code: 'model-missing',
    });
    expect(await store.list()).toEqual([]);
  });

  test('input that is no item is refused by its place', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    const bad: Item[] = JSON.parse(
      '[{"type":"message","role":"user","content":[]},{"type":"message","role":"nobody"}]',
    );
    await expect(agent.start(bad)).rejects.toThrow(/Item 1\.role/);
  });

  test('the same run id twice is refused', async () => {
    const agent = createAgent({ name: 'a', host: new ManualHost(), model: scripted([{ text: 'done' }]) });
    await agent.run('go', { runId: 'mine' });
    await expect(agent.run('go', { runId: 'mine' })).rejects.toMatchObject({ code: 'run-exists' });
  });

  test('a signal cancels the run: before it begins, while it runs, and while it rests', async () => {
    const make = () => {
      const host = new ManualHost();
      const agent = createAgent({
        name: 'a',
        host,
        model: scripted([calls('act'), { text: 'done' }]),
        tools: [makeTool('act', { approval: true })],
      });
      return { host, agent };
    };
    const early = make();
    const before = await early.agent.start('go', { signal: AbortSignal.abort() });
    expect(await early.host.settle(untilEnded(before))).toBe('cancelled');

    const resting = make();
    const abort = new AbortController();
    const run = await resting.agent.start('go', { signal: abort.signal });
    expect((await run.settled()).status).toBe('waiting');
    await resting.host.idle();
    abort.abort();
    expect(await resting.host.settle(untilEnded(run))).toBe('cancelled');

    const host = new ManualHost();
    const running = new AbortController();
    const aborted = makeGate<string>();
    const slow = createAgent({
      name: 'a',
      host,
      model: scripted([calls('slow'), { text: 'done' }]),
      tools: [
        makeTool('slow', {
          run: (_, { signal }) => {
            signal.addEventListener('abort', () => aborted.open('stopped'));
            return aborted.promise;
          },
        }),
      ],
    });
    const third = await slow.start('go', { signal: running.signal });
    await host.idle();
    running.abort();
    expect(await host.settle(untilEnded(third))).toBe('cancelled');
    expect(await third.settled()).toMatchObject({ unsettled: [] });

    async function untilEnded(followed: typeof run): Promise<string> {
      for await (const _ of followed.events({ follow: true }));
      return (await followed.settled()).status;
    }
  });

  test('open of a run nobody knows says so', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    await expect(agent.open('run_x')).rejects.toThrow(EngineError);
    await expect(agent.open('run_x')).rejects.toMatchObject({ code: 'run-unknown' });
  });
});

describe('pausing', () => {
  test('a pause stops before the next spending action, a step lets one through', async () => {
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('read'), calls('read'), { text: 'done' }]),
      tools: [makeTool('read', { sideEffect: 'none' })],
    });
    const run = await agent.start('go');
    expect(await run.pause()).toEqual({ accepted: true });
    expect(await run.pause()).toMatchObject({ accepted: false, code: 'refused' });
    const turns = async () => {
      const settled = await run.settled();
      return settled.status === 'waiting' && settled.paused ? settled.turns : settled.status;
    };
    expect(await turns()).toBe(1);
    await run.step();
    expect(await turns()).toBe(1);
    await run.step();
    expect(await turns()).toBe(2);
    await run.unpause();
    expect(await turns()).toBe('finished');
  });
});
