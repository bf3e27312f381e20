import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { type CurrentCall, createAgent, currentCall, trackCalls } from '../../../agent/index.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';

test('code that a tool leaves running has its current call, and code outside has none', async () => {
  const gate = makeGate<CurrentCall | undefined>();
  trackCalls(new AsyncLocalStorage<CurrentCall>());
  const agent = createAgent({
    name: 'a',
    store: memory(),
    model: scripted([calls('leave'), { text: 'done' }]),
    tools: [makeTool('leave', { run: () => void setImmediate(() => gate.open(currentCall())) })],
  });
  const run = await agent.start('go');
  expect(await gate.promise).toEqual({ runId: run.id, callId: 'call_0_0', tool: 'leave' });
  expect(currentCall()).toBeUndefined();
  await run.settled();
});
