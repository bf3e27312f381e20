import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { anthropic } from '../../../adapters/anthropic.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { redactRun } from '../../../engine/journal/redaction/redact-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { fitTokens, keepLast } from '../../../text/trim-transcript.ts';
import { tool } from '../../../tools/tool.ts';
import {
  type BindingProvider,
  bindingMessages,
  bindingResponses,
} from '../../support/adapters/binding-providers.ts';

/** Runs against providers that bind reasoning to what was sent before it. */

type Provider = {
  open(script: Parameters<typeof bindingMessages>[0]): BindingProvider;
  model(provider: BindingProvider, name?: string): ModelAdapter;
};

const openai = (store: boolean): Provider => ({
  open: bindingResponses,
  model: ({ fetch }, model = 'gpt-6') =>
    openaiResponses({ model, apiKey: 'k', fetch, ...(store ? {} : { providerOptions: { store: false } }) }),
});

const PROVIDERS: Record<string, Provider> = {
  Anthropic: {
    open: bindingMessages,
    model: ({ fetch }, model = 'claude-opus-5-5') => anthropic({ model, apiKey: 'k', fetch }),
  },
  OpenAI: openai(false),
  'OpenAI with stored responses': openai(true),
};

const makeTools = () => [
  ...['look', 'other'].map(name =>
    tool({
      name,
      description: `Does ${name}.`,
      input: z.object({ n: z.number() }),
      sideEffect: 'none',
      run: ({ n }) => `x${n}`,
    }),
  ),
  tool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ n: z.number() }),
    approval: true,
    run: () => 'paid',
  }),
];

const LOOKS = Array.from({ length: 6 }, () => 'look');

type Scene = { turns?: readonly string[]; overloaded?: string[]; stream: boolean };

function setUp(provider: Provider, { turns = LOOKS, overloaded = [], stream }: Scene) {
  const standIn = provider.open({ turns, overloaded });
  const host = new ManualHost();
  const store: Store = memory();
  const agentOf = (options: Partial<AgentOptions> = {}, own = host) =>
    createAgent({
      name: 'a',
      host: own,
      store,
      stream,
      model: provider.model(standIn),
      tools: makeTools(),
      instructions: 'Be brief.',
      ...options,
    });
  const breaks = async (run: Pick<Run, 'id'>) =>
    (await store.read(run.id, 0)).flatMap(({ event }) =>
      event.type === 'turn.completed' && event.broken ? [event.broken.by] : [],
    );
  return { standIn, host, store, agentOf, breaks };
}

const thoughtsOf = ({ posts }: BindingProvider) => posts.map(({ thoughts }) => thoughts);

