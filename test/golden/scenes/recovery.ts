import { MAX_CRASHES } from '../../../engine/driver/detect-crash-loop.ts';
import { appendEvidence } from '../../../engine/journal/evidence.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { agentOf, driveUntil, rest, type Scene } from '../engine-process.ts';

/** Interrupted calls after the death of a process, and their recovery. */
export const RECOVERY: Readonly<Record<string, Scene>> = {
  'recovery/under-way': {
    about: 'The process died while an idempotent and a once call ran; no process has resumed the run yet.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('put', 'pay')], {
        tools: [makeTool('put', { sideEffect: 'idempotent' }), makeTool('pay')],
      });
      const run = await agent.start('pay');
      await driveUntil(process, run, 'tool.after');
      return run.id;
    },
  },
  'recovery/doubt-resolved': {
    about:
      'A once call was interrupted, and a person confirms that it happened; the idempotent call ran again.',
    async play(begin) {
      const tools = [makeTool('put', { sideEffect: 'idempotent' }), makeTool('pay')];
      const first = begin();
      const died = await agentOf(first, [calls('put', 'pay')], { tools }).start('pay');
      await driveUntil(first, died, 'tool.after');
      const second = begin();
      const run = await agentOf(second, [calls('put', 'pay'), { text: 'Paid.' }], { tools }).open(died.id);
      const [doubted = ''] = await rest(second, run);
      await run.resolve(doubted, { happened: true, output: 'paid', by: 'ann' });
      await rest(second, run);
      return run.id;
    },
  },
  'recovery/in-doubt': {
    about: 'A run at rest with a once call in doubt.',
    async play(begin) {
      const tools = [makeTool('pay')];
      const first = begin();
      const died = await agentOf(first, [calls('pay')], { tools }).start('pay');
      await driveUntil(first, died, 'tool.after');
      const second = begin();
      await rest(second, await agentOf(second, [calls('pay')], { tools }).open(died.id));
      return died.id;
    },
  },
  'recovery/reconciled': {
    about: 'A once call was interrupted; its tool finds that it did not happen, so it runs.',
    async play(begin) {
      const tools = [makeTool('pay', { reconcile: () => ({ happened: false }) })];
      const first = begin();
      const died = await agentOf(first, [calls('pay')], { tools }).start('pay');
      await driveUntil(first, died, 'tool.before');
      const second = begin();
      const run = await agentOf(second, [calls('pay'), { text: 'Paid.' }], { tools }).open(died.id);
      await rest(second, run);
      return run.id;
    },
  },
  'recovery/late-evidence': {
    about:
      'A once call returns after its run was cancelled: its result is kept as late evidence. A server left a note.',
    async play(begin) {
      const process = begin();
      const gate = makeGate();
      const run = await agentOf(process, [calls('pay')], {
        tools: [makeTool('pay', { run: () => gate.promise.then(() => 'paid') })],
      }).start('pay');
      await appendEvidence(process.store, run.id, {
        type: 'run.noted',
        at: process.host.now(),
        by: 'page',
        note: { tab: 1 },
      });
      await process.host.idle();
      await process.host.settle(run.cancel({ by: 'ann' }));
      gate.open();
      await process.host.idle();
      return run.id;
    },
  },
  'recovery/quarantined': {
    about:
      'Five processes died during the same call: the run is paused, and continues when a person unpauses it.',
    async play(begin) {
      const tools = [makeTool('pay', { sideEffect: 'idempotent' })];
      const turns = [calls('pay'), { text: 'Paid.' }];
      const first = begin();
      const { id } = await agentOf(first, turns, { tools }).start('pay');
      await driveUntil(first, await agentOf(first, turns, { tools }).open(id), 'tool.before');
      for (let died = 0; died < MAX_CRASHES - 1; died += 1) {
        const process = begin();
        await driveUntil(process, await agentOf(process, turns, { tools }).open(id), 'tool.before');
      }
      const last = begin();
      const run = await agentOf(last, turns, { tools }).open(id);
      await rest(last, run);
      await run.unpause({ by: 'ann' });
      await rest(last, run);
      return id;
    },
  },
};
