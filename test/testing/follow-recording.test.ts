import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { StartOptions } from '../../agent/begin-journal.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { RegressReport } from '../../regress/report.ts';
import { memory } from '../../stores/memory.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { regress } from '../../testing/regress/regress.ts';
import { calls, clientTool, makeGate, makeTool } from '../support/engine/agents.ts';
import { runDrill } from '../support/engine/crash-drill.ts';
import { deskRecipes, makeDesk, recordDesk } from '../support/engine/desk-run.ts';
import { finishedRun, makeAgent as makeForkable } from '../support/engine/forked-run.ts';
import { answerWith } from '../support/engine/models.ts';
import { randomCases, sampled } from '../support/sample.ts';

const TURNS: ScriptedTurn[] = [calls('act'), { text: 'Done.' }];

function makeAgent(options: Partial<AgentOptions> = {}): Agent {
  return createAgent({
    name: 'actor',
    model: scripted(TURNS),
    tools: [makeTool('act')],
    ...(options as object),
  });
}

/** Records a run and plays it on another agent, or on an equal one. */
async function play(
  options: Partial<AgentOptions>,
  { start = {}, other = options }: { start?: StartOptions; other?: Partial<AgentOptions> } = {},
): Promise<RegressReport> {
  const store = memory();
  const run = await makeAgent({ ...options, store }).start('go', start);
  await run.settled();
  return await regress(makeAgent(other), { runs: { store } });
}