describe.each(Object.entries(PROVIDERS))('%s', (name, provider) => {
  describe.each([
    ['streamed', true],
    ['whole', false],
  ])('%s', (_, stream) => {
    const play = async (options: Partial<AgentOptions>, scene: Omit<Scene, 'stream'> = {}) => {
      const set = setUp(provider, { ...scene, stream });
      const run = await set.agentOf(options).start('Look seven times.');
      const settled = await set.host.settle(run.settled());
      return { ...set, run, settled, broken: await set.breaks(run) };
    };

    test('keeps every thought while a request grows', async () => {
      const { standIn, broken } = await play({});
      expect([standIn.refused, broken]).toEqual([[], []]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    });

    test.each([
      ['keepLast', keepLast(8)],
      ['fitTokens', fitTokens(10, { tokensOf: () => 1 })],
    ])('%s costs the thoughts of each cut, and no others', async (_name, trim) => {
      const { standIn, broken } = await play({
        prepareTurn: ({ transcript }) => ({ transcript: trim(transcript) }),
      });
      expect([standIn.refused, broken]).toEqual([[], ['trim', 'trim']]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 0, 1, 0]);
    });

    test('keeps thoughts when tools are taken away and given back', async () => {
      const { standIn, broken } = await play({
        prepareTurn: ({ turns }) => ({ tools: turns >= 2 && turns < 4 ? ['look'] : ['look', 'other'] }),
      });
      expect([standIn.refused, broken]).toEqual([[], []]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    });

    test('keeps thoughts when tools are added', async () => {
      const { standIn, broken } = await play({
        prepareTurn: ({ turns }) => ({ tools: turns < 2 ? ['look'] : ['look', 'other'] }),
      });
      expect([standIn.refused, broken]).toEqual([[], []]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    });

    test('keeps thoughts when the instructions of each turn differ', async () => {
      let turn = 0;
      const { standIn, broken } = await play({ instructions: () => `It is ${turn++} o'clock.` });
      expect([standIn.refused, broken]).toEqual([[], []]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    });

    test('keeps thoughts in the closing call of a limit', async () => {
      const { standIn, broken } = await play({ limits: { turns: 4 } });
      expect([standIn.refused, broken]).toEqual([[], []]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 4]);
      expect(standIn.posts.at(-1)).toMatchObject({ tools: 3, choice: 'none' });
    });

    test.each([
      ['separate', {}],
      ['separate with a schema', { output: z.object({ text: z.string() }) }],
      ['held', {}],
    ])('keeps thoughts of a %s answer', async (mode, options) => {
      const finalAnswer = mode === 'held' ? 'held' : 'separate';
      const { standIn, broken } = await play({ finalAnswer, ...options });
      expect([standIn.refused, broken]).toEqual([[], []]);
      expect(thoughtsOf(standIn).slice(0, 7)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    });

    test('a schema that only words can give costs the thoughts before the answer', async () => {
      type Tree = { leaves: Tree[] };
      const tree: z.ZodType<Tree> = z.object({ leaves: z.array(z.lazy(() => tree)) });
      const { standIn, broken } = await play({ finalAnswer: 'separate', output: tree });
      expect(standIn.refused).toEqual([]);
      expect([...new Set(broken)]).toEqual(name === 'Anthropic' ? ['schema'] : []);
    });

    test.each(['model', 'provider'] as const)(
      'compactions by the %s cost the thoughts before them, and no others',
      async summarize => {
        const send = tool({
          name: 'send',
          description: 'Sends.',
          input: z.object({ n: z.number() }),
          run: () => 'sent',
        });
        const { standIn, run, store, settled, broken } = await play(
          { tools: [...makeTools(), send], compaction: { at: 140, summarize } },
          { turns: Array.from({ length: 12 }, () => 'send') },
        );
        expect(settled).toMatchObject({ status: 'finished' });
        const events = (await store.read(run.id, 0)).map(({ event }) => event);
        const made = events.flatMap(event => (event.type === 'transcript.compacted' ? [event] : []));
        expect(events.filter(({ type }) => type === 'compaction.failed')).toEqual([]);
        expect(made.length).toBeGreaterThan(1);
        expect([standIn.refused, broken]).toEqual([[], made.map(() => 'compaction')]);
        expect(made.at(-1)?.ledger.deeds.length).toBeGreaterThan(8);
        const told = JSON.stringify(run.context.transcript).match(/<conversation-ledger>/g);
        expect(told).toHaveLength(1);
      },
    );

    test('an edit costs the thoughts before it', async () => {
      const set = setUp(provider, { turns: ['look', 'pay', 'look'], stream });
      const run = await set.agentOf().start('Pay.');
      await set.host.settle(run.settled());
      const edited = run.context.transcript.map(item =>
        item.type === 'tool_result' ? { ...item, output: 'other' } : item,
      );
      await run.editTranscript(edited);
      await run.approve(run.context.calls[0]?.callId ?? '');
      await set.host.settle(run.settled());
      expect([set.standIn.refused, await set.breaks(run)]).toEqual([[], ['edit']]);
      expect(thoughtsOf(set.standIn)).toEqual([0, 1, 0, 1]);
    });

    test('a redaction of what was sent costs the thoughts after it, in the run and in one that continues it', async () => {
      const set = setUp(provider, { turns: ['look', 'pay', 'look'], stream });
      const redact = async (runId: string, path: string) =>
        await redactRun(set.store, runId, { paths: [path], host: set.host });
      const run = await set.agentOf().start('Pay.');
      await set.host.settle(run.settled());
      await run.yield();
      await redact(run.id, '/1/input/0/content/0/text');
      const again = await set.agentOf({}, new ManualHost()).open(run.id);
      await again.approve(again.context.calls[0]?.callId ?? '');
      await set.host.settle(again.settled());
      const settled = (await set.store.read(run.id, 0)).filter(({ event }) => event.type === 'tool.settled');
      await redact(run.id, `/${settled.at(-1)?.seq}/output`);
      const next = await set.agentOf().start('And?', { continues: run.id });
      await set.host.settle(next.settled());
      expect(set.standIn.refused).toEqual([]);
      expect([await set.breaks(run), await set.breaks(next)]).toEqual([['edit'], ['edit']]);
      const last = await set.agentOf().start('More?', { continues: next.id });
      await set.host.settle(last.settled());
      expect([set.standIn.refused, await set.breaks(last)]).toEqual([[], []]);
    });

    test('another model gets no thought of the first', async () => {
      const first = name === 'Anthropic' ? 'claude-opus-5' : 'gpt-6-mini';
      const set = setUp(provider, { overloaded: [first], stream });
      const models = [provider.model(set.standIn, first), provider.model(set.standIn)];
      const run = await set.agentOf({ model: models, retry: { attempts: 1 } }).start('Look.');
      await set.host.settle(run.settled());
      expect([set.standIn.refused, await set.breaks(run)]).toEqual([[], []]);
      expect(thoughtsOf(set.standIn)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    });

    test('a run that continues another with other instructions, which are nowhere kept, loses its thoughts', async () => {
      const { standIn, run, agentOf, host, breaks } = await play({});
      const next = await agentOf({ instructions: 'Be loud.' }).start('Again.', { continues: run.id });
      await host.settle(next.settled());
      expect([standIn.refused, await breaks(next)]).toEqual([[], ['instructions']]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 4, 5, 6, 0]);
    });

    test('a run that continues another keeps its thoughts', async () => {
      const { standIn, run, agentOf, host, breaks } = await play({});
      const next = await agentOf().start('Again.', { continues: run.id });
      await host.settle(next.settled());
      expect([standIn.refused, await breaks(next)]).toEqual([[], []]);
      expect(thoughtsOf(standIn)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    });

    test('another process continues with every thought', async () => {
      const set = setUp(provider, { turns: ['look', 'pay', 'look', 'look'], stream });
      const run = await set.agentOf().start('Pay.');
      await set.host.settle(run.settled());
      await run.yield();
      const host = new ManualHost();
      const again = await set.agentOf({}, host).open(run.id);
      await again.approve(again.context.calls[0]?.callId ?? '');
      await host.settle(again.settled());
      expect([set.standIn.refused, await set.breaks(again)]).toEqual([[], []]);
      expect(thoughtsOf(set.standIn)).toEqual([0, 1, 2, 3, 4]);
    });
  });
});
