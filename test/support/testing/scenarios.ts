import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import type { Run } from '../../../engine/run/run.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { createAgent } from '../../../tools/agent/agent.ts';
import type { AgentOptions } from '../../../tools/agent/agent-options.ts';
import type { StartOptions } from '../../../tools/agent/begin-journal.ts';
import { ManualHost } from '../../../tools/testing/manual-host.ts';
import { calls, clientTool, makeGate, makeTool } from '../engine/agents.ts';
import { answerWith } from '../engine/models.ts';

/** A run that has been somewhere, and the store that has it. */
export type Scene = { store: Store; runId: string };

type Options = Omit<AgentOptions, 'name' | 'store' | 'model'> & Pick<Partial<AgentOptions>, 'model'>;
type Play = (run: Run, host: ManualHost) => Promise<unknown>;

const refund = makeTool('refund', { approval: () => ({ required: true, reason: 'money leaves the house' }) });
const look = makeTool('look', { sideEffect: 'none' });
const REFUND = calls(['refund', { cents: 4200 }]);
const DONE: ScriptedTurn = { text: 'Done.' };

/** One run of an agent on a script, as far as `play` takes it. */
async function stage(
  turns: ScriptedTurn[],
  options: Options,
  play: Play = async (run, host) => await host.settle(run.settled()),
  start: StartOptions = {},
): Promise<Scene> {
  const [host, store] = [new ManualHost(), memory()];
  const agent = createAgent({ name: 'staged', host, store, model: scripted(turns), ...options });
  const run = await agent.start('go', start);
  await play(run, host);
  await host.idle();
  return { store, runId: run.id };
}

/** Rests, says something, and goes on until it rests again. */
const say =
  (...words: ((run: Run) => Promise<unknown>)[]): Play =>
  async (run, host) => {
    await host.settle(run.settled());
    for (const word of words) {
      await word(run);
      await host.settle(run.settled());
    }
  };

const doubting = makeTool('pay', {
  run: () => {
    throw new InDoubt('no answer came');
  },
});