describe('a played run', () => {
  test('does the same on an equal agent, whatever people did, and touches nothing', async () => {
    await fc.assert(
      fc.asyncProperty(deskRecipes, async recipe => {
        const { store } = await recordDesk(recipe);
        const touched: string[] = [];
        const agent = makeDesk(recipe, {
          touch: name => {
            touched.push(name);
            throw new Error(`${name} was touched`);
          },
        });
        const out = memory();
        const report = await regress(agent, { runs: { store }, out });
        expect(touched).toEqual([]);
        expect(report).toMatchObject({ runs: 1, same: 1, differences: [], complete: true });
        for (const { runId, status } of (await out.list()).runs) {
          expect(['finished', 'failed', 'cancelled']).toContain(status);
          expect((await replayRun(out, runId)).equal).toBe(true);
        }
      }),
      { numRuns: randomCases(150) },
    );
  });

  test('does the same as a fork at any entry', async () => {
    const { host, store, run, events } = await finishedRun();
    for (let at = 1; at <= events.length; at += 1) {
      const fork = await run.fork({ at });
      for (;;) {
        const settled = await host.settle(fork.settled());
        if (settled.status !== 'waiting') break;
        for (const { callId } of settled.approvals) await fork.approve(callId, { by: 'ann' });
        for (const { callId } of settled.doubts)
          await fork.resolve(callId, { happened: true, output: 'found' });
      }
    }
    const agent = makeForkable(memory(), new ManualHost());
    expect(await regress(agent, { runs: { store } })).toMatchObject({
      runs: events.length + 1,
      same: events.length + 1,
    });
  });

  test('does the same as a run whose processes died anywhere', async () => {
    const touch = () => expect.fail('a tool was touched');
    const [first, second] = [
      calls('read', 'put', 'pay', 'ask', 'refund'),
      calls('refund', 'show', 'flaky', 'read'),
    ];
    const third = calls('pay', 'put', 'refund');
    const gone = { error: { code: 'authentication' } } as const;
    const make = () =>
      createAgent({
        name: 'drill',
        model: [scripted([first, second, gone]), scripted([first, second, third, { text: 'done' }])],
        tools: [
          makeTool('read', { sideEffect: 'none', run: touch }),
          makeTool('put', { sideEffect: 'idempotent', run: touch }),
          makeTool('flaky', { sideEffect: 'idempotent', run: touch }),
          makeTool('pay', { run: touch }),
          makeTool('refund', { approval: true, run: touch }),
          makeTool('ask', { run: touch, reconcile: touch }),
          clientTool('show'),
        ],
      });
    const places = Array.from({ length: 60 }, (_, index) => index + 1);
    for (const place of sampled(places, 12)) {
      const { store, deaths } = await runDrill({ deaths: [place, 7] });
      const { differences, same } = await regress(make(), { runs: { store } });
      expect({ differences, same, deaths }).toEqual({ differences: [], same: 1, deaths });
    }
  });

  test('leaves a call open that is still running in the recording', async () => {
    const { promise, open } = makeGate<string>();
    const started = makeGate();
    const run = () => {
      started.open();
      return promise;
    };
    const store = memory();
    const recorded = await makeAgent({ store, tools: [makeTool('act', { run })] }).start('go');
    await started.promise;
    const runs = { store, ids: [recorded.id] };
    expect(await regress(makeAgent(), { runs })).toMatchObject({ same: 1, differences: [] });
    open('acted');
    await recorded.settled();
    expect(await regress(makeAgent(), { runs })).toMatchObject({ same: 1, differences: [] });
  });

  test('ends at once with its signal, also if the model does not', async () => {
    const store = memory();
    await makeAgent({ store }).run('go');
    const stop = new AbortController();
    const model: ModelAdapter = {
      ...scripted([]),
      async *stream() {
        stop.abort();
        await new Promise(() => {});
      },
    };
    expect(await regress(makeAgent({ model }), { runs: { store }, signal: stop.signal })).toMatchObject({
      runs: 0,
      complete: false,
    });
  });

  test('ends the job if the model has no key', async () => {
    const failure = { code: 'key-missing', retryable: false, provider: 'p', model: 'm' } as const;
    const model: ModelAdapter = {
      ...scripted([]),
      // biome-ignore lint/correctness/useYield: it fails before.
      async *stream() {
        throw new ProviderError('No key.', { ...failure, status: null, retryAfterMs: null, raw: null });
      },
    };
    await expect(play({}, { other: { model } })).rejects.toThrow('No key.');
  });

  test('goes on after a model that takes its time to fail', async () => {
    const turns: ScriptedTurn[] = [{ delayMs: 20, error: { code: 'overloaded', times: 1 } }, ...TURNS];
    const other = { model: scripted(turns), retry: { baseMs: 1 } };
    expect(await play({}, { other })).toMatchObject({ same: 1 });
  });

  test('has the limits with which it was started, where they are narrower than those of the agent', async () => {
    const start = { limits: { turns: 1 }, onLimit: 'stop' } as const;
    expect(await play({}, { start })).toMatchObject({ same: 1 });
    const other = { limits: { turns: 1 }, onLimit: 'stop' } as const;
    expect((await play({}, { other })).differences).toMatchObject([{ kind: 'end' }]);
  });

  test('has its run context as it was recorded', async () => {
    const seen: unknown[] = [];
    const options: Partial<AgentOptions> = {
      runContext: z.object({ user: z.string() }).transform(({ user }) => ({ name: user })),
      instructions: runContext => {
        seen.push(runContext);
        return 'Be brief.';
      },
    };
    expect(await play(options, { start: { runContext: { user: 'ann' } } })).toMatchObject({ same: 1 });
    expect(seen).toEqual(Array.from({ length: 4 }, () => ({ name: 'ann' })));
  });

  test('gives the model a large result as the recorded run did', async () => {
    const read: string[] = [];
    const model = answerWith(({ transcript }) => {
      const result = transcript.find(item => item.type === 'tool_result');
      if (result === undefined) return { toolCalls: [{ callId: 'call', name: 'act', input: {} }] };
      read.push(JSON.stringify(result.output));
      return { text: 'Done.' };
    });
    const tools = [makeTool('act', { run: () => 'x'.repeat(500) })];
    expect(await play({ model, tools, maxResultBytes: 60 })).toMatchObject({ same: 1 });
    const [recorded = '', played] = read;
    expect(recorded).toContain('were left out here');
    expect(played).toBe(recorded);
  });
});
