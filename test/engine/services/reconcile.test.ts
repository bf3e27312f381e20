import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import type { Reconciliation } from '../../../protocol/tool.ts';
import { createAgent } from '../../../tools/agent/agent.ts';
import { ManualHost } from '../../../tools/testing/manual-host.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { callOnce, hang, stop } from '../../support/engine/call-once.ts';

describe('reconcile', () => {
  type Found = Reconciliation | Promise<Reconciliation>;
  const outcomes: [string, () => Found, object][] = [
    [
      'that finds it happened gives its output',
      () => ({ happened: true, output: 'found' }),
      { status: 'finished', results: [{ output: 'found', isError: false }] },
    ],
    [
      'that finds it did not happen gives the model the failure',
      async () => ({ happened: false }),
      {
        status: 'finished',
        results: [{ output: 'The tool did not answer within 50 ms. It did not happen.', isError: true }],
      },
    ],
    [
      'that does not know leaves the call in doubt',
      () => ({ unknown: true }),
      { status: 'waiting', doubts: [{ reason: 'The tool did not answer within 50 ms.' }] },
    ],
    [
      'that throws leaves the call in doubt, and says so',
      () => {
        throw new Error('no network');
      },
      { status: 'waiting', doubts: [{ reason: expect.stringContaining('no network') }] },
    ],
  ];

  test.each(outcomes)('after a timeout %s', async (_, reconcile, expected) => {
    let runs = 0;
    const run: typeof stop = (...given) => {
      runs += 1;
      return stop(...given);
    };
    const { settled } = await callOnce(makeTool('act', { timeoutMs: 50, run, reconcile }));
    expect(settled).toMatchObject(expected);
    expect(runs).toBe(1);
  });

  test('of a tool that was not made by tool() runs a call again only for a plain no', async () => {
    let runs = 0;
    const made = makeTool('act', { timeoutMs: 50, reconcile: () => ({ unknown: true }) });
    const tool = Object.assign(Object.create(made), {
      run: (...given: Parameters<typeof stop>) => {
        runs += 1;
        return stop(...given);
      },
      reconcile: () => ({ maybe: 1 }),
    });
    const { settled } = await callOnce(tool);
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect(runs).toBe(1);
  });

  test('is given the call, its key and its input', async () => {
    const seen: unknown[] = [];
    const { run } = await callOnce(
      makeTool('act', {
        timeoutMs: 50,
        run: hang,
        reconcile: ({ callId, name, input }, { key }) => {
          seen.push({ callId, name, input, key });
          return { unknown: true };
        },
      }),
      { n: 1 },
    );
    expect(seen).toEqual([{ callId: 'call_0_0', name: 'act', input: { n: 1 }, key: `${run.id}:1:call_0_0` }]);
  });

  test('a result that comes while it asks settles the call, and it is not run again', async () => {
    const [late, asked] = [makeGate<string>(), makeGate<Reconciliation>()];
    let runs = 0;
    const host = new ManualHost();
    const act = makeTool('act', {
      timeoutMs: 50,
      run: () => {
        runs += 1;
        return late.promise;
      },
      reconcile: () => asked.promise,
    });
    const model = scripted([calls('act'), { text: 'done' }]);
    const run = await createAgent({ name: 'a', host, model, tools: [act] }).start('go');
    await host.advance(60);
    late.open('it was done all along');
    await host.idle();
    asked.open({ happened: false });
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'it was done all along' }],
    });
    expect(runs).toBe(1);
  });
});