export const SCENES: Readonly<Record<string, () => Promise<Scene>>> = {
  'parallel tools that end in another order': async () => {
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
  'tools that throw, give nothing, give too much, and one that is not there': async () =>
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
  'a key that is no ordinary one': async () =>
    await stage([calls('odd'), DONE], {
      tools: [makeTool('odd', { run: () => JSON.parse('{"__proto__": {"a": 1}, "\\u2028": "*/ `"}') })],
    }),
  'an approval': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [refund] },
      say(run => run.approve('call_0_0', { by: 'ann' })),
    ),
  'an approval with another input': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [makeTool('refund', { approval: true, run: input => ({ did: input }) })] },
      say(run => run.approve('call_0_0', { input: { cents: 1 } })),
    ),
  'a rejection': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [refund] },
      say(run => run.reject('call_0_0', { reason: 'too much' })),
    ),
  'an answer instead of an approval': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [refund] },
      say(run => run.answer('call_0_0', { output: { by: 'hand' } })),
    ),
  'a mixed round with one decision while a sibling runs': async () => {
    const gate = makeGate<string>();
    const slow = makeTool('slow', { sideEffect: 'none', run: () => gate.promise });
    return await stage([calls('slow', 'refund'), DONE], { tools: [slow, refund] }, async (run, host) => {
      await host.idle();
      await run.approve('call_0_1');
      gate.open('at last');
      await host.settle(run.settled());
    });
  },
  'a rule for later calls': async () =>
    await stage(
      [REFUND, REFUND, DONE],
      { tools: [refund] },
      say(run => run.approve('call_0_0', { sticky: true })),
    ),
  'an approval that expires': async () =>
    await stage(
      [REFUND, DONE],
      {
        tools: [makeTool('refund', { approval: () => ({ required: true, expiresInMs: 90_000 }) })],
      },
      async (run, host) => {
        await host.settle(run.settled());
        await host.advance(100_000);
        await host.settle(run.settled());
      },
    ),
  'a call that waits for a decision': async () => await stage([REFUND, DONE], { tools: [refund] }),
  'calls that the client runs': async () =>
    await stage(
      [calls('show', 'show'), DONE],
      { tools: [clientTool('show')] },
      say(
        run => run.answer('call_0_1', { output: 'the window is closed', isError: true }),
        run => run.answer('call_0_0', { output: { shown: true } }),
      ),
    ),
  'a message while the model speaks': async () => {
    const gate = makeGate<{ text: string }>();
    const model = answerWith((_, before) => (before === 0 ? gate.promise : { text: `${before}` }));
    return await stage([], { model }, async (run, host) => {
      await host.idle();
      await run.send('And in euros?', { by: 'ann' });
      gate.open({ text: 'In cents.' });
      await host.settle(run.settled());
    });
  },
  'a message while a call waits for a decision': async () =>
    await stage(
      [REFUND, DONE, DONE],
      { tools: [refund] },
      say(run => run.send('Leave it.')),
    ),
  'a message that waits for the decision': async () =>
    await stage(
      [REFUND, DONE, DONE],
      { tools: [refund], onMessage: 'queue' },
      say(
        run => run.send('And then?'),
        run => run.approve('call_0_0'),
      ),
    ),
  'a final answer of its own': async () =>
    await stage([calls('look'), { text: 'A draft.' }, DONE], { tools: [look], finalAnswer: 'separate' }),
  'a final answer that was held': async () =>
    await stage([calls('look'), DONE], { tools: [look], finalAnswer: 'held' }),
  'a model that fails, is tried again, and is replaced': async () => {
    const failing = scripted([{ error: { code: 'overloaded', status: 529, retryAfterMs: 2000 } }]);
    const model = [failing, scripted([calls('look'), DONE])];
    return await stage([], { model, tools: [look], retry: { attempts: 2 } });
  },
  'a model that fails for good': async () =>
    await stage([{ error: { code: 'invalid-request', status: 400, message: 'no' } }], {}),
  'a model that throws what is no failure of a provider': async () =>
    await stage([], {
      model: answerWith(() => {
        throw new TypeError('not a function');
      }),
    }),
  'a doubt, and it happened': async () =>
    await stage(
      [calls('pay'), DONE],
      { tools: [doubting] },
      say(run => run.resolve('call_0_0', { happened: true, output: { paid: 1 }, by: 'ann' })),
    ),
  'a doubt, tried again, and failed': async () =>
    await stage(
      [calls('pay'), DONE],
      { tools: [doubting] },
      say(
        run => run.resolve('call_0_0', { retry: true }),
        run => run.resolve('call_0_0', { failed: 'the bank says no' }),
      ),
    ),
  'a limit and a last answer': async () =>
    await stage([calls('look'), calls('look'), DONE], { tools: [look], limits: { turns: 2 } }),
  'a limit and no more': async () =>
    await stage([calls('look', 'look', 'look'), DONE], {
      ...{ tools: [look], limits: { toolCalls: 2, turns: 1 }, onLimit: 'stop' },
    }),
  'a limit on its active time': async () => {
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
  'an answer with a schema, sent back once': async () =>
    await stage([{ text: '{"cents": "many"}' }, { text: '```json\n{"cents": 42}\n```' }], {
      output: z.object({ cents: z.number() }),
    }),
  'an answer that never follows its schema': async () =>
    await stage([{ text: 'no' }, { text: '{}' }, { text: '[]' }], {
      output: z.object({ cents: z.number() }),
    }),
  'an answer that a finisher changed and one sent back': async () =>
    await stage([{ text: 'rude' }, { text: 'polite' }], {
      finishers: [({ text }) => (text === 'rude' ? { reject: 'Be polite.' } : { text: `${text}!` })],
    }),
  'a pause, a step, and on': async () =>
    await stage(
      [calls('look'), calls('look'), DONE],
      { tools: [look] },
      say(
        run => run.step(),
        run => run.step(),
        run => run.unpause(),
      ),
      { paused: true },
    ),
  'a transcript that was edited, and a call tried again': async () => {
    let failed = 0;
    const flaky = makeTool('flaky', {
      run: () => {
        failed += 1;
        if (failed === 1) throw new Error('not now');
        return 'fine';
      },
    });
    return await stage(
      [calls('flaky'), DONE, DONE],
      { tools: [flaky] },
      say(
        run => run.step(),
        run => run.step(),
        run => run.retry('call_0_0'),
        run => run.step(),
        run => run.editTranscript(run.context.transcript.slice(0, 3)),
        run => run.setParams({ instructions: 'Be short.' }),
        run => run.unpause(),
      ),
      { paused: true },
    );
  },
  'a run that was cancelled with a call under way': async () =>
    await stage(
      [calls('hang'), DONE],
      {
        tools: [makeTool('hang', { run: (_, { signal }) => untilAborted(signal) })],
      },
      async (run, host) => {
        await host.idle();
        await host.settle(run.cancel({ reason: 'enough', by: 'ann' }));
      },
    ),
  'a run that is under way': async () =>
    await stage(
      [calls('look', 'hang'), DONE],
      {
        tools: [look, makeTool('hang', { run: () => new Promise<never>(() => {}) })],
      },
      async (_, host) => await host.idle(),
    ),
  'bytes that only their provider understands': async () => {
    const opaque = { provider: 'test', data: { signature: 'c2lnbmF0dXJl' } };
    const model = answerWith((_, before) =>
      before === 0
        ? {
            ...{ reasoning: 'Hm.', toolCalls: [{ callId: 'toolu_1', name: 'look' }], continuation: 'resp_1' },
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

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}
