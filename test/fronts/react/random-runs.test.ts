import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { remoteRun } from '../../../fronts/react/index.ts';
import { localRun } from '../../../fronts/react/local-run.ts';
import type { ObservedRun, RunSnapshot } from '../../../fronts/react/run-snapshot.ts';
import type { Settled } from '../../../protocol/run-view.ts';
import { runsApp } from '../../../server/index.ts';
import { memory } from '../../../stores/memory.ts';
import { clientTool, makeTool } from '../../support/engine/agents.ts';

const name = fc.constantFrom('read', 'pay', 'ask', 'unknown');
const turn: fc.Arbitrary<ScriptedTurn> = fc.record(
  {
    text: fc.constantFrom('', 'a', 'é漢 and more'),
    toolCalls: fc.array(fc.record({ name }), { minLength: 1, maxLength: 3 }),
    error: fc.constant({ code: 'permission' } as const),
  },
  { requiredKeys: ['text'] },
);
const script = fc.array(turn, { maxLength: 3 }).map(turns => [...turns, { text: 'The end.' }]);
const decision = fc.constantFrom('approve', 'reject', 'nothing');

/** What a settled value and the snapshot of a page both say. */
function comparable(settled: Settled) {
  switch (settled.status) {
    case 'waiting':
      return { status: settled.status, calls: settled.open };
    case 'finished':
      return { status: settled.status, calls: [], text: settled.text };
    case 'failed':
      return { status: settled.status, error: settled.error };
    case 'cancelled':
      return { status: settled.status };
  }
}

/** Waits until the snapshot is one, with a subscriber. */
async function reach(run: ObservedRun, holds: (now: RunSnapshot) => boolean): Promise<RunSnapshot> {
  return await new Promise(resolve => {
    const look = () => {
      if (holds(run.getSnapshot())) resolve(run.getSnapshot());
    };
    run.subscribe(look);
    look();
  });
}

test('over random runs, the last snapshot of a page equals the settled value, from afar and in the process', async () => {
  await fc.assert(
    fc.asyncProperty(script, fc.array(decision, { maxLength: 3 }), async (turns, decisions) => {
      const agent = createAgent({
        name: 'a',
        store: memory(),
        model: scripted(turns),
        limits: { turns: 6 },
        tools: [
          makeTool('read', { sideEffect: 'none' }),
          makeTool('pay', { approval: true }),
          clientTool('ask'),
        ],
      });
      const app = runsApp({ agents: [agent] });
      const run = await agent.start('go');
      const remote = remoteRun(`http://127.0.0.1:4100/runs/${run.id}`, {
        fetch: async (url, init) => await app.request(String(url), init),
      });
      const local = localRun(run);
      for (const decided of [...decisions, 'end']) {
        const settled = await run.settled();
        const { seq } = run.durable;
        for (const page of [remote, local] as const) {
          const isCurrent = ({ context, status }: RunSnapshot) =>
            status === settled.status &&
            (page === local || (context as { seq: number }).seq === seq) &&
            (settled.status !== 'finished' || page.getSnapshot().text === settled.text) &&
            (settled.status !== 'waiting' || page.getSnapshot().calls.length === settled.open.length);
          expect(await reach(page, isCurrent)).toMatchObject(comparable(settled));
        }
        if (settled.status !== 'waiting' || decided === 'end' || decided === 'nothing') break;
        const [call] = remote.getSnapshot().calls;
        if (call === undefined || !('kind' in call)) break;
        const page = decided === 'approve' ? remote : local;
        const given =
          call.kind === 'approval'
            ? page[decided as 'approve' | 'reject'](call)
            : page.answer(call, { output: { colour: 'blue' } });
        expect(await given).toEqual({ accepted: true });
      }
      app.close();
    }),
    { numRuns: 12, endOnFailure: true },
  );
});
