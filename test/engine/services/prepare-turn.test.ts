import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { PrepareTurn } from '../../../engine/services/definition.ts';
import { textOf, userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

const tools = [makeTool('read', { sideEffect: 'none' }), makeTool('pay')];

async function requestsOf(options: Partial<AgentOptions> & { prepareTurn?: PrepareTurn }) {
  const { model, requests } = recordRequests(scripted([calls('read'), calls('read'), { text: 'done' }]));
  const host = new ManualHost();
  const store = memory();
  const agent = createAgent({ name: 'a', host, store, model, tools, ...options });
  const run = await agent.start('go');
  const settled = await host.settle(run.settled());
  return { requests, settled, store, run };
}

describe('a request', () => {
  test('contains the configuration of the agent', async () => {
    const { requests } = await requestsOf({
      instructions: 'Be brief.',
      settings: { temperature: 0.2 },
      providerOptions: { tier: 'fast' },
    });
    expect(requests[0]).toEqual({
      transcript: [{ ...userMessage('go'), id: 'item_1' }],
      instructions: 'Be brief.',
      settings: { temperature: 0.2 },
      providerOptions: { tier: 'fast' },
      toolChoice: 'auto',
      tools: [expect.objectContaining({ name: 'read' }), expect.objectContaining({ name: 'pay' })],
    });
  });

  test.each(['required', { name: 'read' }] as const)(
    'has a forced tool choice in the first turn only: %j',
    async choice => {
      const { requests } = await requestsOf({ toolChoice: choice });
      expect(requests.map(({ toolChoice }) => toolChoice)).toEqual([choice, 'auto', 'auto']);
    },
  );

  test('has tools off in the closing call and in the separate answer', async () => {
    const limited = await requestsOf({ limits: { turns: 1 }, toolChoice: 'required' });
    expect(limited.requests.map(({ toolChoice }) => toolChoice)).toEqual(['required', 'none']);
    const separate = await requestsOf({ finalAnswer: 'separate' });
    expect(separate.requests.map(({ toolChoice }) => toolChoice)).toEqual(['auto', 'auto', 'auto', 'none']);
    expect(separate.requests.every(request => request.tools.length === 2)).toBe(true);
  });
});

describe('prepareTurn', () => {
  test('may trim the transcript of a turn, and the run keeps it in full', async () => {
    const { requests, run } = await requestsOf({
      prepareTurn: ({ transcript, turns }) =>
        turns === 1 ? { transcript: [userMessage('Short.'), ...transcript.slice(1)] } : undefined,
    });
    expect(requests.map(({ transcript }) => transcript[0] && textOf(transcript[0]))).toEqual([
      'go',
      'Short.',
      'go',
    ]);
    expect(JSON.stringify(run.snapshot())).not.toContain('Short.');
  });

  test('may set tools, tool choice, settings and model for one turn', async () => {
    const other = recordRequests(scripted([calls('read'), { text: 'from the other' }]));
    const { requests, settled } = await requestsOf({
      settings: { temperature: 1 },
      prepareTurn: ({ turns }) =>
        turns === 0
          ? { tools: ['read'], toolChoice: 'required', settings: { temperature: 0 } }
          : { model: other.model },
    });
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ toolChoice: 'required', settings: { temperature: 0 } });
    expect(requests[0]?.tools.map(({ name }) => name)).toEqual(['read']);
    expect(other.requests[0]?.tools.map(({ name }) => name)).toEqual(['read', 'pay']);
    expect(settled).toMatchObject({ status: 'finished', text: 'from the other' });
  });

  test('a call of a tool that was withheld from the turn is refused', async () => {
    const { settled } = await requestsOf({ prepareTurn: () => ({ tools: ['pay'] }) });
    expect(settled).toMatchObject({
      results: [
        { isError: true, output: expect.stringContaining('There is no tool "read". The tools are: pay.') },
        { isError: true },
      ],
    });
  });

  test('receives the transcript that the run continues', async () => {
    const seen: string[][] = [];
    const agent = createAgent({
      name: 'a',
      host: new ManualHost(),
      model: answerWith(() => ({ text: 'ok' })),
      prepareTurn: ({ transcript }) => {
        seen.push(transcript.map(textOf));
        return undefined;
      },
    });
    const first = await agent.start('one');
    await first.settled();
    await agent.run('two', { continues: first.id });
    expect(seen.at(-1)).toEqual(['one', 'ok', 'two']);
  });

  test('fails the turn with its message when it throws', async () => {
    const { settled } = await requestsOf({
      prepareTurn: () => {
        throw new Error('no context today');
      },
    });
    expect(settled).toMatchObject({ status: 'failed', error: { message: 'no context today' } });
  });
});

