import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { HistoryCall } from '../../../protocol/rule.ts';
import { atMost, first, needs, never, spendOf } from '../../../rules/condition.ts';
import { rule } from '../../../rules/rule.ts';
import { memory } from '../../../stores/memory.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { BILLING, makeDesk } from '../../support/engine/front-desk.ts';
import { answerWith } from '../../support/engine/models.ts';

const read = (): ScriptedTurn => ({ toolCalls: [{ name: 'browse', arguments: {} }] });
const send = (to = 'ada'): ScriptedTurn => ({ toolCalls: [{ name: 'mail', arguments: { to } }] });
const refunds = (...cents: number[]): ScriptedTurn => ({
  toolCalls: cents.map(one => ({ name: 'refund', arguments: { cents: one } })),
});
const both: ScriptedTurn = { toolCalls: [...(read().toolCalls ?? []), ...(send().toolCalls ?? [])] };
const DONE: ScriptedTurn = { text: 'Done.' };

type Options = Partial<AgentOptions> & { turns: ScriptedTurn[]; approval?: boolean };

function makeAgent({ turns, approval = false, ...options }: Options) {
  const done: string[] = [];
  const store = options.store ?? memory();
  const agent = createAgent({
    name: 'desk',
    store,
    model: scripted(turns),
    tools: [
      tool({
        name: 'browse',
        description: 'Reads a page.',
        input: z.object({}),
        sideEffect: 'none',
        tags: ['untrusted'],
        run: () => void done.push('browse'),
      }),
      tool({
        name: 'mail',
        description: 'Writes a mail.',
        input: z.object({ to: z.string() }),
        tags: ['leaves'],
        approval,
        run: ({ to }) => void done.push(`mail ${to}`),
      }),
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ cents: z.number() }),
        approval,
        run: ({ cents }) => void done.push(`refund ${cents}`),
      }),
    ],
    ...options,
  });
  return { agent, store, done };
}

const NO_LEAKS = never('leaves').after('untrusted');

