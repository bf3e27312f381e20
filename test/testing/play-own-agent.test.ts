import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import { recordRun } from '../../engine/replay/record-run.ts';
import { never } from '../../rules/condition.ts';
import { memory } from '../../stores/memory.ts';
import { playRun } from '../../testing/play/play-run.ts';
import { tool } from '../../tools/tool.ts';
import { calls } from '../support/engine/agents.ts';

const TURNS: ScriptedTurn[] = [
  calls(['look_up', { order: 'A-1' }]),
  calls(['refund', { order: 'A-1', cents: 4200 }]),
  { text: 'Done.' },
];

type Changes = {
  approval?: boolean;
  most?: number;
  sideEffect?: 'once' | 'idempotent';
  options?: Partial<AgentOptions>;
};

function makeDesk({ approval = true, most = 10_000, sideEffect = 'once', options = {} }: Changes = {}) {
  const executed: string[] = [];
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted(TURNS),
    tools: [
      tool({
        name: 'look_up',
        description: 'Looks an order up.',
        input: z.object({ order: z.string() }),
        sideEffect: 'none',
        tags: ['untrusted'],
        run: () => void executed.push('look_up'),
      }),
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ order: z.string(), cents: z.number().max(most) }),
        approval,
        sideEffect,
        run: () => {
          executed.push('refund');
          return 'paid';
        },
      }),
    ],
    ...(options as object),
  });
  return { agent, executed };
}

async function record() {
  const { agent } = makeDesk();
  const run = await agent.start('Refund A-1.');
  await run.settled();
  await run.approve('call_1_0', { by: 'ann' });
  await run.settled();
  return await recordRun(agent.store, run.id, { raw: true });
}

describe("a recording that is played on the user's agent", () => {
  test('has the same outcome while nothing changed, and executes nothing', async () => {
    const { recording, outcome } = await record();
    const { agent, executed } = makeDesk();
    expect(await playRun(recording, agent)).toEqual(outcome);
    expect(executed).toEqual([]);
  });

  test.each<[string, Changes, RegExp]>([
    ['an approval was removed', { approval: false }, /refund: approval is not needed, recorded: needed/],
    [
      'a schema refuses the input',
      { most: 100 },
      /refund: validity is refused .*4200|100.*recorded: accepted/,
    ],
    [
      'a side effect changed',
      { sideEffect: 'idempotent' },
      /refund: side effect is idempotent, recorded: once/,
    ],
    [
      'a rule blocks the call',
      { options: { rules: [never('refund').after('untrusted')] } },
      /refund: validity is refused/,
    ],
    [
      'a guardrail blocks the answer',
      { options: { guardrails: { answer: () => ({ type: 'block', reason: 'no' }) } } },
      /answer/,
    ],
    [
      'a limit is lower',
      { options: { limits: { turns: 1 }, onLimit: 'stop' } },
      /event 3 of 5|turn.completed/,
    ],
    ['a tool is gone', { options: { tools: [] } }, /look_up: validity is refused/],
  ])('diverges if %s', async (_, changes, message) => {
    const { recording } = await record();
    await expect(playRun(recording, makeDesk(changes).agent)).rejects.toThrow(message);
  });
});
