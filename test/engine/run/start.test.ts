import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { defineAgent } from '../../../agent/agent-options.ts';
import type { Limits } from '../../../protocol/config.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Item } from '../../../protocol/item.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';

describe('start', () => {
  test('limits of a run apply only to that run', async () => {
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
  ])('an invalid limit is refused for the agent and for the run: %j', async limits => {
    const options = { name: 'a', model: scripted([{ text: 'done' }]) };
    expect(() => defineAgent({ ...options, limits })).toThrow(/limits\./);
    await expect(createAgent(options).start('go', { limits })).rejects.toMatchObject({
      code: 'agent-invalid',
    });
  });

  test.each([
    [
      { model: { provider: 'acme', stream: () => {} } },
      /such as openaiResponses\({ model: .* got an object with provider, stream/,
    ],
    [{ model: 'openai:gpt-5' }, /expected an adapter as model.* got "openai:gpt-5"\. .*modelFromEnv/],
    [{ tools: { read: makeTool('read') } }, /expected a list of tools.* got an object with read/],
    [{ tools: [{ name: 'read', run: () => 1 }] }, /tools\[0\].* got an object with name, run\. /],
    [{ tools: [createAgent({ name: 'b' })] }, /tools\[0\].*asTool/],
    [{ host: {} }, /expected a host .* got an object with no members: it lacks now, monotonic/],
    [{ host: null }, /expected a host .* got null/],
    [{ store: 'runs.db' }, /expected a store, such as sqlite.* got "runs\.db"/],
  ])('a part of another kind is refused with what to use: %#', (options, message) => {
    const untyped = { name: 'a', ...options } as unknown as Parameters<typeof createAgent>[0];
    expect(() => createAgent(untyped)).toThrow(message);
  });

  test.each([5, undefined, { role: 'user' }])(
    'an input that is no text and no list is refused: %j',
    async input => {
      const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
      await expect(agent.start(input as unknown as string)).rejects.toMatchObject({ code: 'input-invalid' });
    },
  );

  test('an undefined limit has the default value', async () => {
    const limits: Partial<Limits> = Object.fromEntries([['turns', undefined]]);
    const options = { name: 'a', host: new ManualHost(), model: scripted([{ text: 'done' }]) };
    expect(defineAgent({ ...options, limits }).limits.turns).toBe(20);
    const run = await createAgent(options).start('go', { limits });
    await run.settled();
    const { image } = run.snapshot() as { image: { state: { context: { config: unknown } } } };
    expect(image.state.context.config).toMatchObject({ limits: { turns: 20, toolCalls: 50 } });
  });

  test('a cost limit requires prices', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    await expect(agent.start('go', { limits: { cost: 1 } })).rejects.toMatchObject({ code: 'agent-invalid' });
  });

  test('an agent without a model refuses to start, and creates no run', async () => {
    const store = memory();
    await expect(createAgent({ name: 'a', store }).start('go')).rejects.toMatchObject({
      code: 'model-missing',
    });
    expect((await store.list()).runs).toEqual([]);
  });

  test('an invalid input item is refused, naming its position', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    const bad: Item[] = JSON.parse(
      '[{"type":"message","role":"user","content":[]},{"type":"message","role":"nobody"}]',
    );
    await expect(agent.start(bad)).rejects.toThrow(/Item 1\.role/);
  });

  test('a starter with an empty name is refused', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    await expect(agent.start('go', { by: '' })).rejects.toMatchObject({
      code: 'input-invalid',
      message: '`by` of agent.start: expected the name of a person, got "".',
    });
  });

  test('a signal that is none is refused, and creates no run', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    for (const signal of [{}, null, 5] as never[])
      await expect(agent.start('go', { signal })).rejects.toMatchObject({
        code: 'input-invalid',
        message: expect.stringContaining('signal of agent.start: expected an AbortSignal'),
      });
    expect((await agent.store.list()).runs).toEqual([]);
  });

  test('a duplicate run id is refused', async () => {
    const agent = createAgent({ name: 'a', host: new ManualHost(), model: scripted([{ text: 'done' }]) });
    await agent.run('go', { runId: 'mine' });
    await expect(agent.run('go', { runId: 'mine' })).rejects.toMatchObject({ code: 'run-exists' });
  });

  test('a signal cancels the run before it begins, while it runs, and while it rests', async () => {
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

  test('opening an unknown run fails with run-unknown', async () => {
    const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]) });
    await expect(agent.open('run_x')).rejects.toThrow(EngineError);
    await expect(agent.open('run_x')).rejects.toMatchObject({ code: 'run-unknown' });
  });
});

describe('pausing', () => {
  test('a pause stops before the next spending action, and a step allows one', async () => {
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
