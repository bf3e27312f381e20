import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { RunView } from '../../protocol/run-view.ts';
import { built } from '../support/built.ts';
import { REFUNDS, WorkerPool } from '../support/workers/worker-pool.ts';

const pools: WorkerPool[] = [];
afterEach(async () => {
  await Promise.all(pools.splice(0).map(pool => pool.close()));
});

const PAY = { text: 'Asked by another.', toolCalls: [{ name: 'pay', arguments: {} }] };

test('a fork on another model is driven with it by each worker that has it, and by no other', async () => {
  const pool = new WorkerPool();
  pools.push(pool);
  const pace = { gated: true };
  const file = join(pool.folder, 'other.json');
  writeFileSync(file, JSON.stringify([PAY, { text: 'Told by another.' }]));
  const forkModel = ['--fork-model', `scripted:${file}`];
  const web = await pool.start(
    ['serve', '--no-drive', '--agent', built(REFUNDS), '--port', '0', ...forkModel],
    pace,
  );
  const [, url = ''] = /listening on (\S+)/.exec(web.output) ?? [];
  const post = async (path: string, body: object): Promise<RunView> => {
    const answer = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return (await answer.json()) as RunView;
  };
  const { forkModels } = (await (await fetch(`${url}/agents/refunds`)).json()) as { forkModels: string[] };
  const { runId } = await post('/runs', { input: 'Refund.' });
  const fork = await post(`/runs/${runId}/fork`, { at: 1, model: forkModels[1] });
  const turns = async () =>
    (await pool.store.read(fork.runId)).flatMap(({ event }) =>
      event.type === 'turn.completed' ? [event.text] : [],
    );

  const without = await pool.startWorker(pace);
  await without.prints(
    `${fork.runId} stopped: Run ${fork.runId} has no model here: it was forked on the model`,
  );
  expect(await turns()).toEqual([]);
  without.kill('SIGTERM');
  await without.ended;

  const first = await pool.startWorker(pace, forkModel);
  expect(await pool.until(async () => (await pool.store.get(fork.runId))?.status === 'waiting')).toBe(true);
  first.kill('SIGKILL');
  await first.ended;
  const waiting = (await (await fetch(`${url}/runs/${fork.runId}`)).json()) as RunView;
  await post(`/runs/${fork.runId}/approve`, { callId: waiting.calls[0]?.callId });

  await pool.startWorker(pace, forkModel);
  expect(await pool.until(async () => (await pool.store.get(fork.runId))?.status === 'finished')).toBe(true);
  expect(await turns()).toEqual(['Asked by another.', 'Told by another.']);
});
