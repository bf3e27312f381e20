import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAgent } from '../../agent/agent.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { describeOutcome } from '../../engine/replay/describe-outcome.ts';
import { type RecordedEvent, recordRun as record } from '../../engine/replay/record-run.ts';
import { forkRun } from '../../engine/run/forks/fork-run.ts';
import { memory } from '../../stores/memory.ts';
import { playRun } from '../../testing/play/play-run.ts';
import { calls } from '../support/engine/agents.ts';
import { runDrill } from '../support/engine/crash-drill.ts';
import { recipes, recordRun } from '../support/engine/recorded-run.ts';
import { randomCases } from '../support/sample.ts';

describe('a played recording', () => {
  test('reproduces the outcome of any run', async () => {
    await fc.assert(
      fc.asyncProperty(recipes, async recipe => {
        const { store, run } = await recordRun(recipe);
        const { recording, outcome } = await record(store, run.id);
        expect(outcome).toEqual(describeOutcome((await loadRun(store, run.id)).state));
        expect(await playRun(recording)).toEqual(outcome);
        expect(await playRun(JSON.parse(JSON.stringify(recording)))).toEqual(outcome);
      }),
      { numRuns: randomCases(30) },
    );
  });

  test('reproduces the outcome of a fork at any entry', async () => {
    await fc.assert(
      fc.asyncProperty(recipes, fc.nat(), async (recipe, place) => {
        const { host, store, run } = await recordRun(recipe);
        const at = (place % (await store.read(run.id)).length) + 1;
        const fork = await forkRun({ store, host }, run.id, at);
        const { recording, outcome } = await record(store, fork.runId);
        expect(await playRun(recording)).toEqual(outcome);
      }),
      { numRuns: randomCases(30) },
    );
  });

  test('reproduces the outcome of a run whose processes died anywhere', async () => {
    for (const deaths of [[], [12], [20, 9], [25], [31, 14], [40], [52, 7], [60]]) {
      const { store, runId } = await runDrill({ deaths });
      const { recording, outcome } = await record(store, runId);
      expect(await playRun(recording), `${deaths}`).toEqual(outcome);
    }
  });

  test('with a missing event names the event at which the run diverges', async () => {
    const { store, run } = await recordRun({
      turns: [calls('read', 'act'), { text: 'Done.' }],
      words: ['approve'],
    });
    const without = async (type: RecordedEvent['type']) => {
      const { recording } = await record(store, run.id);
      const events = recording[0]?.events ?? [];
      events.splice(
        events.findIndex(event => event.type === type),
        1,
      );
      return await playRun(recording).catch(error => error.message);
    };
    expect(await without('approval.decided')).toMatch(
      /at event 3 of 4, tool.settled call_0_1: the run has no running call/,
    );
    expect(await without('turn.completed')).toMatch(
      /at event 1 of 4, tool.settled call_0_0: the run has no running call/,
    );
    expect(await without('tool.settled')).toMatch(
      /at event 3 of 4, tool.settled call_0_1: the run has no running call/,
    );
  });

  test('of a run that began in another store is refused', async () => {
    const { agent, run } = await recordRun({ turns: [calls('act'), { text: 'Done.' }], words: [] });
    const store = memory();
    await createAgent({ ...agent.options, store }).restore(run.snapshot());
    await expect(record(store, run.id)).rejects.toMatchObject({ code: 'refused' });
  });
});