describe('a continuation token', () => {
  /** A model that returns a token with every turn and calls a tool in all but its fourth. */
  function makeRemembering(name = 'm-1') {
    return recordRequests(
      answerWith(
        (_, before) =>
          before === 3
            ? { text: 'done', continuation: `${name} ${before}` }
            : { toolCalls: [{ callId: `c${before}`, name: 'read' }], continuation: `${name} ${before}` },
        { provider: name, model: name },
      ),
    );
  }
  const tokens = (requests: readonly ModelRequest[]) => requests.map(({ continuation }) => continuation);

  test('is sent back while provider, model, instructions and history are unchanged', async () => {
    const { model, requests } = makeRemembering();
    await requestsOf({ model, instructions: 'Be brief.' });
    expect(tokens(requests)).toEqual([undefined, 'm-1 0', 'm-1 1', 'm-1 2']);
  });

  test('is not sent to another model, nor kept after a turn of another model', async () => {
    const [one, two] = [makeRemembering('one'), makeRemembering('two')];
    await requestsOf({
      model: one.model,
      prepareTurn: ({ turns }) => (turns === 1 ? { model: two.model } : undefined),
    });
    expect(tokens(two.requests)).toEqual([undefined]);
    expect(tokens(one.requests)).toEqual([undefined, undefined, 'one 1', 'one 2']);
  });

  test('is not sent with a transcript from prepareTurn, and the token of such a turn is dropped', async () => {
    const { model, requests } = makeRemembering();
    await requestsOf({
      model,
      prepareTurn: ({ turns, transcript }) =>
        turns === 1 ? { transcript: transcript.slice(-2) } : undefined,
    });
    expect(tokens(requests)).toEqual([undefined, undefined, undefined, 'm-1 2']);
  });

  test('is not sent after the instructions have changed', async () => {
    const store = memory();
    const host = new ManualHost();
    const { model, requests } = recordRequests(
      answerWith((_, before) =>
        before === 0
          ? { toolCalls: [{ callId: 'c', name: 'act' }], continuation: 'token' }
          : { text: 'done', continuation: 'token' },
      ),
    );
    const make = (instructions: string) =>
      createAgent({
        name: 'a',
        host,
        store,
        model,
        instructions,
        tools: [makeTool('act', { approval: true })],
      });
    const run = await make('Be brief.').start('go');
    await run.settled();
    const other = await make('Be kind.').open(run.id);
    await other.approve('c');
    await host.settle(other.settled());
    expect(tokens(requests)).toEqual([undefined, undefined]);
  });

  test('is dropped when a call of its turn was renamed, because the provider knows the old id', async () => {
    const { model, requests } = recordRequests(
      answerWith((_, before) =>
        before < 2
          ? { toolCalls: [{ callId: 'same', name: 'read' }], continuation: `token ${before}` }
          : { text: 'done' },
      ),
    );
    const { settled } = await requestsOf({ model });
    expect(settled).toMatchObject({ results: [{ callId: 'same' }, { callId: 'same_2' }] });
    expect(tokens(requests)).toEqual([undefined, 'token 0', undefined]);
  });

  test('is not sent by a run that continues another', async () => {
    const { model, requests } = recordRequests(answerWith(() => ({ text: 'ok', continuation: 'token' })));
    const agent = createAgent({ name: 'a', host: new ManualHost(), model });
    const first = await agent.start('one');
    await first.settled();
    await agent.run('two', { continues: first.id });
    expect(tokens(requests)).toEqual([undefined, undefined]);
  });
});

describe('ids', () => {
  test('duplicate call ids of one turn are made unique in items, calls and results', async () => {
    const store = memory();
    const run = await createAgent({
      name: 'a',
      host: new ManualHost(),
      store,
      model: answerWith((_, before) =>
        before === 0
          ? {
              toolCalls: [
                { callId: 'x', name: 'read' },
                { callId: 'x', name: 'pay' },
                { callId: 'x_2', name: 'read' },
              ],
            }
          : { text: 'done' },
      ),
      tools,
    }).start('go');
    const settled = await run.settled();
    expect(settled).toMatchObject({
      results: [
        { callId: 'x', output: 'read ran' },
        { callId: 'x_2', output: 'pay ran' },
        { callId: 'x_2_2', output: 'read ran' },
      ],
    });
    const turn = (await eventsOf(store, run.id)).find(event => event.type === 'turn.completed');
    const ids = turn?.type === 'turn.completed' ? turn.calls.map(({ callId }) => callId) : [];
    expect(ids).toEqual(['x', 'x_2', 'x_2_2']);
  });
});