describe('a rule over a run', () => {
  test('blocks a call because of an earlier one, and the model reads why', async () => {
    const { agent, done } = makeAgent({ turns: [send(), read(), send(), DONE], rules: [NO_LEAKS] });
    const settled = await agent.run('go');
    expect(done).toEqual(['mail ada', 'browse']);
    expect(settled.status === 'finished' && settled.results.at(-1)).toMatchObject({
      name: 'mail',
      isError: true,
      output: 'Not run: the rule "never leaves after untrusted" does not allow it.',
    });
  });

  test('counts calls of the same turn as having happened', async () => {
    const { agent, done } = makeAgent({ turns: [both, DONE], rules: [NO_LEAKS] });
    await agent.run('go');
    expect(done).toEqual(['browse']);
    const two = makeAgent({ turns: [refunds(1, 2), DONE], rules: [atMost(1).of('refund')] });
    await two.agent.run('go');
    expect(two.done).toEqual(['refund 1']);
  });

  test('does not count a call that was refused', async () => {
    const rules = [NO_LEAKS, never('browse')];
    const { agent, done } = makeAgent({ turns: [both, DONE], rules });
    await agent.run('go');
    expect(done).toEqual(['mail ada']);
  });

  test('asks people in a group, and no decision is sticky', async () => {
    const { agent, done } = makeAgent({
      turns: [read(), send('bob'), DONE],
      rules: [
        rule({ name: 'no leaks', when: NO_LEAKS.asks('security'), reason: 'text from outside was read' }),
      ],
    });
    const run = await agent.start('go');
    const waiting = await run.settled();
    if (waiting.status !== 'waiting') throw new Error(waiting.status);
    const [open] = waiting.open;
    expect(open).toMatchObject({ reason: 'text from outside was read', by: ['security'] });
    const callId = String(open && 'callId' in open && open.callId);
    expect(await run.approve(callId, { by: 'eve' })).toMatchObject({ accepted: false });
    const ada = { as: { name: 'ada', groups: ['security'] } };
    expect(await run.approve(callId, { ...ada, sticky: true })).toMatchObject({ accepted: false });
    expect(await run.approve(callId, ada)).toMatchObject({ accepted: true });
    expect((await run.settled()).status).toBe('finished');
    expect(done).toEqual(['browse', 'mail bob']);
  });

  test('that asks anyone does not follow a sticky decision about other calls', async () => {
    const { agent, done } = makeAgent({
      turns: [send('a'), read(), send('b'), DONE],
      approval: true,
      rules: [NO_LEAKS.asks()],
    });
    const run = await agent.start('go');
    await run.settled();
    await run.approve('call_0_0', { sticky: true });
    expect(await run.settled()).toMatchObject({ status: 'waiting' });
    expect(await run.approve('call_2_0', { sticky: true })).toMatchObject({ accepted: false });
    expect(done).toEqual(['mail a', 'browse']);
  });

  test('stops the run, and no other call of the turn begins', async () => {
    const { agent, done } = makeAgent({
      turns: [read(), both, DONE],
      rules: [rule({ when: NO_LEAKS, then: 'stop' })],
    });
    const settled = await agent.run('go');
    expect(settled).toMatchObject({ status: 'finished', incomplete: { reason: 'rule' } });
    expect(done).toEqual(['browse']);
  });

  test('in the shadow records what it would have done', async () => {
    const { agent, store, done } = makeAgent({
      turns: [both, DONE],
      rules: [rule({ name: 'tried', when: NO_LEAKS, mode: 'shadow' })],
    });
    const run = await agent.start('go');
    expect((await run.settled()).status).toBe('finished');
    expect(done).toEqual(['browse', 'mail ada']);
    const journal = await store.read(run.id);
    expect(JSON.stringify(journal)).toContain('{"rule":"tried","verdict":"block","shadow":true}');
  });

  test('is asked again about an input that a person writes', async () => {
    const { agent, done } = makeAgent({
      turns: [refunds(60, 30), DONE],
      approval: true,
      rules: [spendOf('refund', ({ cents }) => cents).over(100)],
    });
    const run = await agent.start('go');
    await run.settled();
    const tooMuch = { input: { cents: 50 } };
    expect(await run.editCall('call_0_1', tooMuch)).toMatchObject({ accepted: false });
    expect(await run.approve('call_0_1', tooMuch)).toMatchObject({
      accepted: false,
      message: expect.stringContaining('the rule "spend of refund over 100" does not allow it'),
    });
    expect(await run.approve('call_0_1', { input: { cents: 40 } })).toMatchObject({ accepted: true });
    await run.approve('call_0_0');
    await run.settled();
    expect(done.toSorted()).toEqual(['refund 40', 'refund 60']);
  });

  test('asks for more once an input is edited', async () => {
    const { agent, done } = makeAgent({
      turns: [refunds(60), DONE],
      approval: true,
      rules: [
        spendOf('refund', ({ cents }) => cents)
          .over(100)
          .asks('manager'),
      ],
    });
    const run = await agent.start('go');
    await run.settled();
    expect(await run.approve('call_0_0', { input: { cents: 200 }, by: 'ada' })).toMatchObject({
      accepted: true,
    });
    expect(await run.settled()).toMatchObject({ status: 'waiting', open: [{ by: ['manager'] }] });
    await run.approve('call_0_0', { as: { name: 'mia', groups: ['manager'] } });
    await run.settled();
    expect(done).toEqual(['refund 200']);
  });

  test('is asked right before a call starts, in the process that starts it', async () => {
    const before = makeAgent({ turns: [send(), DONE], approval: true });
    const started = await before.agent.start('go');
    await started.settled();
    for (const [then, expected] of [
      ['block', { status: 'finished' }],
      ['ask', { status: 'waiting' }],
      ['stop', { status: 'finished', incomplete: { reason: 'rule' } }],
    ] as const) {
      const fork = await started.fork({ at: 99 }).catch(async () => {
        const { length } = await before.store.read(started.id);
        return await started.fork({ at: length });
      });
      const after = makeAgent({
        turns: [send(), DONE],
        approval: true,
        store: before.store,
        rules: [rule({ when: never('mail'), then })],
      });
      const run = await after.agent.open(fork.id);
      await run.approve('call_0_0', { by: 'ada' });
      expect(await run.settled()).toMatchObject(expected);
      expect(after.done).toEqual([]);
      const types = (await before.store.read(fork.id)).map(({ event }) => event.type);
      expect(types).toContain('call.judged');
      if (then !== 'ask') continue;
      await run.approve('call_0_0', { by: 'ada' });
      expect(await run.settled()).toMatchObject({ status: 'finished' });
      expect(after.done).toEqual(['mail ada']);
    }
  });

  test('sees what earlier runs of the thread did, unless it is for each run', async () => {
    const store = memory();
    const { agent } = makeAgent({ turns: [read(), DONE], store });
    const earlier = await agent.start('read');
    await earlier.settled();
    const later = makeAgent({ turns: [read(), DONE, send(), DONE], store, rules: [NO_LEAKS] });
    const settled = await later.agent.run('send', { continues: earlier.id });
    expect(settled).toMatchObject({ results: [{ name: 'mail', isError: true }] });
    expect(later.done).toEqual([]);
    const alone = makeAgent({
      turns: [read(), DONE, send(), DONE],
      store,
      rules: [rule({ when: NO_LEAKS, per: 'run' })],
    });
    await alone.agent.run('send', { continues: earlier.id });
    expect(alone.done).toEqual(['mail ada']);
  });

  test('sees what a compaction replaced', async () => {
    const model = answerWith((_, before) => {
      const usage = {
        inputTokens: 10,
        outputTokens: 1,
        cachedInputTokens: null,
        cacheWriteTokens: null,
        reasoningTokens: null,
      };
      const made = [{ name: 'browse' }, { name: 'mail', input: { to: 'ada' } }][before];
      if (made === undefined) return { text: 'Done.', usage };
      return { toolCalls: [{ callId: `call_${before}`, ...made }], usage };
    });
    const { agent, done } = makeAgent({
      turns: [],
      model,
      rules: [NO_LEAKS],
      compaction: { at: 1, keep: 0, summarize: () => 'They talked.' },
    });
    const run = await agent.start('go');
    await run.settled();
    expect(run.context.compaction.count).toBeGreaterThan(0);
    expect(done).toEqual(['browse']);
  });

  test('judges a hand-off, and no message that is handed on after it', async () => {
    const { agent, clerk } = makeDesk({
      front: [calls(BILLING), { text: 'Front again.' }],
      billing: [{ text: 'You owe 5.' }, { text: 'Since May.' }],
      ofFront: { rules: [atMost(1).of(BILLING)] },
    });
    const run = await agent.start('What do I owe?');
    expect(await run.settled()).toMatchObject({ agent: 'billing', text: 'You owe 5.' });
    const next = await agent.start('Since when?', { continues: run.id });
    expect(await next.settled()).toMatchObject({ agent: 'billing', text: 'Since May.' });
    expect(clerk).toHaveLength(2);
  });

  test('counts what the agent did that handed the conversation over', async () => {
    const tags = ['untrusted'];
    const looked: number[] = [];
    const { agent } = makeDesk({
      front: [calls('browse'), calls(BILLING), { text: 'Front again.' }],
      billing: [calls('look_up'), { text: 'Not allowed.' }],
      ofFront: { tools: [makeTool('browse', { tags })] },
      ofBilling: {
        tools: [makeTool('look_up', { run: () => looked.push(1) })],
        rules: [never('look_up').after('untrusted')],
      },
    });
    expect(await agent.run('What do I owe?')).toMatchObject({ agent: 'billing', text: 'Not allowed.' });
    expect(looked).toEqual([]);
  });

  test('is not needed for a replay', async () => {
    const { agent, store } = makeAgent({ turns: [both, DONE], rules: [NO_LEAKS, needs('a').for('refund')] });
    const run = await agent.start('go');
    await run.settled();
    expect(await replayRun(store, run.id)).toMatchObject({ runId: run.id });
  });
});

