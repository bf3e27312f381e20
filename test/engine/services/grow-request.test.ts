import { describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Capabilities, ModelAdapter, SetupChange } from '../../../protocol/adapter.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { BreakCosts } from '../../../protocol/listing/cost.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

const tools = [makeTool('read', { sideEffect: 'none' }), makeTool('pay', { sideEffect: 'none' })];

type Speaking = {
  rounds?: number;
  provider?: string;
  binds?: boolean;
  append?: (change: SetupChange) => Item[] | undefined;
};

/** Calls `read` with sealed reasoning in its first `rounds` turns, then answers with sealed reasoning. */
function sealing({ rounds = 3, provider = 'p', binds = true, append }: Speaking = {}): ModelAdapter {
  const model = answerWith(
    (_, before) => {
      const seal: Item = {
        type: 'reasoning',
        id: `${provider}-thought-${before}`,
        text: '',
        opaque: { provider, data: 's' },
      };
      if (before >= rounds)
        return {
          text: 'done',
          items: [seal, { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'done' }] }],
        };
      const callId = `${provider}_${before}`;
      const call: Item = { type: 'tool_call', callId, name: 'read', arguments: '{}' };
      return { toolCalls: [{ callId, name: 'read' }], items: [seal, call] };
    },
    { provider, model: `${provider}-1` },
  );
  const capabilities: Capabilities = { ...model.capabilities, bindsReasoning: binds };
  return { ...model, capabilities, ...(append && { append }) };
}

type Completed = Extract<RunEvent, { type: 'turn.completed' }>;

async function turnsOf(options: Partial<AgentOptions>, given: ModelAdapter = sealing()) {
  const { model, requests } = recordRequests(given);
  const host = new ManualHost();
  const store = memory();
  const agent = createAgent({ name: 'a', host, store, model, tools, instructions: 'Be brief.', ...options });
  const run = await agent.start('go');
  await host.settle(run.settled());
  const turns = (await store.read(run.id, 0)).flatMap(({ event }) =>
    event.type === 'turn.completed' ? [event] : [],
  );
  return { requests, turns, run, agent, host, store };
}

const breaksOf = (turns: readonly Completed[]) => turns.map(({ broken }) => broken?.by ?? null);
const sealsIn = ({ transcript }: ModelRequest) =>
  transcript.flatMap(item => (item.type === 'reasoning' && item.opaque ? [item.id] : []));

const noted = (change: SetupChange): Item[] => [
  {
    type: 'provider_item',
    kind: 'setup',
    opaque: { provider: 'p', data: JSON.parse(JSON.stringify(change)) },
  },
];

