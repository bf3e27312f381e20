import { InDoubt } from '../../../protocol/error.ts';
import { calls, clientTool, makeGate, makeTool } from '../engine/agents.ts';
import { answerWith } from '../engine/models.ts';
import { DONE, look, REFUND, refund, type Scene, say, stage } from './stage.ts';

const doubting = makeTool('pay', {
  run: () => {
    throw new InDoubt('no answer came');
  },
});

/** Runs with commands: decisions, messages, pauses, edits and a cancellation. */
export const STEERED: Readonly<Record<string, () => Promise<Scene>>> = {
  'an approval': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [refund] },
      say(run => run.approve('call_0_0', { by: 'ann' })),
    ),
  'an approval with a changed input': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [makeTool('refund', { approval: true, run: input => ({ did: input }) })] },
      say(run => run.approve('call_0_0', { input: { cents: 1 } })),
    ),
  'a rejection': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [refund] },
      say(run => run.reject('call_0_0', { reason: 'too much' })),
    ),
  'an answer instead of an approval': async () =>
    await stage(
      [REFUND, DONE],
      { tools: [refund] },
      say(run => run.answer('call_0_0', { output: { by: 'hand' } })),
    ),
  'a mixed round with a decision while another call runs': async () => {
    const gate = makeGate<string>();
    const slow = makeTool('slow', { sideEffect: 'none', run: () => gate.promise });
    return await stage([calls('slow', 'refund'), DONE], { tools: [slow, refund] }, async (run, host) => {
      await host.idle();
      await run.approve('call_0_1');
      gate.open('at last');
      await host.settle(run.settled());
    });
  },
  'a sticky approval': async () =>
    await stage(
      [REFUND, REFUND, DONE],
      { tools: [refund] },
      say(run => run.approve('call_0_0', { sticky: true })),
    ),
  'an approval that expires': async () =>
    await stage(
      [REFUND, DONE],
      {
        tools: [makeTool('refund', { approval: () => ({ required: true, expiresInMs: 90_000 }) })],
      },
      async (run, host) => {
        await host.settle(run.settled());
        await host.advance(100_000);
        await host.settle(run.settled());
      },
    ),
  'a call that waits for a decision': async () => await stage([REFUND, DONE], { tools: [refund] }),
  'calls that the client runs': async () =>
    await stage(
      [calls('show', 'show'), DONE],
      { tools: [clientTool('show')] },
      say(
        run => run.answer('call_0_1', { output: 'the window is closed', isError: true }),
        run => run.answer('call_0_0', { output: { shown: true } }),
      ),
    ),
  'a message during a model call': async () => {
    const gate = makeGate<{ text: string }>();
    const model = answerWith((_, before) => (before === 0 ? gate.promise : { text: `${before}` }));
    return await stage([], { model }, async (run, host) => {
      await host.idle();
      await run.send('And in euros?', { by: 'ann' });
      gate.open({ text: 'In cents.' });
      await host.settle(run.settled());
    });
  },
  'a message while a call waits for a decision': async () =>
    await stage(
      [REFUND, DONE, DONE],
      { tools: [refund] },
      say(run => run.send('Leave it.')),
    ),
  'a queued message': async () =>
    await stage(
      [REFUND, DONE, DONE],
      { tools: [refund], onMessage: 'queue' },
      say(
        run => run.send('And then?'),
        run => run.approve('call_0_0'),
      ),
    ),
  'a doubt resolved as happened': async () =>
    await stage(
      [calls('pay'), DONE],
      { tools: [doubting] },
      say(run => run.resolve('call_0_0', { happened: true, output: { paid: 1 }, by: 'ann' })),
    ),
  'a doubt that is retried, then resolved as failed': async () =>
    await stage(
      [calls('pay'), DONE],
      { tools: [doubting] },
      say(
        run => run.resolve('call_0_0', { retry: true }),
        run => run.resolve('call_0_0', { failed: 'the bank says no' }),
      ),
    ),
  'a pause, steps, and unpausing': async () =>
    await stage(
      [calls('look'), calls('look'), DONE],
      { tools: [look] },
      say(
        run => run.step(),
        run => run.step(),
        run => run.unpause(),
      ),
      { paused: true },
    ),
  'an edited transcript, and a retried call': async () => {
    let failed = 0;
    const flaky = makeTool('flaky', {
      run: () => {
        failed += 1;
        if (failed === 1) throw new Error('not now');
        return 'fine';
      },
    });
    return await stage(
      [calls('flaky'), DONE, DONE],
      { tools: [flaky] },
      say(
        run => run.step(),
        run => run.step(),
        run => run.retry('call_0_0'),
        run => run.step(),
        run => run.editTranscript(run.context.transcript.slice(0, 3)),
        run => run.setParams({ instructions: 'Be short.' }),
        run => run.unpause(),
      ),
      { paused: true },
    );
  },
  'a run cancelled during a call': async () =>
    await stage(
      [calls('hang'), DONE],
      {
        tools: [makeTool('hang', { run: (_, { signal }) => untilAborted(signal) })],
      },
      async (run, host) => {
        await host.idle();
        await host.settle(run.cancel({ reason: 'enough', by: 'ann' }));
      },
    ),
};

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}
