import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Reconciliation } from '../../../protocol/tool.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { callOnce, hang, stop } from '../../support/engine/call-once.ts';

describe('reconcile', () => {
  type Found = Reconciliation | Promise<Reconciliation>;
  const outcomes: [string, () => Found, object][] = [
    [
      'a reconcile that finds it happened provides its output',
      () => ({ happened: true, output: 'found' }),
      { status: 'finished', results: [{ output: 'found', isError: false }] },
    ],
    [
      'a reconcile that finds it did not happen makes the model read the failure',
      async () => ({ happened: false }),
      {
        status: 'finished',
        results: [{ output: 'The tool did not answer within 50 ms. It did not happen.', isError: true }],
      },
    ],
    [
      'a reconcile that does not know leaves the call in doubt',
      () => ({ unknown: true }),
      { status: 'waiting', doubts: [{ reason: 'The tool did not answer within 50 ms.' }] },
    ],
    [
      'a reconcile that throws leaves the call in doubt, and the reason names the error',
      () => {
        throw new Error('no network');
      },
      { status: 'waiting', doubts: [{ reason: expect.stringContaining('no network') }] },
    ],
  ];

  test.each(outcomes)('after a timeout, %s', async (_, reconcile, expected) => {
    let runs = 0;
    const run: typeof stop = (...given) => {
      runs += 1;
      return stop(...given);
    };
    const { settled } = await callOnce(makeTool('act', { timeoutMs: 50, run, reconcile }));
    expect(settled).toMatchObject(expected);
    expect(runs).toBe(1);
  });

  test.each<[string, unknown, object]>([
    [
      'its output as the output schema returns it',
      { receipt: 7, more: 1 },
      { status: 'finished', results: [{ output: { receipt: 'r-7' }, isError: false }] },
    ],
    [
      'the call in doubt if its output does not match',
      { receipt: 'lost' },
      {
        status: 'waiting',
        doubts: [
          { reason: expect.stringMatching(/it happened, but the output .* does not match .*receipt/) },
        ],
      },
    ],
    ['the call in doubt if it has no output', undefined, { status: 'waiting', doubts: [{}] }],
  ])('that finds it happened leaves %s', async (_, output, expected) => {
    const schema = z.object({ receipt: z.number().transform(receipt => `r-${receipt}`) });
    const act = tool({
      name: 'act',
      description: 'Acts.',
      input: z.object({}),
      output: schema,
      timeoutMs: 50,
      run: (_, { signal }) => stop(null, { signal }),
      reconcile: () => ({ happened: true, output: output as { receipt: number } }),
    });
    const { settled } = await callOnce(act);
    expect(settled).toMatchObject(expected);
  });

  test('a person who says that it happened gives an output that matches the output schema', async () => {
    const act = tool({
      name: 'act',
      description: 'Acts.',
      input: z.object({}),
      output: z.object({ receipt: z.number() }),
      timeoutMs: 50,
      run: (_, { signal }) => stop(null, { signal }),
    });
    const { run, host } = await callOnce(act);
    expect(await run.resolve('call_0_0', { happened: true, output: { receipt: 'lost' } })).toMatchObject({
      code: 'input-invalid',
      message: expect.stringContaining('receipt'),
    });
    expect(await run.resolve('call_0_0', { happened: true, output: { receipt: 7 } })).toEqual({
      accepted: true,
    });
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: { receipt: 7 } }],
    });
  });

  test('of a tool that was not made by tool() treats an invalid answer as unknown', async () => {
    let runs = 0;
    const made = makeTool('act', { timeoutMs: 50, reconcile: () => ({ unknown: true }) });
    const altered = Object.assign(Object.create(made), {
      run: (...given: Parameters<typeof stop>) => {
        runs += 1;
        return stop(...given);
      },
      reconcile: () => ({ maybe: 1 }),
    });
    const { settled } = await callOnce(altered);
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect(runs).toBe(1);
  });

  test('receives the call, its key and its input', async () => {
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

  test('a result that arrives during the reconcile settles the call, which is not run again', async () => {
    const [late, answer] = [makeGate<string>(), makeGate<Reconciliation>()];
    let runs = 0;
    const host = new ManualHost();
    const act = makeTool('act', {
      timeoutMs: 50,
      run: () => {
        runs += 1;
        return late.promise;
      },
      reconcile: () => answer.promise,
    });
    const model = scripted([calls('act'), { text: 'done' }]);
    const run = await createAgent({ name: 'a', host, model, tools: [act] }).start('go');
    await host.advance(60);
    late.open('it was done all along');
    await host.idle();
    answer.open({ happened: false });
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'it was done all along' }],
    });
    expect(runs).toBe(1);
  });
});
