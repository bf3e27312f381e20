import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, countEvents, makeTracedTool } from '../../support/engine/agents.ts';

const REFUSING = scripted([{ error: { code: 'authentication' } }]);
const PAYING = scripted([calls('pay'), { text: 'paid' }]);

/** Two versions of an agent on one store: the second has lost the model that runs of the first fell back to. */
function makeVersions(store: Store) {
  const host = new ManualHost();
  const keys: string[] = [];
  const tools = [makeTracedTool('pay', keys, { approval: true })];
  const shared = { name: 'desk', tools, store, host };
  const first = createAgent({ ...shared, version: '1', model: [REFUSING, PAYING] });
  const second = createAgent({ ...shared, version: '2', model: REFUSING });
  return { host, keys, first, second };
}

async function begin({ host, first }: ReturnType<typeof makeVersions>): Promise<Run> {
  const run = await first.start('Pay.');
  const settled = await host.settle(run.settled());
  expect(settled).toMatchObject({ status: 'waiting', approvals: [{ callId: 'call_0_0' }] });
  return run;
}

test('a decision whose run no process can drive for want of its model says so, stays, and starts nothing', async () => {
  const store = memory();
  const versions = makeVersions(store);
  const { id } = await begin(versions);
  const left = await versions.second.open(id);
  const stranded = {
    type: 'stranded',
    runId: id,
    code: 'agent-invalid',
    reason: 'it uses model 2 of its list, and the agent has 1',
    advice: 'Give the agent as many models as it had, or leave the run to a process whose agent has them.',
  };
  expect(await left.approve('call_0_0', { by: 'ann' })).toEqual({ accepted: true, stranded });
  expect(await left.send('hurry')).toEqual({ accepted: true, stranded });
  expect(versions.keys).toEqual([]);
  expect(await countEvents(store, id, 'run.claimed')).toBe(1);
  await expect(versions.host.settle(left.settled())).rejects.toThrow(
    `Run ${id} has no model here: ${stranded.reason}. ${stranded.advice}`,
  );

  const kept = await versions.first.open(id);
  expect(await versions.host.settle(kept.settled())).toMatchObject({ status: 'finished', text: 'paid' });
  expect(versions.keys).toEqual([`${id}:1:call_0_0`]);
});

test('a decision is not called stranded while its run rests, where another process drives it, or where a turn brings its model', async () => {
  const store = memory();
  const versions = makeVersions(store);
  const { id } = await begin(versions);
  const left = await versions.second.open(id);
  expect(await left.send('hurry')).toEqual({ accepted: true });

  const owner = { id: 'other', host: 'elsewhere', pid: 1, startedAt: '' };
  const claim = { owner, isDead: () => false, now: versions.host.now(), leaseMs: 1_000, unlessEnded: true };
  await store.claim(id, claim);
  expect(await left.approve('call_0_0')).toEqual({ accepted: true });

  const { id: other } = await begin(versions);
  const preparing = createAgent({ ...versions.second.options, prepareTurn: () => ({ model: PAYING }) });
  const run = await preparing.open(other);
  expect(await run.approve('call_0_0')).toEqual({ accepted: true });
  expect(await versions.host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'paid' });
});
