import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Guardrails, InputGuardrail, ToolOutputGuardrail } from '../../../protocol/guardrail.ts';
import { textOf, userMessage } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, countEvents, makeTool } from '../../support/engine/agents.ts';
import { recordRequests } from '../../support/engine/models.ts';

const withoutCard: InputGuardrail = message => {
  const text = textOf(message);
  return text.includes('4111')
    ? { type: 'replace', value: userMessage(text.replace(/4\d{3}/, 'CARD')) }
    : { type: 'pass' };
};

function makeAgent(guardrails: Guardrails, options: Partial<AgentOptions> = {}) {
  const { model, requests } = recordRequests(
    options.model === undefined ? scripted([calls('read'), { text: 'Done.' }]) : scripted([]),
  );
  const store = memory();
  const host = new ManualHost();
  const tools = [makeTool('read', { sideEffect: 'none', run: () => ({ secret: 'xyzzy' }) })];
  const agent = createAgent({ name: 'a', host, store, model, tools, guardrails, ...options });
  return { agent, requests, store, host };
}

const resultIn = (request: { transcript: readonly { type: string }[] } | undefined) =>
  request?.transcript.findLast(item => item.type === 'tool_result');

describe('guardrails of messages', () => {
  test('that replace a message change it in each request and in the transcript', async () => {
    const { agent, requests } = makeAgent({ input: withoutCard });
    const run = await agent.start('Pay with 4111.');
    await run.settled();
    expect(requests.map(({ transcript }) => transcript.map(textOf)[0])).toEqual([
      'Pay with CARD.',
      'Pay with CARD.',
    ]);
    expect(run.context.transcript.map(textOf)[0]).toBe('Pay with CARD.');
  });

  test('that block a message give the model the reason in its place', async () => {
    const { agent, requests } = makeAgent({ input: () => ({ type: 'block', reason: 'It is rude.' }) });
    await agent.run('You fool.');
    expect(requests[0]?.transcript.map(textOf)).toEqual(['[Not shown: It is rude.]']);
  });

  test('judge each message once, and those that come later too', async () => {
    const seen: string[] = [];
    const { agent, host, store } = makeAgent({
      input: message => {
        seen.push(textOf(message));
        return { type: 'pass' };
      },
    });
    const run = await agent.start('one');
    await run.send('two');
    await host.settle(run.settled());
    expect(seen).toEqual(['one', 'two']);
    expect(await countEvents(store, run.id, 'items.judged')).toBe(2);
  });

  test('do not judge what a failed attempt has sent again', async () => {
    let judged = 0;
    const { agent, host } = makeAgent(
      {
        input: () => {
          judged += 1;
          return { type: 'pass' };
        },
      },
      { model: scripted([{ error: { code: 'overloaded', times: 2 } }, { text: 'Done.' }]) },
    );
    expect(await host.settle((await agent.start('go')).settled())).toMatchObject({ status: 'finished' });
    expect(judged).toBe(1);
  });

  test('leave out images, and add none', async () => {
    const image = { type: 'image', url: 'https://a.test/1.png' } as const;
    const { agent, requests } = makeAgent({
      input: message => ({ type: 'replace', value: { ...message, content: message.content.slice(0, 1) } }),
    });
    await agent.run([{ ...userMessage('Look.'), content: [{ type: 'text', text: 'Look.' }, image] }]);
    expect(requests[0]?.transcript[0]).toMatchObject({ content: [{ type: 'text', text: 'Look.' }] });
    const adding = makeAgent({
      input: message => ({ type: 'replace', value: { ...message, content: [...message.content, image] } }),
    });
    await adding.agent.run('Look.');
    expect(adding.requests[0]?.transcript.map(textOf)[0]).toMatch(/^\[Not shown: The message could not be/);
  });
});

describe('guardrails of results', () => {
  test('get the output and the call', async () => {
    const seen: unknown[] = [];
    const { agent } = makeAgent({
      toolOutput: (output, { callId, name, input, isError }) => {
        seen.push(output, callId, name, input, isError);
        return { type: 'pass' };
      },
    });
    await agent.run('go');
    expect(seen).toEqual([{ secret: 'xyzzy' }, 'call_0_0', 'read', {}, false]);
  });

  test('that replace an output change what the model reads and what is reported; the journal has both', async () => {
    const { agent, requests, store } = makeAgent({
      toolOutput: () => ({ type: 'replace', value: { secret: 'hidden' } }),
    });
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({
      results: [{ output: { secret: 'hidden' }, isError: false }],
    });
    expect(JSON.stringify(requests)).not.toContain('xyzzy');
    const events = (await store.read(run.id, 0)).map(({ event }) => event);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'tool.settled', output: { secret: 'xyzzy' } }),
    );
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'items.judged',
        upTo: 3,
        changes: [{ at: 2, item: expect.objectContaining({ output: { secret: 'hidden' } }) }],
      }),
    );
  });

  test('that block an output give the model the reason as an error', async () => {
    const { agent, requests } = makeAgent({ toolOutput: () => ({ type: 'block', reason: 'It is secret.' }) });
    await agent.run('go');
    expect(resultIn(requests[1])).toMatchObject({ output: 'Not shown: It is secret.', isError: true });
    expect(JSON.stringify(requests)).not.toContain('xyzzy');
  });

  test.each<[string, unknown]>([
    ['ask', { type: 'ask', reason: 'May it?' }],
    ['give nothing', undefined],
    ['give more than 1 MiB', { type: 'replace', value: 'x'.repeat(1_048_577) }],
  ])('that %s block the output', async (_, verdict) => {
    const { agent, requests } = makeAgent({ toolOutput: (() => verdict) as ToolOutputGuardrail });
    await agent.run('go');
    expect(resultIn(requests[1])).toMatchObject({
      output: expect.stringMatching(/^Not shown: The result could not be checked: its guardrail/),
    });
  });

  test('a long replacement is cut for the model', async () => {
    const { agent, requests } = makeAgent({
      toolOutput: () => ({ type: 'replace', value: 'x'.repeat(200_000) }),
    });
    await agent.run('go');
    const { shown = '' } = resultIn(requests[1]) as { shown?: string };
    expect(shown.length).toBeLessThanOrEqual(100_000);
    expect(shown).toContain('bytes were left out');
  });

  test('are not asked again by a process that continues the run, and the state is the same', async () => {
    let judged = 0;
    const guardrails: Guardrails = {
      toolOutput: () => {
        judged += 1;
        return { type: 'replace', value: 'hidden' };
      },
    };
    const { agent, store } = makeAgent(guardrails);
    const run = await agent.start('go');
    await run.settled();
    const again = createAgent({ name: 'a', store, host: new ManualHost() });
    expect((await again.open(run.id)).context).toEqual(run.context);
    expect(judged).toBe(1);
  });

  test('count the models that they ask', async () => {
    const usage = { inputTokens: 9, outputTokens: 1, cachedInputTokens: null };
    const { agent } = makeAgent({
      toolOutput: (_, { countUsage }) => {
        countUsage({ model: 'judge', usage: { ...usage, cacheWriteTokens: null, reasoningTokens: null } });
        return { type: 'pass' };
      },
    });
    expect(await agent.run('go')).toMatchObject({ turns: 2, usage: { inputTokens: 9 } });
  });

  test('judge before a compaction asks a model for its summary', async () => {
    const { agent, requests } = makeAgent(
      { toolOutput: () => ({ type: 'replace', value: 'hidden' }), input: withoutCard },
      { compaction: { at: 1, keep: 0, summarize: 'model' } },
    );
    await agent.run('Pay with 4111.');
    expect(requests.length).toBeGreaterThan(1);
    expect(JSON.stringify(requests)).not.toMatch(/xyzzy|4111/);
  });
});
