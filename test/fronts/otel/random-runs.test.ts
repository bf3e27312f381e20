import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import type { Run } from '../../../engine/run/run.ts';
import { instrument } from '../../../fronts/otel/index.ts';
import { traceIdOf } from '../../../fronts/otel/run-span.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, clientTool, makeTool } from '../../support/engine/agents.ts';
import { byId, recordSpans, tracedAfterwards, treeOf } from '../../support/fronts/otel/record-spans.ts';
import { randomCases } from '../../support/sample.ts';

const TOOLS = ['look', 'fail', 'pay', 'ask', 'clerk'] as const;

const history = fc.record({
  turns: fc.array(
    fc.record({ made: fc.subarray([...TOOLS], { minLength: 1 }), isOverloaded: fc.boolean() }),
    { maxLength: 3 },
  ),
  /** What happens at each rest: which process acts, and how. */
  acts: fc.array(
    fc.record({
      process: fc.nat(1),
      act: fc.constantFrom('approve', 'reject', 'pause', 'send', 'cancel'),
    }),
    { minLength: 1, maxLength: 12 },
  ),
});
type Act = (typeof history extends fc.Arbitrary<infer Value> ? Value : never)['acts'][number]['act'];

/** The agent in one process, whose spans go to `recorded`. */
function makeAgent(script: readonly ScriptedTurn[], store: ReturnType<typeof memory>) {
  const recorded = recordSpans();
  const clerk = createAgent({
    name: 'clerk',
    model: scripted({ turns: [calls('pay'), { text: 'paid' }] }),
    tools: [makeTool('pay', { approval: true })],
  });
  const agent = createAgent({
    name: 'team',
    store,
    model: scripted({ turns: [...script] }),
    retry: { baseMs: 1, maxMs: 1 },
    tools: [
      makeTool('look', { sideEffect: 'none' }),
      makeTool('fail', { run: () => Promise.reject(new Error('broken')) }),
      makeTool('pay', { approval: true }),
      clientTool('ask'),
      clerk.asTool({ name: 'clerk', description: 'Asks the clerk.' }),
    ],
  });
  return { agent: instrument(agent, { tracerProvider: recorded.tracerProvider }), spans: recorded.spans };
}

async function act(run: Run, settled: Settled, what: Act): Promise<void> {
  if (settled.status !== 'waiting') return;
  if (what === 'cancel') return void (await run.cancel());
  if (settled.paused) return void (await run.unpause());
  if (what === 'pause') await run.pause();
  if (what === 'send') await run.send('Hurry.');
  const [approval] = settled.approvals;
  const [result] = settled.open.filter(one => one.kind === 'result');
  if (approval !== undefined)
    await (what === 'reject' ? run.reject(approval, { by: 'ann' }) : run.approve(approval));
  else if (result !== undefined) await run.answer(result, { output: 'blue' });
}

test('the spans that several processes emit live are those of the journal, once each, in one trace', async () => {
  await fc.assert(
    fc.asyncProperty(history, async ({ turns, acts }) => {
      const store = memory();
      const script = turns.flatMap(({ made, isOverloaded }): ScriptedTurn[] => [
        ...(isOverloaded ? [{ error: { code: 'overloaded', times: 1 } } as const] : []),
        calls(
          ...(made.map(name => (name === 'clerk' ? ([name, { input: 'pay' }] as const) : name)) as never[]),
        ),
      ]);
      const processes = [0, 1].map(() => makeAgent([...script, { text: 'done' }], store));
      const start = await processes[0]?.agent.start('go');
      const runId = start?.id ?? '';
      await start?.settled();
      for (const { process, act: what } of acts) {
        const run = (await processes[process]?.agent.open(runId)) as Run;
        await act(run, await run.settled(), what);
        await run.settled();
      }
      const last = (await processes[1]?.agent.open(runId)) as Run;
      while ((await last.settled()).status === 'waiting') await act(last, await last.settled(), 'approve');
      const live = processes.flatMap(({ spans }) => spans());
      const afterwards = await tracedAfterwards(store, runId);
      expect(byId(live)).toEqual(byId(afterwards));
      expect(byId(await tracedAfterwards(store, runId))).toEqual(byId(afterwards));
      expect(treeOf(live).filter(name => name.startsWith('stray'))).toEqual([]);
      expect(new Set(live.map(({ traceId }) => traceId))).toEqual(new Set([traceIdOf(runId)]));
    }),
    { numRuns: randomCases(8) },
  );
});
