import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { makeFile } from '../support/stores/make-file.ts';

test('runs are pruned, redacted and deleted on one connection while another drives runs and a third reads', async () => {
  const file = makeFile();
  const [driving, removing, reading] = [sqlite(file), sqlite(file), sqlite(file)];
  const options = { store: driving, model: scripted([calls('pay'), { text: 'Done.' }]) };
  const gated = createAgent({ ...options, name: 'desk', tools: [makeTool('pay', { approval: true })] });
  const old = createAgent({ ...options, name: 'old', model: scripted([{ text: 'Done.' }]) });
  const waiting = await Promise.all(Array.from({ length: 10 }, (_, n) => gated.start(`waits ${n}`)));
  const ended = await Promise.all(Array.from({ length: 60 }, () => old.start('old')));
  await Promise.all([...waiting, ...ended].map(run => run.settled()));

  const release = Promise.withResolvers<void>();
  const pay = makeTool('pay', { sideEffect: 'idempotent', run: () => release.promise });
  const slow = createAgent({ ...options, name: 'slow', tools: [pay] });
  const driven = await Promise.all(Array.from({ length: 10 }, (_, n) => slow.start(`slow ${n}`)));
  const settled = Promise.all(driven.map(run => run.settled()));
  const removals = (async () => {
    for (const { id } of driven) await expect(removing.delete(id)).rejects.toMatchObject({ code: 'refused' });
    const pruned = await removing.prune({ before: Date.now() + 1, status: 'finished' });
    for (const { id } of waiting) await removing.redact(id, { paths: ['/1/input/0/content/0/text'] });
    release.resolve();
    return pruned;
  })();
  const reads: number[] = [];
  let isOver = false;
  const lists = (async () => {
    for (; !isOver; await setImmediate()) reads.push((await reading.list({ limit: 1000 })).runs.length);
  })();

  expect((await removals).length).toBe(60);
  expect((await settled).map(({ status }) => status)).toEqual(driven.map(() => 'finished'));
  isOver = true;
  await lists;
  expect(reads.length).toBeGreaterThan(1);
  expect(reads.every(count => count >= 20 && count <= 80)).toBe(true);
  for (const run of waiting) await run.approve('call_0_0');
  for (const run of [...waiting, ...driven]) {
    expect((await run.settled()).status).toBe('finished');
    expect(await replayRun(removing, run.id)).toMatchObject({ equal: true });
  }
  await Promise.all([driving, removing, reading].map(store => store.close()));
});
