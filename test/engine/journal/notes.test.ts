import { expect, it } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { appendEvidence } from '../../../engine/journal/evidence.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { memory } from '../../../stores/memory.ts';

it('a note is journaled, does not change the state of its run, and is not copied by a fork', async () => {
  const store = memory();
  const agent = createAgent({ name: 'noted', model: scripted([{ text: 'Hi.' }]), store });
  const run = await agent.start('x');
  await run.settled();
  const before = await loadRun(store, run.id);
  const seq = await appendEvidence(store, run.id, { type: 'run.noted', at: 1, by: 'me', note: { a: 1 } });
  const after = await loadRun(store, run.id);
  expect(seq).toBe(before.seq + 1);
  expect(after.seq).toBe(seq);
  expect(after.state.context).toEqual(before.state.context);
  const fork = await run.fork({ at: seq ?? 0 });
  const copied = await store.read(fork.id);
  expect(copied.map(({ event }) => event.type)).not.toContain('run.noted');
  expect(await appendEvidence(store, 'nobody', { type: 'run.noted', at: 1, by: 'me', note: null })).toBe(
    undefined,
  );
});
