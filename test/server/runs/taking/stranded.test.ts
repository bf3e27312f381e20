import { expect, test } from 'vitest';
import { createAgent } from '../../../../agent/agent.ts';
import { systemHost } from '../../../../engine/host/host.ts';
import { WorkMetrics } from '../../../../server/metrics/work-metrics.ts';
import { createRunWorker } from '../../../../server/runs/run-worker.ts';
import { nonDrivingStore } from '../../../../stores/non-driving-store.ts';
import { makeApp } from '../../../support/server/runs-app.ts';

test('an approval that no process can carry out says so, is logged once, and both metrics count its run', async () => {
  const { store, begin } = makeApp({ agent: { version: '1' } });
  const { runId, calls } = await begin();
  const office = makeApp({
    store: nonDrivingStore(store),
    drives: false,
    agent: { version: '2' },
    work: new WorkMetrics({ store, host: systemHost }),
  });
  const post = async (path: string, body: object) => await (await office.send('POST', path, body)).json();
  const stranded = {
    type: 'stranded',
    runId,
    reason: 'version 1 of agent "desk" began it, and this process has version 2',
    advice: `Keep a worker with version 1 of "desk" until the run ends, or continue it with \`agentchart resume ${runId}\`.`,
  };
  expect((await office.view(runId)).stranded).toBeUndefined();
  const approved = await post(`/runs/${runId}/approve`, { callId: calls[0]?.callId });
  expect(approved).toMatchObject({ status: 'running', stranded });
  expect(await office.view(runId)).toMatchObject({ stranded });
  const command = { type: 'send', message: 'hurry' };
  expect(await post('/runs/bulk', { runs: [runId], command })).toEqual({
    results: [{ runId, accepted: true, stranded }],
  });
  expect(office.log).toEqual([
    `Run ${runId} has something to do, and processes with these agents do not drive it (stranded): ${stranded.reason}. ${stranded.advice}`,
  ]);

  const { taker } = createRunWorker({
    store,
    host: systemHost,
    agents: new Map([['desk', createAgent({ name: 'desk', version: '2', store })]]),
    versions: 'own',
    log: () => {},
  });
  const metrics = await (await office.send('GET', '/metrics')).text();
  expect(metrics).toMatch(/^agentchart_runs_to_take 0$/m);
  expect(metrics).toMatch(/^agentchart_runs_undrivable 1$/m);
  expect([await taker.countWork(10), await taker.countLeft(10)]).toEqual([0, 1]);
});

test('a server without the agent of a run claims nothing about its workers', async () => {
  const { store, begin } = makeApp({ agent: { version: '1' } });
  const { runId, calls } = await begin();
  const other = makeApp({ store: nonDrivingStore(store), drives: false, agents: new Map() });
  const approved = await other.send('POST', `/runs/${runId}/approve`, { callId: calls[0]?.callId });
  expect(approved.status).toBe(200);
  const view = await approved.json();
  expect(view).toMatchObject({ status: 'running' });
  expect(view).not.toHaveProperty('stranded');
  expect(other.log).toEqual([]);
});
