import { expect, test } from 'vitest';
import { scripted } from '../../../../adapters/scripted.ts';
import { createAgent } from '../../../../agent/agent.ts';
import { createRunsApp } from '../../../../server/app.ts';
import { POLL_INTERVAL_MS } from '../../../../server/runs/take-runs.ts';
import { memory } from '../../../../stores/memory.ts';
import { ManualHost } from '../../../../testing/manual-host.ts';
import { watchStore } from '../../../support/engine/watched-store.ts';

test.each([
  ['hands out work', false],
  ['only lists runs', true],
])('a run of a newer chart is not taken, from a store that %s', async (_, listsOnly) => {
  const runs = memory();
  const store = listsOnly ? watchStore(runs, {}) : runs;
  const host = new ManualHost();
  const agent = createAgent({ name: 'a', host, store, model: scripted([{ text: 'done' }]) });
  const newer = agent.input('go', { runId: 'run_newer' });
  newer.chart = { ...newer.chart, version: newer.chart.version + 1, hash: 'newer' };
  await runs.create(newer);
  await runs.create(agent.input('go', { runId: 'run_own' }));
  const log: string[] = [];
  const agents = new Map([['a', agent]]);
  const app = createRunsApp({ store, host, agents, log: line => log.push(line) });
  expect(await app.pickUp()).toEqual(['run_own']);
  await host.advance(10 * POLL_INTERVAL_MS);
  expect(await store.get('run_own')).toMatchObject({ status: 'finished' });
  expect(await store.get('run_newer')).toMatchObject({ status: 'running', epoch: 0, seq: 1 });
  const stranded = expect.stringMatching(/^Run run_newer has something to do, .* than this program's/);
  expect(log).toEqual(listsOnly ? [] : [stranded]);
  app.close();
});
