import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import { recordRun } from '../../engine/replay/record-run.ts';
import { memory } from '../../stores/memory.ts';
import { playRun } from '../../testing/play/play-run.ts';
import { regress } from '../../testing/regress/regress.ts';
import { calls } from '../support/engine/agents.ts';
import { BACK, BILLING, makeDesk } from '../support/engine/front-desk.ts';

type Case = {
  front: ScriptedTurn[];
  billing: ScriptedTurn[];
  ofBilling?: Partial<AgentOptions>;
  /** What the user says in a run that continues the first. */
  next?: string;
};

/** Records a conversation, and plays it on a desk whose sub-agent must not be reached. */
async function play({ next, ...parts }: Case, front = parts.front) {
  const { agent, store } = makeDesk(parts);
  const run = await agent.start('What do I owe?');
  await run.settled();
  if (next !== undefined) await agent.run(next, { continues: run.id });
  const again = makeDesk({ ...parts, front });
  const out = memory();
  const report = await regress(again.agent, { runs: { store }, out, concurrency: 1 });
  expect(again.clerk).toEqual([]);
  return report;
}

describe('a played run that hands the conversation over', () => {
  test.each<[string, Case]>([
    ['gives the answer of the sub-agent', { front: [calls(BILLING)], billing: [{ text: 'You owe 5.' }] }],
    [
      'gives its structured answer',
      {
        front: [calls(BILLING)],
        billing: [{ text: '{"cents":500}' }],
        ofBilling: { output: z.object({ cents: z.number() }) },
      },
    ],
    [
      'goes on where the sub-agent handed it back',
      { front: [calls(BILLING), { text: 'Then not.' }], billing: [calls([BACK, { note: 'Not mine.' }])] },
    ],
    [
      'hands on what the user says next, in a run of its own',
      { front: [calls(BILLING)], billing: [{ text: 'You owe 5.' }, { text: 'Yes.' }], next: 'Really?' },
    ],
  ])('%s, and does the same', async (_, conversation) => {
    const report = await play(conversation);
    expect(report).toMatchObject({ undecidable: 0, otherEffects: 0, differences: [] });
    expect(report.same).toBe(report.runs);
  });

  test('plays as a test of its agent', async () => {
    const parts = { front: [calls(BILLING)], billing: [{ text: 'You owe 5.' }, { text: 'Yes.' }] };
    const { agent, store } = makeDesk(parts);
    const first = await agent.start('What do I owe?');
    await first.settled();
    const run = await agent.start('Really?', { continues: first.id });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'Yes.' });
    const { recording, outcome } = await recordRun(store, run.id, { raw: true });
    const again = makeDesk(parts);
    expect(await playRun(recording, again.agent)).toEqual(outcome);
    expect([again.desk, again.clerk]).toEqual([[], []]);
  });

  test('is different if it hands the conversation over no more', async () => {
    const report = await play({ front: [calls(BILLING)], billing: [{ text: 'You owe 5.' }] }, [
      { text: 'I do not know.' },
    ]);
    expect(report.differences).toMatchObject([{ kind: 'missing-call', tool: BILLING }]);
  });
});
