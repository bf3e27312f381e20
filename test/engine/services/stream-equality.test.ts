import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { clientTool, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { clientCalls } from '../../support/engine/client-calls.ts';
import { randomCases } from '../../support/sample.ts';

const words = fc.stringMatching(/^[a-zé ]{1,40}$/);
const made = fc.record({
  name: fc.constantFrom('read', 'pay', 'fail', 'act', 'show', 'unknown'),
  arguments: fc.constantFrom<Record<string, number> | string>({}, { n: 1 }, '{"n":', '[1]'),
});

const finishReason = fc.constantFrom('stop', 'tool_calls', 'length', 'content_filter', 'pause', 'unknown');

const turn: fc.Arbitrary<ScriptedTurn> = fc.record(
  {
    text: words,
    reasoning: words,
    toolCalls: fc.array(made, { minLength: 1, maxLength: 3 }),
    finishReason: fc.oneof({ weight: 1, arbitrary: finishReason as fc.Arbitrary<'stop'> }),
    error: fc.constantFrom(
      { code: 'overloaded', times: 1 } as const,
      { code: 'rate-limit', times: 2 } as const,
    ),
  },
  { requiredKeys: [] },
);

const script = fc.array(turn, { minLength: 1, maxLength: 5 }).map(turns => [...turns, { text: 'The end.' }]);

const finalAnswer = fc.constantFrom('live', 'held', 'separate');

/** Runs the script with all calls approved, and returns its journal. */
async function play(turns: ScriptedTurn[], answer: 'live' | 'held' | 'separate', stream: boolean) {
  const host = new ManualHost();
  const store = memory();
  const agent = createAgent({
    name: 'a',
    host,
    store,
    finalAnswer: answer,
    limits: { turns: 12 },
    model: scripted(turns),
    tools: [
      makeTool('read', { sideEffect: 'none' }),
      makeTool('pay'),
      makeTool('act', { approval: true }),
      makeTool('fail', {
        sideEffect: 'idempotent',
        retries: 1,
        run: () => {
          throw new Error('no');
        },
      }),
      clientTool('show'),
    ],
  });
  const run = await agent.start('go', { stream });
  let settled = await host.settle(run.settled());
  for (let rest = 0; settled.status === 'waiting' && rest < 20; rest += 1) {
    for (const { callId } of settled.approvals) await run.approve(callId);
    for (const { callId } of clientCalls(settled)) await run.answer(callId, { output: 'shown' });
    settled = await host.settle(run.settled());
  }
  const [started, ...events] = await eventsOf(store, run.id);
  expect(started).toMatchObject({ type: 'run.started', stream });
  return { settled, events };
}

describe('a streamed run and an unstreamed run', () => {
  test.each(['live', 'held', 'separate'] as const)(
    'write equal journals with the answer %s',
    async answer => {
      const turns = [
        { text: 'I look.', reasoning: 'Hm.', toolCalls: [{ name: 'read' }, { name: 'act' }] },
        { reasoning: 'Hm.', toolCalls: [{ name: 'pay' }] },
        { text: 'The end.' },
      ];
      const [streamed, unstreamed] = [await play(turns, answer, true), await play(turns, answer, false)];
      expect(streamed).toEqual(unstreamed);
      expect(streamed.settled).toMatchObject({ status: 'finished', text: 'The end.' });
      const shown = streamed.events.filter(({ type }) => type === 'text.started');
      expect(shown).toHaveLength(answer === 'live' ? 2 : 1);
      expect(streamed.events.filter(({ type }) => type === 'calls.started')).toHaveLength(2);
    },
  );

  test('write equal journals for any script', async () => {
    await fc.assert(
      fc.asyncProperty(script, finalAnswer, async (turns, answer) => {
        const [streamed, unstreamed] = [await play(turns, answer, true), await play(turns, answer, false)];
        expect(streamed).toEqual(unstreamed);
      }),
      { numRuns: randomCases(75) },
    );
  });

  test('report text at most once per turn, only if it is visible, and calls only if there are any', async () => {
    await fc.assert(
      fc.asyncProperty(script, finalAnswer, fc.boolean(), async (turns, answer, stream) => {
        const { events } = await play(turns, answer, stream);
        let reported: string[] = [];
        for (const event of events) {
          if (event.type === 'text.started' || event.type === 'calls.started') reported.push(event.type);
          if (event.type !== 'turn.completed') continue;
          expect(reported).toHaveLength(new Set(reported).size);
          expect(reported.includes('calls.started')).toBe(event.calls.length > 0);
          if (answer === 'live') expect(reported.includes('text.started')).toBe(event.text !== '');
          if (answer === 'held' && event.calls.length > 0) expect(reported).not.toContain('text.started');
          reported = [];
        }
      }),
      { numRuns: randomCases(30) },
    );
  });
});
