import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { remoteRun } from '../../../fronts/react/index.ts';
import { KilledServer } from '../../support/fronts/killed-server.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const server = new KilledServer('runs-fixture.ts', join(makeTemporaryFolder('react'), 'runs.db'));
let unsubscribe = () => {};
afterEach(async () => {
  unsubscribe();
  await server.kill();
});

test('a server is killed while an approval waits; the page follows the next one, which takes its approval', async () => {
  await server.start();
  let up: Promise<unknown> = Promise.resolve();
  const send: typeof fetch = async (path, init) => {
    await up;
    return await fetch(new URL(String(path), server.url), init);
  };
  const headers = { 'content-type': 'application/json' };
  const begun = await send('/runs', { method: 'POST', headers, body: '{"input":"pay"}' });
  const { runId } = (await begun.json()) as { runId: string };
  const run = remoteRun(`/runs/${runId}`, { fetch: send });
  const statuses: string[] = [];
  unsubscribe = run.subscribe(({ status }) => statuses.push(status));
  await expect.poll(() => run.getSnapshot().status).toBe('waiting');
  const [call] = run.getSnapshot().calls;
  await server.kill();
  // The first attempt fails; how long the next server needs to start does not matter.
  const approved = run.approve(call ?? '');
  up = server.start();
  expect(await approved).toEqual({ accepted: true });
  await expect.poll(() => run.getSnapshot().status).toBe('finished');
  expect(run.getSnapshot()).toMatchObject({ state: 'finished', text: 'Paid.', calls: [], error: undefined });
  expect(statuses.slice(statuses.indexOf('waiting'))).not.toContain('connecting');
});
