import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Delta } from '../../../protocol/effect.ts';
import { makeTool } from '../../support/engine/agents.ts';

type CallDelta = Extract<Delta, { type: 'call.delta' }>;

/** Runs an agent with the model, and returns the pieces of its calls and the calls of its journal. */
async function play(model: ModelAdapter) {
  const agent = createAgent({ name: 'a', model, tools: [makeTool('read', { sideEffect: 'none' })] });
  const run = await agent.start('go');
  const pieces: CallDelta[] = [];
  const calls: { callId: string; input: unknown }[] = [];
  for await (const event of run.events()) {
    if (event.type === 'call.delta') pieces.push(event);
    if (event.type === 'turn.completed') calls.push(...event.calls);
  }
  return { pieces, calls };
}

test('the arguments of calls stream, under the ids that the journal has', async () => {
  const input = { text: 'a text of several words' };
  const toolCalls = [
    { name: 'read', arguments: input },
    { name: 'read', arguments: { n: 2 } },
  ];
  const { pieces, calls } = await play(scripted([{ toolCalls }, { text: 'done' }]));
  for (const [index, call] of calls.entries()) {
    const own = pieces.filter(piece => piece.index === index);
    expect(own[0]).toMatchObject({ turn: 1, attempt: 1, callId: call.callId, name: 'read' });
    expect(own.slice(1).every(piece => piece.name === undefined)).toBe(true);
    expect(JSON.parse(own.map(({ text }) => text).join(''))).toEqual(call.input);
  }
  expect(pieces.filter(({ index }) => index === 0).length).toBeGreaterThan(3);
});

test('a call whose id the run has used streams without an id, because it gets another', async () => {
  const turn = (text: string) => ({
    text: '',
    reasoning: '',
    toolCalls: [{ callId: 'same', name: 'read', arguments: '{}', input: {}, executedBy: 'engine' as const }],
    finishReason: 'tool_calls' as const,
    usage: null,
    model: 'm',
    items: [{ type: 'tool_call' as const, callId: 'same', name: 'read', arguments: text }],
  });
  let turns = 0;
  const model: ModelAdapter = {
    ...scripted([]),
    async *stream() {
      turns += 1;
      if (turns === 3) {
        const items = [{ type: 'message' as const, role: 'assistant' as const, content: [] }];
        yield { type: 'turn', turn: { ...turn('{}'), toolCalls: [], items, finishReason: 'stop' } };
        return;
      }
      yield { type: 'call_started', index: 0, name: 'read', callId: 'same' };
      yield { type: 'turn', turn: turn('{}') };
    },
  };
  const { pieces, calls } = await play(model);
  expect(calls.map(({ callId }) => callId)).toEqual(['same', 'same_2']);
  expect(pieces.map(piece => piece.callId)).toEqual(['same', undefined]);
});
