import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { ToolInputGuardrail } from '../../../protocol/guardrail.ts';
import type { Approval } from '../../../protocol/tool.ts';
import type { Usage } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { recordRequests } from '../../support/engine/models.ts';

type Pay = { cents: number };

const USAGE: Usage = {
  inputTokens: 7,
  outputTokens: 3,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
};

function makeAgent(
  toolInput: ToolInputGuardrail | ToolInputGuardrail[],
  { approval, ...options }: Partial<AgentOptions> & { approval?: (call: { input: Pay }) => Approval } = {},
) {
  const paid: Pay[] = [];
  const { model, requests } = recordRequests(
    scripted([{ toolCalls: [{ name: 'pay', arguments: { cents: 500 } }], usage: USAGE }, { text: 'Done.' }]),
  );
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number().max(1_000) }),
    ...(approval === undefined ? {} : { approval }),
    run: input => {
      paid.push(input);
      return 'paid';
    },
  });
  const store = memory();
  const host = new ManualHost();
  const agent = createAgent({
    name: 'a',
    host,
    store,
    model,
    tools: [pay],
    guardrails: { toolInput },
    ...options,
  });
  return { agent, paid, requests, store };
}

const resultIn = (request: { transcript: readonly { type: string }[] } | undefined) =>
  request?.transcript.findLast(item => item.type === 'tool_result');

describe('guardrails of the input of calls', () => {
  test('get the input, the call, and the conversation before its turn', async () => {
    const seen: unknown[] = [];
    const { agent, paid } = makeAgent((input, { callId, name, transcript }) => {
      seen.push(input, callId, name, transcript.length);
      return { type: 'pass' };
    });
    await agent.run('go');
    expect(seen).toEqual([{ cents: 500 }, 'call_0_0', 'pay', 1]);
    expect(paid).toEqual([{ cents: 500 }]);
  });

  test('that block a call keep it from running, and the model reads why', async () => {
    const { agent, paid, requests } = makeAgent(() => ({ type: 'block', reason: 'No payments today.' }));
    expect((await agent.run('go')).status).toBe('finished');
    expect(paid).toEqual([]);
    expect(resultIn(requests[1])).toMatchObject({ output: 'Not run: No payments today.', isError: true });
  });

  test('that replace the input change what runs and what is reported, and the model is told', async () => {
    const { agent, paid, requests } = makeAgent([
      () => ({ type: 'replace', value: { cents: 100 } }),
      input => ({ type: 'replace', value: { cents: (input as Pay).cents + 1 } }),
    ]);
    const settled = await agent.run('go');
    expect(paid).toEqual([{ cents: 101 }]);
    expect(settled).toMatchObject({ results: [{ input: { cents: 101 }, output: 'paid' }] });
    expect(resultIn(requests[1])).toMatchObject({
      shown: '[A guardrail changed the input to {"cents":101}.]\npaid',
    });
    expect(requests[1]?.transcript).toContainEqual(expect.objectContaining({ arguments: '{"cents":500}' }));
  });

  test.each<[string, unknown]>([
    ['a replacement that the schema refuses', { type: 'replace', value: { cents: 5_000 } }],
    ['a replacement of more than 1 MiB', { type: 'replace', value: { cents: 1, x: 'x'.repeat(1_048_577) } }],
    ['a replacement that is no JSON', { type: 'replace', value: undefined }],
    ['nothing', undefined],
    ['a block without a reason', { type: 'block' }],
    ['an ask without a reason', { type: 'ask' }],
    ['an ask of no group', { type: 'ask', reason: 'Why?', by: [] }],
  ])('that return %s block the call', async (_, verdict) => {
    const { agent, paid, requests } = makeAgent((() => verdict) as ToolInputGuardrail);
    expect((await agent.run('go')).status).toBe('finished');
    expect(paid).toEqual([]);
    expect(resultIn(requests[1])).toMatchObject({
      isError: true,
      output: expect.stringMatching(/^Not run: /),
    });
  });

  test('that throw block the call', async () => {
    const { agent, paid, requests } = makeAgent(() => {
      throw new Error('the guard is down');
    });
    await agent.run('go');
    expect(paid).toEqual([]);
    expect(resultIn(requests[1])).toMatchObject({
      output: 'Not run: The call could not be checked: the guard is down',
    });
  });

  test('that ask make a call wait that needs no approval, for those they name', async () => {
    const { agent, paid } = makeAgent(() => ({ type: 'ask', reason: 'It is a payment.', by: 'finance' }));
    const run = await agent.start('go');
    const settled = await run.settled();
    expect(settled).toMatchObject({
      status: 'waiting',
      approvals: [{ name: 'pay', reason: 'It is a payment.', by: ['finance'] }],
    });
    expect(await run.approve('call_0_0', { as: { name: 'ben', groups: ['sales'] } })).toMatchObject({
      accepted: false,
      code: 'not-allowed',
    });
    expect(await run.approve('call_0_0', { as: { name: 'ann', groups: ['finance'] } })).toEqual({
      accepted: true,
    });
    expect((await run.settled()).status).toBe('finished');
    expect(paid).toEqual([{ cents: 500 }]);
  });

  test('ask together with the approval of the tool: the call waits for people whom both allow', async () => {
    const { agent } = makeAgent(
      [
        () => ({ type: 'ask', reason: 'large', by: ['finance', 'board'], not: 'starter' }),
        () => ({ type: 'ask', reason: 'abroad', quorum: 2 }),
      ],
      { approval: () => ({ required: true, reason: 'a payment', by: ['finance', 'desk'], not: 'sender' }) },
    );
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({
      approvals: [{ reason: 'a payment; large; abroad', by: ['finance'], not: 'sender', quorum: 2 }],
    });
  });

  test('that name other groups than the tool block the call, because nobody is in both', async () => {
    const { agent, paid, requests } = makeAgent(() => ({ type: 'ask', reason: 'large', by: 'board' }), {
      approval: () => ({ required: true, by: 'desk' }),
    });
    await agent.run('go');
    expect(paid).toEqual([]);
    expect(resultIn(requests[1])).toMatchObject({
      output: 'Not run: no one may approve it: desk, and board must',
    });
  });

  test('the approval function of the tool judges the replaced input', async () => {
    const { agent } = makeAgent(() => ({ type: 'replace', value: { cents: 900 } }), {
      approval: ({ input }) => input.cents > 600,
    });
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({ approvals: [{ input: { cents: 900 } }] });
  });

  test('count the models that they ask', async () => {
    const { agent } = makeAgent((_, { countUsage }) => {
      countUsage({ model: 'judge', usage: { ...USAGE, inputTokens: 100 } });
      return { type: 'pass' };
    });
    expect(await agent.run('go')).toMatchObject({ turns: 2, usage: { inputTokens: 107 } });
  });

  test('do not run again when the journal is read, and replay gives the same state', async () => {
    let judged = 0;
    const { agent, store } = makeAgent(
      () => {
        judged += 1;
        return { type: 'replace', value: { cents: 100 } };
      },
      { approval: () => true },
    );
    const run = await agent.start('go');
    await run.settled();
    const again = createAgent({ name: 'a', store, host: new ManualHost() });
    const opened = await again.open(run.id);
    expect(opened.context).toEqual(run.context);
    expect(judged).toBe(1);
    const entries = await store.read(run.id, 0);
    expect(entries.map(({ event }) => event)).toContainEqual(
      expect.objectContaining({
        type: 'turn.completed',
        calls: [expect.objectContaining({ input: { cents: 100 }, replaced: true })],
      }),
    );
  });
});
