import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, eventsOf, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { seqOf } from '../../support/engine/forked-run.ts';

const COLD: RunCommand = { type: 'set-params', params: { settings: { temperature: 0 } } };

test('a fork with commands at a step takes that step, and at an unpause continues to the end', async () => {
  const store = memory();
  const model = scripted([calls('pay'), { text: 'done' }]);
  const run = await createAgent({ name: 'a', store, model, tools: [makeTool('pay')] }).start('go', {
    paused: true,
  });
  await run.settled();
  await run.step();
  await run.settled();
  await run.unpause();
  await run.settled();
  const events = await eventsOf(store, run.id);
  const forkAt = async (type: 'step.requested' | 'run.unpaused') => {
    const fork = await run.fork({ at: seqOf(events, type), commands: [COLD] });
    const { status } = await fork.settled();
    return [status, (await wordsOf(store, fork.id)).filter(word => word === type)];
  };
  expect(await forkAt('step.requested')).toEqual(['waiting', ['step.requested']]);
  expect(await forkAt('run.unpaused')).toEqual(['finished', ['run.unpaused']]);
});
