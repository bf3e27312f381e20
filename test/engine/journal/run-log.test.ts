import { expect, test } from 'vitest';
import { agentChart } from '../../../engine/driver/agent-chart.ts';
import { beginFold } from '../../../engine/journal/load-run.ts';
import { RunLog } from '../../../engine/journal/run-log.ts';
import { chartIdentity } from '../../../machines/snapshot.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../tools/testing/manual-host.ts';
import { eventsOf } from '../../support/engine/agents.ts';
import { answering, makeConfig, makeStarted } from '../../support/machines/builders.ts';

test('J7: what is reported after an append and not committed when driving stops is never appended', async () => {
  const store = memory();
  const host = new ManualHost();
  const started = { ...makeStarted(makeConfig()), chart: chartIdentity() };
  const owner = { id: 'driver', host: 'here', pid: 1, startedAt: '' };
  const claim = { owner, now: host.now(), leaseMs: 10_000, isDead: () => false };
  const { epoch, seq } = await store.create(started, claim);
  const log = new RunLog({ store, host, chart: agentChart }, started.runId, {
    state: beginFold(started),
    seq,
    redactions: 0,
  });
  const stamp = () => ({ at: host.now(), generation: log.state.context.generation });
  log.startDriving(epoch);
  expect(log.report({ type: 'text.started', ...stamp() })).not.toBeNull();
  await log.commit();
  expect(log.report({ ...answering('done'), ...stamp() })).not.toBeNull();
  log.stopDriving();
  await log.commit();
  expect(log.isDurable).toBe(true);
  const types = (await eventsOf(store, started.runId)).map(({ type }) => type);
  expect(types).toEqual(['run.started', 'run.claimed', 'text.started']);
});
