import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';

test('a large answer of a person to a gated call is stored as a blob, and shortened in the journal', async () => {
  const store = memory();
  const host = new ManualHost();
  const tools = [makeTool('pay', { approval: true, maxResultBytes: 1_000 })];
  const model = scripted([calls('pay'), { text: 'done' }]);
  const run = await createAgent({ name: 'a', host, store, model, tools }).start('go');
  await host.settle(run.settled());
  expect(await run.answer('call_0_0', { output: 'x'.repeat(5_000) })).toEqual({ accepted: true });
  expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
  const decided = (await eventsOf(store, run.id)).find(event => event.type === 'approval.decided');
  expect(decided).toMatchObject({ decision: { type: 'answer', blob: { bytes: 5_002 } } });
  expect(JSON.stringify(decided).length).toBeLessThan(2_000);
});
