import { describe, expect, test } from 'vitest';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls } from '../../support/engine/agents.ts';
import {
  assertWaiting,
  childOf,
  type Family,
  makeFamily,
  PAYING,
  settleWith,
} from '../../support/engine/family.ts';
import { answerWith } from '../../support/engine/models.ts';

const USAGE = {
  inputTokens: 10,
  outputTokens: 5,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

describe('the spending of a sub-agent', () => {
  const spending = (more: Family = {}): Family => ({
    ...more,
    child: { model: answerWith(() => ({ text: 'found', usage: USAGE })), ...more.child },
    parent: { model: answerWith(askOnce), ...more.parent },
  });
  const askOnce = ({ transcript }: { transcript: readonly { type: string }[] }) =>
    transcript.some(({ type }) => type === 'tool_result')
      ? { text: 'told', usage: USAGE }
      : { toolCalls: [{ callId: 'c', name: 'research', input: { input: 'go' } }], usage: USAGE };

  test('counts as spending of its parent', async () => {
    const host = new ManualHost();
    const { settled } = await settleWith(makeFamily(spending(), { store: memory(), host }), host);
    expect(settled).toMatchObject({
      status: 'finished',
      turns: 3,
      usage: { inputTokens: 30, outputTokens: 15 },
    });
  });

  test('also counts when the sub-agent ended after a rest', async () => {
    const host = new ManualHost();
    const { run, settled } = await settleWith(makeFamily(PAYING, { store: memory(), host }), host);
    assertWaiting(settled);
    await run.approve(settled.approvals[0]?.callId ?? '');
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', turns: 4 });
    expect(run.context.toolCalls).toBe(2);
  });

  test('is bounded by what its parent has left, divided among parallel sub-agents', async () => {
    const host = new ManualHost();
    const store = memory();
    const family = makeFamily(
      {
        parent: { limits: { turns: 8, toolCalls: 12, tokens: 1_000 } },
        script: [
          { ...calls(['research', { input: 'a' }], ['research', { input: 'b' }]), usage: USAGE },
          { text: 'told' },
        ],
      },
      { store, host },
    );
    const { run } = await settleWith(family, host);
    const children = (await store.list()).runs.filter(({ runId }) => runId !== run.id);
    expect(children).toHaveLength(2);
    for (const { runId } of children) {
      const { limits } = (await loadRun(store, runId)).state.context.config;
      expect(limits.turns).toBeLessThanOrEqual(7);
      expect(limits.turns).toBeGreaterThanOrEqual(2);
      expect(limits.toolCalls).toBeLessThanOrEqual(10);
      expect(limits.tokens).toBe((1_000 - 15) / 2);
    }
  });

  test('is also bounded by its own limits', async () => {
    const host = new ManualHost();
    const store = memory();
    const { run } = await settleWith(makeFamily({ child: { limits: { turns: 2 } } }, { store, host }), host);
    const { limits } = (await loadRun(store, await childOf(store, run.id))).state.context.config;
    expect(limits.turns).toBe(2);
  });

  test('is refused with the limit, its value and its run when too few turns are left for all', async () => {
    const host = new ManualHost();
    const store = memory();
    const asked = Array.from({ length: 21 }, (): [string, { input: string }] => [
      'research',
      { input: 'go' },
    ]);
    const script = [calls(...asked), { text: 'told' }];
    const { run, settled } = await settleWith(makeFamily({ script }, { store, host }), host);
    expect((await store.list()).runs).toHaveLength(1);
    expect(settled).toMatchObject({ status: 'finished' });
    const results = settled.status === 'finished' ? settled.results : [];
    expect(results).toHaveLength(21);
    expect(results[0]).toMatchObject({
      isError: true,
      output: `Not run: the limit turns of run ${run.id} (agent "${run.context.agent.name}") is 20, the default, and 1 of it are spent; 21 sub-agents share the rest and need 1 each. Sub-agents spend from the limits of the run that calls them: raise limits.turns of "${run.context.agent.name}", or call fewer of them at once.`,
    });
  });

  test('is refused when nothing is left: the call has an error result and no run is created', async () => {
    const host = new ManualHost();
    const store = memory();
    const family = makeFamily({ parent: { limits: { turns: 1 } } }, { store, host });
    const { settled } = await settleWith(family, host);
    expect((await store.list()).runs).toHaveLength(1);
    expect(settled).toMatchObject({
      status: 'finished',
      results: [{ isError: true, output: expect.stringContaining('is 1, set, and 1 of it are spent') }],
      incomplete: { reason: 'turns' },
    });
  });

  test('requires a price when its parent has a cost limit', async () => {
    const prices = { 'scripted-1': { input: 1, output: 1 }, 'test-1': { input: 1, output: 1 } };
    const family = (childPrices: AgentOptions['prices']) =>
      makeFamily(
        {
          parent: { model: answerWith(() => ({ text: 'x' })), prices, limits: { cost: 1 } },
          child: {
            model: answerWith(() => ({ text: 'x' }), { model: 'dear-1' }),
            ...(childPrices && { prices: childPrices }),
          },
        },
        { store: memory(), host: new ManualHost() },
      );
    await expect(family(undefined).start('go')).rejects.toThrow('dear-1');
    await expect(family({ 'dear-1': { input: 1, output: 1 } }).start('go')).resolves.toBeDefined();
  });
});