describe('a rule as a function', () => {
  test('gets the call and all that came before it', async () => {
    const seen: HistoryCall['outcome'][][] = [];
    const { agent, done } = makeAgent({
      turns: [read(), both, DONE],
      rules: [
        rule({
          name: 'no leaks',
          when: ({ call, history }) => {
            if (call.name !== 'mail') return false;
            seen.push(history.map(one => one.outcome));
            return history.some(({ tags }) => tags.includes('untrusted')) ? 'block' : 'allow';
          },
        }),
      ],
    });
    await agent.run('go');
    expect(seen).toEqual([['done', 'open']]);
    expect(done).toEqual(['browse', 'browse']);
  });

  test('that fails, or gives no verdict, asks for an approval', async () => {
    for (const when of [() => fail(), () => Object('maybe')]) {
      const { agent } = makeAgent({ turns: [send(), DONE], rules: [rule({ name: 'broken', when })] });
      const settled = await agent.run('go');
      expect(settled).toMatchObject({
        status: 'waiting',
        open: [{ reason: expect.stringContaining('the rule "broken" failed') }],
      });
    }
  });

  test('requires that a call has succeeded', async () => {
    const rules = [first('browse').then('mail')];
    const { agent, done } = makeAgent({ turns: [both, read(), send(), DONE], rules });
    await agent.run('go');
    expect(done).toEqual(['browse', 'browse', 'mail ada']);
  });
});

test('an approval function gets the history of its call', async () => {
  const seen: unknown[] = [];
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted([refunds(1), refunds(2, 3), DONE]),
    tools: [
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ cents: z.number() }),
        approval: ({ history }) => {
          seen.push(history.map(({ input, outcome }) => [input, outcome]));
          return false;
        },
        run: () => 'paid',
      }),
    ],
  });
  await agent.run('go');
  expect(seen).toEqual([
    [],
    [
      [{ cents: 1 }, 'done'],
      [{ cents: 3 }, 'later'],
    ],
    [
      [{ cents: 1 }, 'done'],
      [{ cents: 2 }, 'open'],
    ],
  ]);
});

test('rules are checked when the agent is made', () => {
  const make = (rules: unknown) => () => createAgent({ name: 'desk', rules: rules as [] });
  expect(make('none')).toThrow('rules: expected a list of rules');
  expect(make(['never pay'])).toThrow('expected the options of rule to be an object, got a string');
  expect(make([{}])).toThrow('expected a name');
  expect(make([NO_LEAKS, NO_LEAKS])).toThrow('is there twice');
  expect(() => rule({ name: 'x', when: NO_LEAKS, then: Object('no') })).toThrow("expected 'block', 'ask'");
  expect(() => rule({ name: 'x', when: Object('no') })).toThrow('expected `when`');
});

function fail(): never {
  throw new Error('no connection');
}
