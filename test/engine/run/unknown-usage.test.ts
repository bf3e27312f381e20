import { describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { childOf, makeFamily, settleWith } from '../../support/engine/family.ts';
import { answerWith } from '../../support/engine/models.ts';

const USAGE = {
  inputTokens: 10,
  outputTokens: 5,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};
const NOTHING = { ...USAGE, inputTokens: 0, outputTokens: 0 };
const LIMITS = { tokens: 1_000, turns: 8 };
const PRICES = { 'test-1': { input: 1, output: 1 } };
const UNKNOWN = { status: 'finished', incomplete: { reason: 'usage-unknown' } };

/** Reads forever; with `usage`, each turn says what it used. */
function reader(
  usage: typeof USAGE | null = null,
  said: Parameters<typeof answerWith>[1] = {},
): ModelAdapter {
  return answerWith(
    (_, before) => ({ toolCalls: [{ callId: `c${before}`, name: 'read' }], usage, text: 'reading' }),
    said,
  );
}

const silent = (model: ModelAdapter): ModelAdapter => ({
  ...model,
  capabilities: { ...model.capabilities, usage: false },
});

function agentOf(options: Partial<AgentOptions> = {}) {
  const tools = [makeTool('read', { sideEffect: 'none' })];
  return createAgent({
    name: 'reader',
    model: reader(),
    tools,
    store: memory(),
    host: new ManualHost(),
    ...options,
  } as AgentOptions);
}

/** Asks the researcher, then answers. */
const asker = (usage: typeof USAGE | null) =>
  answerWith(({ transcript }: ModelRequest) =>
    transcript.some(({ type }) => type === 'tool_result')
      ? { text: 'told', usage }
      : { toolCalls: [{ callId: 'c', name: 'research', input: { input: 'go' } }], usage },
  );

describe('without numbers from the provider', () => {
  test.each([
    ['tokens', { limits: LIMITS }],
    ['cost', { limits: { cost: 1, turns: 8 }, prices: PRICES }],
  ])('a limit on %s ends the run after its first turn', async (_, options) => {
    const settled = await agentOf(options).run('go');
    expect(settled).toMatchObject({ ...UNKNOWN, turns: 1, usage: null });
  });

  test('the run ends without a closing call, and with the results of the calls of that turn', async () => {
    const settled = await agentOf({ limits: LIMITS, onLimit: 'answer' }).run('go');
    expect(settled).toMatchObject({ ...UNKNOWN, turns: 1, results: [{ callId: 'c0', isError: false }] });
  });

  test('an answer of the first turn is kept, and incomplete', async () => {
    const model = answerWith(() => ({ text: 'done' }));
    expect(await agentOf({ model, limits: LIMITS }).run('go')).toMatchObject({ ...UNKNOWN, text: 'done' });
  });

  test.each([
    ['of zero', NOTHING],
    ['without what the model read, as from Ollama for a cached prompt', { ...USAGE, inputTokens: 0 }],
  ])('counts %s are no numbers', async (_, usage) => {
    const settled = await agentOf({ model: reader(usage), limits: LIMITS }).run('go');
    expect(settled).toMatchObject({ ...UNKNOWN, turns: 1, usage: null });
  });

  test('one turn of several is enough', async () => {
    const model = answerWith((_, before) => ({
      toolCalls: [{ callId: `c${before}`, name: 'read' }],
      usage: before === 2 ? null : USAGE,
    }));
    expect(await agentOf({ model, limits: LIMITS }).run('go')).toMatchObject({ ...UNKNOWN, turns: 3 });
  });

  test('a run with other limits is not affected', async () => {
    const settled = await agentOf({ limits: { turns: 3 }, onLimit: 'stop' }).run('go');
    expect(settled).toMatchObject({ incomplete: { reason: 'turns' }, turns: 3 });
  });

  test('a limit that is set later ends the run before its next call', async () => {
    const agent = agentOf({ tools: [makeTool('read', { sideEffect: 'none', approval: true })] });
    const run = await agent.start('go');
    await run.settled();
    await run.setParams({ limits: { tokens: 1_000 } });
    await run.approve('c0');
    expect(await run.settled()).toMatchObject({ ...UNKNOWN, turns: 1 });
  });

  test('neither an edit nor a fork makes the usage known', async () => {
    const agent = agentOf({
      limits: LIMITS,
      tools: [makeTool('read', { sideEffect: 'none', approval: true })],
    });
    const run = await agent.start('go');
    await run.settled();
    const fork = await run.fork({ at: 5 });
    await fork.editTranscript([{ type: 'message', role: 'user', content: [{ type: 'text', text: 'stop' }] }]);
    for (const one of [fork, run]) {
      if (one === run) await run.approve('c0');
      expect(await one.settled()).toMatchObject({ ...UNKNOWN, turns: 1 });
    }
  });

  test('the decision follows from the journal alone', async () => {
    const store = memory();
    const run = await agentOf({ store, limits: LIMITS }).start('go');
    await run.settled();
    const { state } = await loadRun(store, run.id);
    expect(state.context).toEqual(run.context);
    expect(state.context).toMatchObject({ usageUnknown: true, next: { reason: 'usage-unknown' } });
  });
});

describe("onUnknownUsage: 'estimate'", () => {
  const options = { onUnknownUsage: 'estimate' } as const;

  test.each([
    ['tokens', { limits: { tokens: 100, turns: 50 } }],
    ['cost', { limits: { cost: 0.0001, turns: 50 }, prices: PRICES }],
  ])('a limit on %s binds', async (reason, limited) => {
    const settled = await agentOf({ ...options, ...limited, onLimit: 'stop' }).run('go');
    expect(settled).toMatchObject({ incomplete: { reason }, usage: { estimated: true } });
    expect(settled.turns).toBeGreaterThan(1);
    expect(settled.turns).toBeLessThan(10);
  });

  test('counts what was sent and received, and marks each such turn in the journal', async () => {
    const text = 'four'.repeat(100);
    const model = answerWith(() => ({ text }));
    const run = await agentOf({ ...options, model, tools: [], instructions: 'x'.repeat(400) }).start(
      'y'.repeat(40),
    );
    expect(await run.settled()).toMatchObject({
      usage: { inputTokens: 100 + 10 + 4, outputTokens: 100 + 4, reasoningTokens: null, estimated: true },
    });
  });

  test('does not touch what the provider reports', async () => {
    const model = answerWith(() => ({ text: 'done', usage: USAGE }));
    expect((await agentOf({ ...options, model, limits: LIMITS }).run('go')).usage).toEqual(USAGE);
  });

  test('a sum with an estimate is an estimate', async () => {
    const model = answerWith((_, before) =>
      before === 0
        ? { toolCalls: [{ callId: 'c', name: 'read' }], usage: USAGE }
        : { text: 'done', usage: before === 1 ? null : USAGE },
    );
    const { usage } = await agentOf({ ...options, model, limits: LIMITS }).run('go');
    expect(usage).toMatchObject({ estimated: true });
    expect(usage?.inputTokens).toBeGreaterThan(USAGE.inputTokens);
  });
});

describe('an adapter that never reports usage', () => {
  const model = silent(reader());

  test.each([
    ['limits.tokens', { limits: LIMITS }, {}],
    ['limits.cost', { limits: { cost: 1 }, prices: PRICES }, {}],
    ['limits.tokens', {}, { limits: LIMITS }],
  ])('is refused at start with %s', async (limit, options, start) => {
    const refused = agentOf({ model, ...options }).start('go', start);
    await expect(refused).rejects.toMatchObject({
      code: 'agent-invalid',
      message: expect.stringMatching(
        new RegExp(`^${limit} .*"reader".* test:test-1 .*onUnknownUsage: 'estimate'.* adapter`),
      ),
    });
  });

  test('is refused as a fallback too', async () => {
    const models = [reader(USAGE), silent(reader(null, { model: 'small' }))];
    await expect(agentOf({ model: models, limits: LIMITS }).start('go')).rejects.toThrow('test:small');
  });

  test('is refused as the model of a fork, and taken without such a limit or with estimates', async () => {
    const named = { provider: 'test', model: 'small', usage: false };
    const forkOf = async (options: Partial<AgentOptions>) => {
      const run = await agentOf({ model: reader(USAGE), ...options }).start('go', { paused: true });
      return await run.fork({ at: 1, model: named });
    };
    await expect(forkOf({ limits: LIMITS })).rejects.toMatchObject({
      code: 'refused',
      message: expect.stringMatching(/^limits\.tokens .* test:small/),
    });
    await forkOf({ limits: { turns: 2 } });
    await forkOf({ limits: LIMITS, onUnknownUsage: 'estimate' });
  });

  test('starts without such a limit, and with estimates', async () => {
    expect(await agentOf({ model, limits: { turns: 2 } }).run('go')).toMatchObject({ status: 'finished' });
    const estimating = agentOf({
      model,
      limits: { tokens: 100 },
      onUnknownUsage: 'estimate',
      onLimit: 'stop',
    });
    expect(await estimating.run('go')).toMatchObject({ incomplete: { reason: 'tokens' } });
  });

  test('is refused as the model of a sub-agent that would share the limit', async () => {
    const family = (child: Partial<AgentOptions>, parent: Partial<AgentOptions> = {}) =>
      makeFamily({
        parent: { model: asker(USAGE), limits: LIMITS, ...parent },
        child: { model: silent(answerWith(() => ({ text: 'found' }))), ...child },
      });
    await expect(family({}).start('go')).rejects.toThrow(/limits\.tokens .*"researcher"/);
    const estimating = await family({}, { onUnknownUsage: 'estimate' }).start('go');
    await estimating.cancel();
    await expect(
      family({ onUnknownUsage: 'stop' }, { onUnknownUsage: 'estimate' }).start('go'),
    ).rejects.toThrow('"researcher"');
  });
});

test('a limit is refused if an agent below a sub-agent never reports usage', async () => {
  const below = createAgent({ name: 'below', model: silent(answerWith(() => ({ text: 'found' }))) });
  const tools = [below.asTool({ name: 'look', description: 'Looks.' })];
  const family = makeFamily({
    parent: { model: asker(USAGE), limits: LIMITS },
    child: { model: asker(USAGE), tools },
  });
  await expect(family.start('go')).rejects.toThrow(/limits\.tokens .*"below"/);
});

describe('a sub-agent without numbers, under a limit of its parent', () => {
  const found = answerWith(() => ({ text: 'found' }));

  test('ends both runs, and its answer reaches the parent', async () => {
    const host = new ManualHost();
    const store = memory();
    const family = makeFamily(
      { parent: { model: asker(USAGE), limits: LIMITS }, child: { model: found } },
      { store, host },
    );
    const { run, settled } = await settleWith(family, host);
    expect(settled).toMatchObject({ ...UNKNOWN, turns: 2, results: [{ output: 'found' }] });
    const child = (await loadRun(store, await childOf(store, run.id))).state.context;
    expect(child.next).toMatchObject({ reason: 'usage-unknown' });
  });

  test('is estimated if the parent estimates', async () => {
    const host = new ManualHost();
    const parent = { model: asker(USAGE), limits: LIMITS, onUnknownUsage: 'estimate' } as const;
    const { settled } = await settleWith(
      makeFamily({ parent, child: { model: found } }, { store: memory(), host }),
      host,
    );
    expect(settled).toMatchObject({ status: 'finished', text: 'told', usage: { estimated: true } });
    expect(settled).not.toHaveProperty('incomplete');
  });

  test('is not started by a parent whose own turn had none', async () => {
    const host = new ManualHost();
    const store = memory();
    const parent = { model: asker(null), limits: LIMITS };
    const { settled } = await settleWith(
      makeFamily({ parent, child: { model: found } }, { store, host }),
      host,
    );
    expect(settled).toMatchObject({
      ...UNKNOWN,
      results: [{ isError: true, output: expect.stringContaining('onUnknownUsage') }],
    });
    expect((await store.list()).runs).toHaveLength(1);
  });
});

describe('a summary without numbers', () => {
  const BIG = { ...USAGE, inputTokens: 3_000 };
  const compacted = (limited: Partial<AgentOptions>, summarize: 'model' | (() => string) = 'model') => {
    let turn = 0;
    const model = answerWith(({ toolChoice, tools }) => {
      if (toolChoice === 'none' && tools.length > 0) return { text: 'They read.' };
      turn += 1;
      if (turn > 3) return { text: 'done', usage: USAGE };
      return { toolCalls: [{ callId: `c${turn}`, name: 'read' }], usage: turn === 3 ? BIG : USAGE };
    });
    return agentOf({ model, compaction: { at: 2_000, summarize }, ...limited }).run('go');
  };
  const limits = { tokens: 100_000 };

  test('of the model ends a run with a limit on tokens', async () => {
    expect(await compacted({ limits })).toMatchObject({ ...UNKNOWN, turns: 3 });
  });

  test('is estimated if the agent estimates', async () => {
    const settled = await compacted({ limits, onUnknownUsage: 'estimate' });
    expect(settled).toMatchObject({ text: 'done', turns: 4, usage: { estimated: true } });
  });

  test('of a function of the agent counts as nothing', async () => {
    const settled = await compacted({ limits }, () => 'They read.');
    expect(settled).toMatchObject({ text: 'done', turns: 4 });
    expect(settled).not.toHaveProperty('incomplete');
  });
});
