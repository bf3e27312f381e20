import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { AnswerContext, AnswerGuardrail, Verdict } from '../../../protocol/guardrail.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Usage } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, countEvents, makeGate, makeTool } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

const LITTLE: Usage = {
  inputTokens: 1,
  outputTokens: 0,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
};

function makeAgent(
  answer: AnswerGuardrail | AnswerGuardrail[],
  host = new ManualHost(),
  options: Partial<AgentOptions> = {},
) {
  const { model, requests } = recordRequests(
    answerWith((_, before) => ({ text: `answer ${before}`, usage: LITTLE })),
  );
  const store = memory();
  return {
    agent: createAgent({ name: 'a', host, store, model, guardrails: { answer }, ...options }),
    requests,
    store,
    host,
  };
}

describe('guardrails of the answer', () => {
  test('run in order over the answer, and their text becomes the answer', async () => {
    const { agent } = makeAgent([
      text => ({ type: 'replace', value: `${text}!` }),
      () => ({ type: 'pass' }),
      async text => ({ type: 'replace', value: `${text}?` }),
    ]);
    expect(await agent.run('go')).toMatchObject({ status: 'finished', text: 'answer 0!?' });
  });

  test('receive the results of all rounds and the whole transcript', async () => {
    const seen: [string, AnswerContext][] = [];
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('read'), calls('read'), { text: 'done' }]),
      tools: [makeTool('read', { sideEffect: 'none' })],
      guardrails: {
        answer: (text, context) => {
          seen.push([text, context]);
          return { type: 'pass' };
        },
      },
    });
    const run = await agent.start('go');
    await run.settled();
    expect(seen).toHaveLength(1);
    const [text, context] = seen[0] ?? [];
    expect(text).toBe('done');
    expect(context).toMatchObject({
      runId: run.id,
      results: [
        { callId: 'call_0_0', name: 'read', output: 'read ran' },
        { callId: 'call_1_0', name: 'read', output: 'read ran' },
      ],
    });
    expect(context?.transcript).toHaveLength(6);
  });

  test('that block an answer send their reason to the model, which answers again', async () => {
    const { agent, requests } = makeAgent(text =>
      text === 'answer 0' ? { type: 'block', reason: 'Name your source.' } : { type: 'pass' },
    );
    expect(await agent.run('go')).toMatchObject({ status: 'finished', text: 'answer 1' });
    expect(requests[1]?.transcript.map(textOf)).toEqual(['go', 'answer 0', 'Name your source.']);
  });

  test('that block three answers fail the run', async () => {
    const { agent, requests, store } = makeAgent(() => ({ type: 'block', reason: 'Again.' }));
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({
      status: 'failed',
      error: { code: 'answer-blocked' },
    });
    expect(requests).toHaveLength(3);
    expect(await countEvents(store, run.id, 'answer.blocked')).toBe(3);
  });

  test('that throw block the answer, and later ones do not run', async () => {
    let behind = 0;
    const { agent, requests } = makeAgent([
      () => {
        throw new Error('the guard is down');
      },
      () => {
        behind += 1;
        return { type: 'pass' };
      },
    ]);
    expect((await agent.run('go')).status).toBe('failed');
    expect(behind).toBe(0);
    expect(requests[1]?.transcript.map(textOf).at(-1)).toContain('the guard is down');
  });

  test('run again after a message that arrives while they run', async () => {
    const gate = makeGate();
    let checked = 0;
    const { agent, host } = makeAgent([
      async () => {
        checked += 1;
        if (checked === 1) await gate.promise;
        return { type: 'pass' };
      },
    ]);
    const run = await agent.start('go');
    await host.idle();
    expect(await run.send('and this')).toEqual({ accepted: true });
    gate.open();
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'answer 1', unread: [] });
    expect(checked).toBe(2);
  });

  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['a boolean', true],
    ['an unknown verdict', { type: 'allow' }],
    ['a block without a reason', { type: 'block' }],
    ['a replacement that is no text', { type: 'replace', value: { text: 'no' } }],
    ['a replacement of more than 1 MiB', { type: 'replace', value: 'x'.repeat(1_048_577) }],
  ])('that return %s block the answer', async (_, verdict) => {
    const { agent, requests } = makeAgent(() => verdict as Verdict<string>);
    expect(await agent.run('go')).toMatchObject({ status: 'failed', error: { code: 'answer-blocked' } });
    const last = requests[1]?.transcript.map(textOf).at(-1) ?? '';
    expect(last).toMatch(/^The answer could not be checked: its guardrail/);
    expect(last.length).toBeLessThan(1_000);
  });

  test('whose reason is long give its head and tail to the model', async () => {
    const { agent, requests } = makeAgent(() => ({ type: 'block', reason: 'No. '.repeat(10_000) }));
    await agent.run('go');
    const last = requests[1]?.transcript.map(textOf).at(-1) ?? '';
    expect(last).toMatch(/^No\. [\s\S]*bytes were left out[\s\S]*No\. $/);
    expect(last.length).toBeLessThanOrEqual(10_000);
  });

  test('take back the text that readers have of a blocked answer, each time', async () => {
    const { agent } = makeAgent(() => ({ type: 'block', reason: 'Again.' }));
    const run = await agent.start('go');
    const discarded: number[] = [];
    const reading = (async () => {
      for await (const event of run.events()) if (event.type === 'text.discarded') discarded.push(event.turn);
    })();
    await run.settled();
    await reading;
    expect(discarded).toEqual([1, 2, 3]);
  });

  describe('that ask a model', () => {
    const usage: Usage = { ...LITTLE, inputTokens: 100, outputTokens: 10 };
    const asks =
      (...turns: { model: string; usage: Usage | null }[]): AnswerGuardrail =>
      (_, { countUsage }) => {
        for (const turn of turns) countUsage(turn);
        return { type: 'block', reason: 'Again.' };
      };

    test('count its tokens and cost for the run, and not as turns of it', async () => {
      const { agent, store } = makeAgent(
        asks({ model: 'judge', usage }, { model: 'judge', usage }),
        undefined,
        {
          limits: { cost: 1 },
          prices: { 'test-1': { input: 0, output: 0 }, judge: { input: 1000, output: 1000 } },
        },
      );
      const run = await agent.start('go');
      expect(await run.settled()).toMatchObject({ status: 'failed', turns: 3, usage: { inputTokens: 603 } });
      expect(run.context.cost).toBeCloseTo(0.66);
      expect(await countEvents(store, run.id, 'answer.blocked')).toBe(3);
    });

    test('end the run at a limit on tokens', async () => {
      const { agent, requests } = makeAgent(asks({ model: 'judge', usage }), undefined, {
        limits: { tokens: 50 },
        onLimit: 'stop',
      });
      expect((await agent.run('go')).status).toBe('failed');
      expect(requests).toHaveLength(1);
    });

    test.each([
      ['that reports no usage', { model: 'judge', usage: null }],
      ['without a price', { model: 'another', usage }],
    ])('%s leave a limit on cost unchecked', async (_, turn) => {
      const { agent } = makeAgent(asks(turn), undefined, {
        limits: { cost: 1 },
        prices: { 'test-1': { input: 0, output: 0 }, judge: { input: 1, output: 1 } },
      });
      const run = await agent.start('go');
      await run.settled();
      expect(run.context.usageUnknown).toBe(true);
      expect(run.context.turns).toBe(1);
    });
  });
});
