import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { HistoryCall } from '../../../protocol/rule.ts';
import { never } from '../../../rules/condition.ts';
import { rule } from '../../../rules/rule.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeGate, makeTool } from '../engine/agents.ts';
import { answerWith } from '../engine/models.ts';
import { DONE, look, REFUND, refund, type Scene, say, stage } from './stage.ts';

function isDone(history: readonly HistoryCall[], tool: string): boolean {
  return history.some(({ name, outcome }) => name === tool && outcome === 'done');
}

/** Runs without commands: tools, models, answers, limits and sub-agents. */
export const PLAYED: Readonly<Record<string, () => Promise<Scene>>> = {
  'parallel tools that end in reverse order': async () => {
    const gates = ['a', 'b', 'c'].map(name => ({ name, gate: makeGate<string>() }));
    const tools = gates.map(({ name, gate }) =>
      makeTool(name, { sideEffect: 'none', run: () => gate.promise }),
    );
    return await stage(
      [{ text: 'Let me see.', ...calls('a', 'b', 'c') }, DONE],
      { tools },
      async (run, host) => {
        await host.idle();
        for (const { name, gate } of gates.toReversed()) {
          gate.open(`${name} says "hi"`);
          await host.idle();
        }
        await host.settle(run.settled());
      },
    );
  },
  'tools that throw, return nothing, return too much, and an unknown tool': async () =>
    await stage([calls('fail', 'nothing', 'long', 'missing', ['look', 'not json']), DONE], {
      tools: [
        makeTool('fail', {
          run: () => {
            throw new Error('the till is closed');
          },
        }),
        makeTool('nothing', { run: () => undefined }),
        makeTool('long', { run: () => 'long '.repeat(25_000) }),
        look,
      ],
    }),
  'keys that need escaping': async () =>
    await stage([calls('odd'), DONE], {
      tools: [makeTool('odd', { run: () => JSON.parse('{"__proto__": {"a": 1}, "\\u2028": "*/ `"}') })],
    }),
  'a separate final answer': async () =>
    await stage([calls('look'), { text: 'A draft.' }, DONE], { tools: [look], finalAnswer: 'separate' }),
  'a held final answer': async () =>
    await stage([calls('look'), DONE], { tools: [look], finalAnswer: 'held' }),
  'a model that fails, is retried, and is replaced': async () => {
    const failing = scripted([{ error: { code: 'overloaded', status: 529, retryAfterMs: 2000 } }]);
    const model = [failing, scripted([calls('look'), DONE])];
    return await stage([], { model, tools: [look], retry: { attempts: 2 } });
  },
  'a model that fails permanently': async () =>
    await stage([{ error: { code: 'invalid-request', status: 400, message: 'no' } }], {}),
  'a model that throws an error of another kind': async () =>
    await stage([], {
      model: answerWith(() => {
        throw new TypeError('not a function');
      }),
    }),
  'a limit with a closing answer': async () =>
    await stage([calls('look'), calls('look'), DONE], { tools: [look], limits: { turns: 2 } }),
  'a limit without a closing answer': async () =>
    await stage([calls('look', 'look', 'look'), DONE], {
      tools: [look],
      limits: { toolCalls: 2, turns: 1 },
      onLimit: 'stop',
    }),
  'a limit on active time': async () => {
    const tools = [makeTool('slow', { sideEffect: 'none', run: async () => await delay(1) })];
    const host = new ManualHost();
    const store = memory();
    const model = answerWith((_, before) => {
      host.jump(3000);
      return before < 3 ? { toolCalls: [{ callId: `c${before}`, name: 'slow' }] } : { text: 'late' };
    });
    const run = await createAgent({
      name: 'staged',
      host,
      store,
      model,
      tools,
      limits: { activeMs: 5000 },
    }).start('go');
    await host.settle(run.settled());
    return { store, runId: run.id };
  },
  'a chain of runs': async () => {
    const [host, store] = [new ManualHost(), memory()];
    const model = answerWith(({ transcript }) => ({ text: `${transcript.length}` }));
    const agent = createAgent({ name: 'staged', host, store, model });
    let last: string | undefined;
    for (const text of ['one', 'two', 'three']) {
      const run = await agent.start(text, last === undefined ? {} : { continues: last });
      await host.settle(run.settled());
      last = run.id;
    }
    return { store, runId: last ?? '' };
  },
  'an answer with a schema, rejected once': async () =>
    await stage([{ text: '{"cents": "many"}' }, { text: '```json\n{"cents": 42}\n```' }], {
      output: z.object({ cents: z.number() }),
    }),
  'an answer that never follows its schema': async () =>
    await stage([{ text: 'no' }, { text: '{}' }, { text: '[]' }], {
      output: z.object({ cents: z.number() }),
    }),
  'an answer that a guardrail changes after blocking one': async () =>
    await stage([{ text: 'rude' }, { text: 'polite' }], {
      guardrails: {
        answer: text =>
          text === 'rude' ? { type: 'block', reason: 'Be polite.' } : { type: 'replace', value: `${text}!` },
      },
    }),
  'calls that guardrails block, replace and count': async () =>
    await stage([calls(['look', { at: 'a secret' }], ['look', { at: 'the door' }]), DONE], {
      tools: [look],
      guardrails: {
        toolInput(input, { countUsage }) {
          const used = { inputTokens: 5, outputTokens: 1, cachedInputTokens: null, cacheWriteTokens: null };
          countUsage({ model: 'judge', usage: { ...used, reasoningTokens: null } });
          return JSON.stringify(input).includes('secret')
            ? { type: 'block', reason: 'That is a secret.' }
            : { type: 'replace', value: { at: 'the window' } };
        },
      },
    }),
  'calls that rules block and ask about, with their turn and right before they start': async () =>
    await stage(
      [calls('look', 'pay', 'put', 'put'), calls('wire', 'pay'), DONE],
      {
        tools: [look, makeTool('pay'), makeTool('put'), makeTool('wire')],
        toolConcurrency: 1,
        rules: [
          rule({ name: 'no wires', when: never('wire').after('pay'), reason: 'something was paid' }),
          rule({
            name: 'seen before',
            when: ({ call, history }) => call.name === 'pay' && isDone(history, 'look'),
            then: 'ask',
          }),
          rule({
            name: 'put once',
            when: ({ call, history }) => call.name === 'put' && isDone(history, 'put'),
          }),
          rule({ name: 'tried', when: never('look'), mode: 'shadow' }),
        ],
      },
      say(
        run => run.approve('call_0_1', {}),
        run => run.approve('call_1_1', {}),
      ),
    ),
  'a run that a rule stops': async () =>
    await stage([calls('look'), calls('look', 'pay'), DONE], {
      tools: [look, makeTool('pay')],
      rules: [rule({ when: never('pay').after('look'), then: 'stop', reason: 'enough was seen' })],
    }),
  'a run that a rule stops right before a call starts': async () =>
    await stage([calls('look', 'pay', 'look'), DONE], {
      tools: [look, makeTool('pay')],
      toolConcurrency: 1,
      rules: [
        rule({
          name: 'seen',
          when: ({ call, history }) => call.name === 'pay' && isDone(history, 'look'),
          then: 'stop',
        }),
      ],
    }),
  'a run in progress': async () =>
    await stage(
      [calls('look', 'hang'), DONE],
      {
        tools: [look, makeTool('hang', { run: () => new Promise<never>(() => {}) })],
      },
      async (_, host) => await host.idle(),
    ),
  'opaque data of a provider': async () => {
    const opaque = { provider: 'test', data: { signature: 'c2lnbmF0dXJl' } };
    const model = answerWith((_, before) =>
      before === 0
        ? {
            reasoning: 'Hm.',
            toolCalls: [{ callId: 'toolu_1', name: 'look' }],
            continuation: 'resp_1',
            usage: {
              inputTokens: 10,
              outputTokens: 5,
              cachedInputTokens: 3,
              cacheWriteTokens: null,
              reasoningTokens: 2,
            },
            items: [
              { type: 'reasoning', text: 'Hm.', opaque },
              { type: 'provider_item', kind: 'web_search_call', opaque },
              { type: 'tool_call', callId: 'toolu_1', name: 'look', arguments: '{}', opaque },
            ],
          }
        : { text: 'Seen.' },
    );
    return await stage([], { model, tools: [look] });
  },
  'a sub-agent that waits for a decision': async () => {
    const clerk = createAgent({
      name: 'clerk',
      model: scripted([REFUND, { text: 'Paid.' }]),
      tools: [refund],
    });
    const tools = [clerk.asTool({ name: 'clerk', description: 'Pays.' }), look];
    return await stage(
      [calls(['clerk', { input: 'Pay.' }], 'look'), DONE],
      { tools },
      say(run => run.approve('call_0_0', {})),
    );
  },
};
