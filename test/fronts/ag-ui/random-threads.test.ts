import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { createAgUiHandler } from '../../../fronts/ag-ui/index.ts';
import type { Settled } from '../../../protocol/run-view.ts';
import { memory } from '../../../stores/memory.ts';
import { clientTool, makeTool } from '../../support/engine/agents.ts';
import { AgUiClient } from '../../support/fronts/ag-ui-desk.ts';

const text = fc.stringMatching(/^[a-z ]{1,20}$/);
const name = fc.constantFrom('read', 'pay', 'ask', 'fail', 'unknown');
const turn: fc.Arbitrary<ScriptedTurn> = fc.record(
  {
    text,
    reasoning: text,
    toolCalls: fc.array(fc.record({ name }), { minLength: 1, maxLength: 3 }),
    error: fc.constantFrom({ code: 'overloaded', times: 1 } as const, { code: 'permission' } as const),
  },
  { requiredKeys: [] },
);
const script = fc.array(turn, { maxLength: 4 }).map(turns => [...turns, { text: 'The end.' }]);
const payload = fc.constantFrom<unknown>(
  { approved: true },
  { approved: false },
  { output: 1 },
  {},
  undefined,
);

/** A thread over a script, in this process, and how its run stands. */
function openThread(turns: ScriptedTurn[], finalAnswer: 'live' | 'held' | 'separate') {
  const store = memory();
  const fail = () => {
    throw new Error('no');
  };
  const agent = createAgent({
    name: 'a',
    store,
    finalAnswer,
    model: scripted(turns),
    retry: { baseMs: 1 },
    limits: { turns: 8 },
    tools: [
      makeTool('read', { sideEffect: 'none' }),
      makeTool('pay', { approval: true }),
      makeTool('fail', { run: fail }),
      clientTool('ask'),
    ],
  });
  const handler = createAgUiHandler(agent);
  const open = () => {
    const client = new AgUiClient('http://localhost/', 'thread');
    client.agent.fetch = (url, init) => handler(new Request(url, init));
    return client;
  };
  const settled = async () => {
    const [record] = (await store.list()).runs;
    return await (await agent.open(record?.runId ?? '')).settled();
  };
  return { open, settled };
}

/** The settled value that the client's state and last event stand for. */
function fold(client: AgUiClient): Partial<Settled> & { status: string } {
  const { status, calls, answer, error, turns, usage, incomplete } = client.agent.state;
  if (status !== 'waiting') return { status, turns, usage, text: answer, error, incomplete };
  const kinds: Record<string, string> = { gated: 'approval', waiting: 'result', doubted: 'doubt' };
  const open = calls.map(({ status: own, ...call }: { status: string }) => ({ ...call, kind: kinds[own] }));
  const { paused } = client.agent.state;
  const pause = paused ? [{ kind: 'pause' }] : [];
  return { status, turns, usage, paused, open: [...open, ...pause] };
}

test('over random runs, what a client folds equals the settled value, and what a client that comes later gets', async () => {
  await fc.assert(
    fc.asyncProperty(
      script,
      fc.constantFrom('live', 'held', 'separate'),
      fc.array(payload, { maxLength: 4 }),
      async (turns, finalAnswer, payloads) => {
        const { open, settled } = openThread(turns, finalAnswer);
        const client = open();
        await client.say('go');
        for (const given of [...payloads, { approved: true, output: 'x' }]) {
          if (client.interrupts.length > 0) await client.resume(given);
        }
        const outcome = await settled();
        expect(outcome).toMatchObject(JSON.parse(JSON.stringify(fold(client))));
        const later = open();
        await later.run();
        expect(later.agent.state).toEqual(client.agent.state);
        // After RUN_ERROR the client keeps the interrupts that it had, and the text of the failed attempt.
        if (outcome.status === 'failed') return;
        expect(later.interrupts).toEqual(client.interrupts);
        expect(later.agent.messages).toEqual(client.agent.messages);
      },
    ),
    { numRuns: 20, endOnFailure: true },
  );
});
