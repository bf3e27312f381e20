import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { built } from '../../support/built.ts';
import { Desk, type Ended } from '../../support/cli/desk.ts';
import { until } from '../../support/server/runs-app.ts';
import { ServedDesk } from '../../support/server/served-desk.ts';

const SECRET = 'ann@example.org';

test('runs are deleted, pruned, redacted and backed up from the command line while a server drives others', async () => {
  const desk = new Desk([]);
  const served = await ServedDesk.start(
    desk,
    { args: ['--agent', built('test/support/server/fixtures/by-input.ts')] },
    {},
  );
  const begin = async (input: string): Promise<RunView> =>
    (await (await served.post('/runs', { input })).json()) as RunView;
  const beginMany = (count: number, input: string) =>
    Promise.all(Array.from({ length: count }, async () => (await begin(input)).runId));
  const restOf = (runId: string, state: string) => served.viewOnce(runId, view => view.state === state);
  const command = (...args: string[]) => desk.runAlone([...args, '--json']);
  const read = ({ code, stdout, stderr }: Ended) => {
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout);
  };

  const old = await beginMany(20, 'quick');
  const gated = await beginMany(4, `gated by ${SECRET}`);
  const slow = await beginMany(4, 'slow');
  await Promise.all(old.map(runId => restOf(runId, 'finished')));
  await Promise.all(gated.map(runId => restOf(runId, 'resting.awaitingApproval')));
  await Promise.all(slow.map(runId => restOf(runId, 'executingTools')));
  const before = new Date().toISOString();

  const during: string[] = [];
  let isOver = false;
  const load = (async () => {
    while (!isOver) {
      const { runId } = await begin('quick');
      await restOf(runId, 'finished');
      during.push(runId);
    }
  })();
  await until(() => during[0]);

  const [lost = '', ...kept] = gated;
  const driven = await command('delete', slow[0] ?? '');
  expect([driven.code, driven.stderr]).toEqual([4, expect.stringContaining('is driven by process')]);
  expect(driven.stderr).toContain(String(served.started.child.pid));
  const begunBefore = during.length;
  expect(read(await command('prune', '--before', before)).deleted.toSorted()).toEqual(old.toSorted());
  read(await command('backup', 'copy.db'));
  expect(read(await command('delete', lost)).deleted).toEqual([lost]);
  for (const runId of kept)
    expect(read(await command('redact', runId, '--path', '/1/input/0/content/0/text'))).toMatchObject({
      values: 1,
    });
  expect(during.length, 'runs that ended on the server meanwhile').toBeGreaterThan(begunBefore);
  expect((await served.view(slow[0] ?? '')).status).toBe('running');

  desk.write('release', '');
  isOver = true;
  await load;
  expect((await served.post(`/runs/${lost}/approve`, { callId: 'call_0_0' })).status).toBe(404);
  for (const runId of kept) await served.post(`/runs/${runId}/approve`, { callId: 'call_0_0' });
  const survivors = [...kept, ...slow, ...during];
  await Promise.all(survivors.map(runId => restOf(runId, 'finished')));
  expect(read(await command('delete', slow[0] ?? '')).deleted).toEqual([slow[0]]);
  expect((await fetch(`${served.url}/runs/${slow[0]}`)).status).toBe(404);
  const copied = await desk.runAlone(['approve', lost, 'call_0_0', '--db', 'copy.db']);
  expect([copied.code, copied.stderr]).toEqual([0, expect.any(String)]);

  const { code, stderr } = await served.stop();
  expect([code, stderr]).toEqual([0, expect.not.stringMatching(/error|\n\s+at /i)]);
  const store = sqlite(desk.store);
  const { runs } = await store.list({ limit: 1_000 });
  expect(runs.map(({ runId }) => runId).toSorted()).toEqual(
    survivors.filter(id => id !== slow[0]).toSorted(),
  );
  for (const { runId } of runs) expect(await replayRun(store, runId)).toMatchObject({ equal: true });
  await store.close();
  const folder = desk.path('.agentchart');
  expect(readdirSync(folder).filter(name => readFileSync(`${folder}/${name}`).includes(SECRET))).toEqual([]);
});
