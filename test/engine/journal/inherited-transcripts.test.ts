import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { InheritedTranscripts } from '../../../engine/journal/load-history.ts';
import { memory } from '../../../stores/memory.ts';

test('inherited transcripts are kept up to a number of items: those not used for longest go first', async () => {
  const runs = memory();
  const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]), store: runs });
  const ids = ['one', 'two', 'three', 'four'];
  for (const runId of ids) await (await agent.start('go', { runId })).settled();
  let reads = 0;
  const get = runs.get.bind(runs);
  runs.get = async runId => {
    reads += 1;
    return await get(runId);
  };
  // Each run has two items; three of them fit.
  const histories = new InheritedTranscripts(runs, 9);
  const isRead = async (runId: string) => {
    const before = reads;
    expect((await histories.load(runId)).items).toHaveLength(2);
    return reads > before;
  };
  const load = async (...given: string[]) => {
    const read: string[] = [];
    for (const runId of given) if (await isRead(runId)) read.push(runId);
    return read;
  };
  expect(await load('one', 'two', 'three', 'one', 'two', 'three')).toEqual(['one', 'two', 'three']);
  expect(await load('one', 'four', 'one', 'three')).toEqual(['four']);
  expect(await load('two')).toEqual(['two']);
  const none = new InheritedTranscripts(runs, 0);
  expect((await none.load('one')).items).toHaveLength(2);
  reads = 0;
  await none.load('one');
  expect(reads).toBe(0);
});