describe('a request', () => {
  test('that only grows is no break', async () => {
    const { turns, requests } = await turnsOf({});
    expect(breaksOf(turns)).toEqual([null, null, null, null]);
    expect(sealsIn(requests[3] as ModelRequest)).toEqual(['p-thought-0', 'p-thought-1', 'p-thought-2']);
  });

  test('names what was trimmed, and leaves out older reasoning from then on', async () => {
    const prepareTurn: AgentOptions['prepareTurn'] = ({ transcript, turns }) =>
      turns >= 2 ? { transcript: transcript.slice(3) } : {};
    const { turns, requests } = await turnsOf({ prepareTurn }, sealing({ rounds: 4 }));
    expect(breaksOf(turns)).toEqual([null, null, 'trim', null, null]);
    expect(turns[2]?.broken?.lost).toEqual(['p-thought-1']);
    expect(requests.map(sealsIn).slice(2)).toEqual([[], ['p-thought-2'], ['p-thought-2', 'p-thought-3']]);
  });

  test('keeps reasoning that its provider does not bind', async () => {
    const prepareTurn: AgentOptions['prepareTurn'] = ({ transcript, turns }) =>
      turns >= 2 ? { transcript: transcript.slice(3) } : {};
    const { turns, requests } = await turnsOf({ prepareTurn }, sealing({ binds: false }));
    expect(turns[2]?.broken).toEqual({ by: 'trim', lost: [] });
    expect(sealsIn(requests[2] as ModelRequest)).toEqual(['p-thought-1']);
  });

  test.each(['instructions', 'tools'])(
    'with other %s is a break where the provider cannot append',
    async by => {
      let turn = 0;
      const changed: Partial<AgentOptions> =
        by === 'tools'
          ? { prepareTurn: ({ turns }) => ({ tools: turns < 2 ? ['read', 'pay'] : ['read'] }) }
          : { instructions: () => (turn++ < 2 ? 'one' : 'two') };
      const { turns, requests } = await turnsOf(changed);
      expect(breaksOf(turns)).toEqual([null, null, by, null]);
      expect(sealsIn(requests[3] as ModelRequest)).toEqual(['p-thought-2']);
    },
  );

  test('appends changed instructions and tools, and begins as before', async () => {
    let turn = 0;
    const { turns, requests } = await turnsOf(
      {
        instructions: () => (turn++ < 2 ? 'one' : 'two'),
        prepareTurn: ({ turns }) => ({ tools: turns < 2 ? ['read'] : ['pay', 'read'] }),
      },
      sealing({ append: noted }),
    );
    expect(breaksOf(turns)).toEqual([null, null, null, null]);
    const [first, , third, last] = requests as [ModelRequest, ModelRequest, ModelRequest, ModelRequest];
    expect(last.instructions).toBe('one');
    expect(requests).toHaveLength(4);
    expect(last.tools).toEqual(first.tools);
    expect(third.transcript.at(-1)).toMatchObject({
      kind: 'setup',
      opaque: { data: { instructions: 'two', added: [{ name: 'pay' }] } },
    });
    expect(last.transcript.slice(0, third.transcript.length)).toEqual(third.transcript);
    expect(sealsIn(last)).toEqual(['p-thought-0', 'p-thought-1', 'p-thought-2']);
  });

  test('begins with the present instructions and tools after a break, without what was appended', async () => {
    let turn = 0;
    const { turns, requests } = await turnsOf(
      {
        instructions: () => (turn++ < 1 ? 'one' : 'two'),
        prepareTurn: ({ transcript, turns }) => (turns >= 2 ? { transcript: transcript.slice(1) } : {}),
      },
      sealing({ append: noted }),
    );
    expect(breaksOf(turns)).toEqual([null, null, 'trim', null]);
    expect(requests.map(({ instructions }) => instructions)).toEqual(['one', 'one', 'two', 'two']);
    expect(requests.map(({ transcript }) => transcript.some(({ type }) => type === 'provider_item'))).toEqual(
      [false, true, false, false],
    );
  });

  test('leaves tools out where the API has no tool choice, and names it', async () => {
    const model = sealing();
    const choiceless = { ...model, capabilities: { ...model.capabilities, toolChoice: false } };
    const { turns, requests } = await turnsOf({ limits: { turns: 2 } }, choiceless);
    expect(breaksOf(turns)).toEqual([null, null, 'tools']);
    expect(requests.map(({ tools: given }) => given.length)).toEqual([2, 2, 0]);
  });

  test.each([
    [true, undefined],
    [false, 'token'],
  ])(
    'after a break continues from a token only if reasoning is not bound (bound: %s)',
    async (binds, token) => {
      const model = sealing({ binds });
      const told: ModelAdapter = {
        ...model,
        capabilities: { ...model.capabilities, toolChoice: false },
        async *stream(request, options) {
          for await (const delta of model.stream(request, options))
            yield delta.type === 'turn'
              ? { type: 'turn', turn: { ...delta.turn, continuation: 'token' } }
              : delta;
        },
      };
      const { turns, requests } = await turnsOf({ limits: { turns: 2 } }, told);
      expect(breaksOf(turns)).toEqual([null, null, 'tools']);
      expect(requests.map(({ continuation }) => continuation)).toEqual([undefined, 'token', token]);
    },
  );

  test('compares with the run that it continues', async () => {
    const { agent, host, store } = await turnsOf({}, sealing({ rounds: 0 }));
    const [first] = (await store.list({})).runs;
    const same = await agent.start('again', { continues: first?.runId ?? '' });
    await host.settle(same.settled());
    const other = createAgent({ ...agent.options, instructions: 'Be loud.' });
    const changed = await other.start('again', { continues: same.id });
    await host.settle(changed.settled());
    const ofRun = async (id: string) =>
      (await store.read(id, 0)).flatMap(({ event }) => (event.type === 'turn.completed' ? [event] : []));
    expect(breaksOf(await ofRun(same.id))).toEqual([null]);
    expect((await ofRun(changed.id))[0]?.broken).toMatchObject({ by: 'instructions' });
  });

  test('that breaks with the run that it continues costs the tokens of that run', async () => {
    const usage = {
      inputTokens: 1_200,
      outputTokens: 100,
      cachedInputTokens: 0,
      cacheWriteTokens: null,
      reasoningTokens: null,
    };
    const model = answerWith(() => ({ text: 'done', usage }));
    const { agent, run, host, store } = await turnsOf({}, model);
    const other = createAgent({ ...agent.options, instructions: 'Be loud.' });
    const next = await other.start('again', { continues: run.id });
    await host.settle(next.settled());
    const costs = new BreakCosts();
    const found = (await store.read(next.id, 0)).flatMap(({ event }) => {
      costs.follow(event);
      return event.type === 'turn.completed' ? [costs.take(event, undefined)] : [];
    });
    expect(found).toEqual([{ readAgain: 1_200, cost: null }]);
  });
});
