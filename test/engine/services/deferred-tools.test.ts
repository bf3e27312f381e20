import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { ModelAdapter, SetupChange } from '../../../protocol/adapter.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { explore, type Moment } from '../../../testing/index.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { eventsOf, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

const later = (name: string, description = name) =>
  makeTool(name, { sideEffect: 'none', description, deferred: true });
const tools = [
  makeTool('read', { sideEffect: 'none' }),
  later('refund_order', 'Pays an order back.'),
  later('cancel_order', 'Cancels an order that was not sent.'),
  later('send_mail', 'Sends a mail.'),
];

type Step = string | { search: string };

/** Makes these calls, one a turn, and then answers. */
function playing(steps: readonly Step[], more: Partial<ModelAdapter> = {}): ModelAdapter {
  const model = answerWith(({ transcript }) => {
    const made = transcript.filter(({ type }) => type === 'tool_call').length;
    const step = steps[made];
    if (step === undefined) return { text: 'done' };
    const callId = `call_${made}`;
    return typeof step === 'string'
      ? { toolCalls: [{ callId, name: step, input: { input: 'go' } }] }
      : { toolCalls: [{ callId, name: 'search_tools', input: { query: step.search } }] };
  });
  return { ...model, ...more };
}

const noted = (change: SetupChange): Item[] => [
  {
    type: 'provider_item',
    kind: 'setup',
    opaque: { provider: 'test', data: JSON.parse(JSON.stringify(change)) },
  },
];

const searching = (steps: readonly Step[]): ModelAdapter => {
  const model = playing(steps);
  return { ...model, capabilities: { ...model.capabilities, toolSearch: true } };
};

async function play(given: ModelAdapter, options: Partial<AgentOptions> = {}) {
  const { model, requests } = recordRequests(given);
  const store = memory();
  const host = new ManualHost();
  const agent = createAgent({ name: 'a', host, store, model, tools, ...options });
  const run = await agent.start('go');
  await host.settle(run.settled());
  return { agent, run, store, host, requests, breaks: breaksOf(await eventsOf(store, run.id)) };
}

const breaksOf = (events: readonly RunEvent[]) =>
  events.flatMap(event => (event.type === 'turn.completed' ? [event.broken?.by ?? null] : []));
const namesIn = ({ tools: declared }: ModelRequest) => declared.map(({ name }) => name);
const lastOf = (requests: readonly ModelRequest[]) => requests.at(-1) as ModelRequest;

describe('a deferred tool', () => {
  test('is offered from the turn after it was found, in full, and stays', async () => {
    const { requests, breaks } = await play(playing([{ search: 'pay back' }, 'refund_order', 'read']));
    expect(requests.map(namesIn)).toEqual([
      ['read', 'search_tools'],
      ['read', 'search_tools', 'refund_order'],
      ['read', 'search_tools', 'refund_order'],
      ['read', 'search_tools', 'refund_order'],
    ]);
    expect(resultsIn(lastOf(requests).transcript)).toMatchObject({
      call_0: { tools: [{ name: 'refund_order', description: 'Pays an order back.' }] },
      call_1: 'refund_order ran',
    });
    expect(lastOf(requests).tools.some(({ deferred }) => deferred)).toBe(false);
    expect(breaks).toEqual([null, 'tools', null, null]);
  });

  test('that was found is appended where the provider can, so that nothing breaks', async () => {
    const steps = [{ search: 'mail' }, 'send_mail', { search: 'order' }, 'read'];
    const { requests, breaks } = await play(playing(steps, { append: noted }));
    expect(breaks).toEqual([null, null, null, null, null]);
    expect(requests.map(namesIn)).toEqual(Array.from({ length: 5 }, () => ['read', 'search_tools']));
    const setups = lastOf(requests).transcript.filter(item => item.type === 'provider_item');
    expect(setups).toMatchObject([
      { opaque: { data: { added: [{ name: 'send_mail' }] } } },
      { opaque: { data: { added: [{ name: 'refund_order' }, { name: 'cancel_order' }] } } },
    ]);
  });

  test('runs when the model calls it without a search, and is offered from then on', async () => {
    const { requests } = await play(playing(['send_mail', 'read']));
    expect(resultsIn(lastOf(requests).transcript).call_0).toBe('send_mail ran');
    expect(requests.map(namesIn)).toEqual([
      ['read', 'search_tools'],
      ['read', 'search_tools', 'send_mail'],
      ['read', 'search_tools', 'send_mail'],
    ]);
  });

  test('is declared as such to a provider that searches, with the same tools in each request', async () => {
    const { requests, breaks } = await play(searching(['send_mail', 'read']));
    const declared = [
      { name: 'read' },
      { name: 'refund_order', deferred: true },
      { name: 'cancel_order', deferred: true },
      { name: 'send_mail', deferred: true },
    ];
    for (const request of requests) expect(request.tools).toMatchObject(declared);
    expect(breaks).toEqual([null, null, null]);
    expect(resultsIn(lastOf(requests).transcript).call_0).toBe('send_mail ran');
  });

  test.each([
    ['one of them', ['read', 'send_mail'], 'tools'],
    ['another tool, which is appended later', ['refund_order', 'cancel_order', 'send_mail'], null],
  ])('that the provider searches is a break when a turn leaves out %s', async (_, left, last) => {
    const { requests, breaks } = await play(
      { ...searching(['read', 'send_mail']), append: noted },
      { prepareTurn: ({ turns }) => (turns === 1 ? { tools: left } : {}) },
    );
    expect(breaks).toEqual([null, 'tools', last]);
    expect(namesIn(requests[1] as ModelRequest)).toEqual(left);
  });

  test('is offered at once if the choice names it', async () => {
    const choice = { toolChoice: { name: 'send_mail' } };
    const { requests, breaks } = await play(playing(['send_mail', 'read']), choice);
    expect(namesIn(requests[0] as ModelRequest)).toEqual(['read', 'search_tools', 'send_mail']);
    expect(breaks).toEqual([null, null, null]);
    const { requests: others, breaks: none } = await play(searching(['send_mail', 'read']), choice);
    expect(others[0]?.tools.find(({ name }) => name === 'send_mail')?.deferred).toBeUndefined();
    expect(none).toEqual([null, null, null]);
  });

  test('waits for its approval like any other', async () => {
    const gated = makeTool('pay_bill', { approval: true, deferred: true });
    const { run, requests } = await play(playing([{ search: 'bill' }, 'pay_bill']), { tools: [gated] });
    expect(await run.settled()).toMatchObject({ status: 'waiting', open: [{ name: 'pay_bill' }] });
    expect(namesIn(lastOf(requests))).toEqual(['search_tools', 'pay_bill']);
  });

  test('is reached by an exploration', () => {
    const agent = createAgent({ name: 'a', tools: [later('pay')] });
    const invariants = {
      'pay is never called': ({ context }: Moment) => context.calls.every(({ name }) => name !== 'pay'),
    };
    const { breaches } = explore(agent, { invariants, maxStates: 200 });
    expect(breaches).toMatchObject([{ invariant: 'pay is never called' }]);
  });

  test('can be a sub-agent', async () => {
    const helper = createAgent({ name: 'helper', model: answerWith(() => ({ text: 'helped' })) });
    const help = helper.asTool({ name: 'ask_helper', description: 'Helps with taxes.', deferred: true });
    const { requests } = await play(playing([{ search: 'taxes' }, 'ask_helper']), { tools: [help] });
    expect(resultsIn(lastOf(requests).transcript).call_1).toBe('helped');
  });
});

describe('what was found', () => {
  test('is known to another process', async () => {
    const gated = [...tools, makeTool('ask', { approval: true })];
    const steps = [{ search: 'mail' }, 'ask', 'read'];
    const { run, store } = await play(playing(steps), { tools: gated });
    const { model, requests } = recordRequests(playing(steps));
    const host = new ManualHost();
    const other = createAgent({ name: 'a', host, store, model, tools: gated });
    const taken = await other.open(run.id);
    await taken.approve('call_1');
    await host.settle(taken.settled());
    expect(requests.map(namesIn)).toEqual(
      Array.from({ length: 2 }, () => ['read', 'ask', 'search_tools', 'send_mail']),
    );
    expect(breaksOf(await eventsOf(store, run.id))).toEqual([null, 'tools', null, null]);
  });

  test('is known to a run that continues', async () => {
    const { agent, run, host, store, requests } = await play(playing([{ search: 'mail' }]));
    const next = await agent.start('more', { continues: run.id });
    await host.settle(next.settled());
    expect(namesIn(lastOf(requests))).toEqual(['read', 'search_tools', 'send_mail']);
    expect(breaksOf(await eventsOf(store, next.id))).toEqual([null]);
  });

  test('outlives a compaction that took the search away', async () => {
    const isQuestion = ({ transcript }: ModelRequest) =>
      textOf(transcript.at(-1) as Item).startsWith('Summarize this conversation.');
    let turn = -1;
    const given = answerWith(request => {
      if (isQuestion(request)) return { text: 'They asked for mails.' };
      turn += 1;
      const usage = {
        inputTokens: turn === 3 ? 5000 : 10,
        outputTokens: 0,
        cachedInputTokens: null,
        cacheWriteTokens: null,
        reasoningTokens: null,
      };
      const callId = `call_${turn}`;
      if (turn === 0)
        return { usage, toolCalls: [{ callId, name: 'search_tools', input: { query: 'mail' } }] };
      return turn < 6 ? { usage, toolCalls: [{ callId, name: 'read' }] } : { usage, text: 'done' };
    });
    const { requests, run, breaks } = await play(given, { compaction: { at: 2000, summarize: 'model' } });
    expect(await run.settled()).toMatchObject({ status: 'finished' });
    expect(breaks).toContain('compaction');
    const { transcript } = lastOf(requests);
    expect(transcript.some(item => item.type === 'tool_call' && item.name === 'search_tools')).toBe(false);
    expect(namesIn(lastOf(requests))).toEqual(['read', 'read_ledger', 'search_tools', 'send_mail']);
  });

  test('by the search of a provider is offered by another one if it was called', async () => {
    const steps = ['send_mail', 'read'];
    const first = { ...searching(steps), provider: 'first' };
    const second = { ...playing(steps), provider: 'second' };
    const { model, requests } = recordRequests(second);
    const { breaks } = await play(first, {
      prepareTurn: ({ turns }) => (turns === 0 ? {} : { model }),
    });
    expect(requests.map(namesIn)).toEqual([
      ['read', 'search_tools', 'send_mail'],
      ['read', 'search_tools', 'send_mail'],
    ]);
    expect(breaks).toEqual([null, 'fallback', null]);
  });

  test('is only offered among the tools of the turn', async () => {
    const steps = [{ search: 'order mail' }, 'read', 'read'];
    const { requests } = await play(playing(steps), {
      prepareTurn: ({ turns }) => (turns === 1 ? { tools: ['read', 'send_mail'] } : {}),
    });
    expect(requests.map(namesIn)).toEqual([
      ['read', 'search_tools'],
      ['read', 'search_tools', 'send_mail'],
      ['read', 'search_tools', 'send_mail', 'refund_order', 'cancel_order'],
      ['read', 'search_tools', 'send_mail', 'refund_order', 'cancel_order'],
    ]);
  });

  test('never disappears, and each tool has one place', async () => {
    const words = ['mail', 'order', 'pay', 'cancels', 'nothing'];
    const step = fc.oneof(
      fc.constantFrom('read', 'send_mail', 'cancel_order'),
      fc.constantFrom(...words).map(search => ({ search })),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 6 }), fc.boolean(), async (steps, appends) => {
        const { requests, breaks } = await play(playing(steps, appends ? { append: noted } : {}));
        const seen = requests.map(request => [...namesIn(request), ...addedIn(request)]);
        for (const [at, names] of seen.entries()) {
          expect(new Set(names).size).toBe(names.length);
          expect(names.slice(0, seen[at - 1]?.length ?? 0)).toEqual(seen[at - 1] ?? []);
        }
        if (appends) expect(breaks.every(by => by === null)).toBe(true);
      }),
      { numRuns: 30 },
    );
  });
});

function addedIn({ transcript }: ModelRequest): string[] {
  return transcript.flatMap(item => {
    if (item.type !== 'provider_item' || item.kind !== 'setup') return [];
    const { added = [] } = JSON.parse(JSON.stringify(item.opaque.data)) as { added?: { name: string }[] };
    return added.map(({ name }) => name);
  });
}
