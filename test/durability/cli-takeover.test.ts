import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { systemHost } from '../../engine/host/host.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { AGENT, calling, Desk, eventsOf, typesOf } from '../support/cli/desk.ts';
import desk from '../support/cli/fixtures/desk.ts';

test('a command whose run another process took over reports who and why, follows the run, and reports the same end', async () => {
  const turns = [calling('wait'), { text: 'done' }];
  const place = new Desk(turns);
  const first = place.start(['run', '--agent', AGENT, '--json', 'go'], place.model);
  await first.printed('"tool.started"');

  const store = sqlite(place.store);
  const [record] = (await store.list({ limit: 1000 })).runs;
  const runId = record?.runId ?? '';
  /** By this clock, the first process has not renewed its lease in time. */
  const host = { ...systemHost, now: () => Date.now() + 11_000 };
  const second = await createAgent({ ...desk.options, store, host, model: scripted(turns) }).open(runId);
  const settled = await second.settled();
  expect(settled).toMatchObject({ status: 'waiting', doubts: [{ name: 'wait' }] });

  const { code, stdout, stderr } = await first.ended;
  await store.close();
  expect(code).toBe(3);
  expect(stderr).toContain(
    `Process ${process.pid} on ${hostname()} took over this run, because this process (${first.child.pid}) did not renew its lease in time`,
  );
  expect(stderr).toContain('Following the run');
  const events = eventsOf(stdout);
  const claims = events.filter(({ type }) => type === 'run.claimed');
  expect(claims.slice(0, 2)).toMatchObject([
    { epoch: 1 },
    { epoch: 2, replaces: expect.stringContaining(`${hostname()}:${first.child.pid}@`) },
  ]);
  expect(typesOf(events)).toContain('tool.interrupted');
  expect(typesOf(events)).not.toContain('tool.settled');
});
