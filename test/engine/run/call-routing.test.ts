import { expect, test } from 'vitest';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { wordsOf } from '../../support/engine/agents.ts';
import { childOf, makeFamily, PAYING, settleWith } from '../../support/engine/family.ts';

test('an answer with the digest of a sub-agent’s call goes there, also if this run waits for a call of the same id', async () => {
  const store = memory();
  const host = new ManualHost();
  const { run } = await settleWith(makeFamily(PAYING, { store, host }), host);
  const childId = await childOf(store, run.id);
  const [call] = (await loadRun(store, childId)).state.context.calls;
  expect(run.context.calls).toMatchObject([{ callId: call?.callId, status: 'waiting' }]);
  const { callId = '', digest = '' } = call ?? {};
  const answer = { type: 'answer', callId, digest, output: 'paid by hand' } as const;
  expect(await run.submit([answer])).toEqual({ accepted: true });
  expect(await wordsOf(store, childId)).toContain('approval.decided call_0_0');
  expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'told' });
});
