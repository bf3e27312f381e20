import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { appendEvidence } from '../../../engine/journal/evidence.ts';
import { readPages } from '../../../engine/journal/read-journal.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import { receive } from '../../../stores/conformance/check.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { childOf, makeFamily, PAYING, settleWith } from '../../support/engine/family.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

function makeDesk(store = memory()) {
  const host = new ManualHost();
  const model = scripted([calls('pay'), { text: 'Paid.' }]);
  const agent = createAgent({
    name: 'desk',
    host,
    store,
    model,
    tools: [makeTool('pay', { approval: true })],
  });
  return { host, store, agent };
}

test('every command on a deleted run fails with run-unknown, and nothing of the run is recreated', async () => {
  const { host, store, agent } = makeDesk();
  const run = await agent.start('go', { runId: 'r' });
  await host.settle(run.settled());
  await store.delete('r');
  for (const act of [
    () => run.approve('call_0_0'),
    () => run.send('And?'),
    () => run.cancel(),
    () => run.fork({ at: 1 }),
  ])
    await expect(act()).rejects.toMatchObject({ code: 'run-unknown' });
  await expect(agent.open('r')).rejects.toMatchObject({ code: 'run-unknown' });
  await expect(agent.start('go', { continues: 'r' })).rejects.toMatchObject({ code: 'run-unknown' });
  expect((await store.list()).runs).toEqual([]);
});

test('deleting a run is refused while its driver works, and the driver continues', async () => {
  const gate = makeGate();
  const host = new ManualHost();
  const store = memory();
  const tools = [makeTool('pay', { run: () => gate.promise.then(() => 'paid') })];
  const agent = createAgent({
    name: 'desk',
    host,
    store,
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools,
  });
  const run = await agent.start('go', { runId: 'r' });
  const settled = run.settled();
  await host.idle();
  await expect(store.delete('r', { now: host.now(), cascade: true })).rejects.toMatchObject({
    code: 'refused',
  });
  gate.open();
  expect(await host.settle(settled)).toMatchObject({ status: 'finished', text: 'Paid.' });
  expect(await store.delete('r', { now: host.now() })).toEqual(['r']);
});

test('the late result of a call is dropped silently when its run was deleted', async () => {
  const store = memory();
  const deleting = watchStore(store, { beforeAppend: async () => void (await store.delete('r')) });
  const { host, agent } = makeDesk(store);
  const run = await agent.start('go', { runId: 'r' });
  await host.settle(run.settled());
  const late = { type: 'tool.late', at: 1, callId: 'call_0_0', output: 'paid', isError: false } as const;
  expect(await appendEvidence(deleting, 'r', late)).toBeUndefined();
  expect(await appendEvidence(deleting, 'r', late)).toBeUndefined();
  expect((await store.list()).runs).toEqual([]);
});

test('reading a journal by pages fails with run-unknown once it is deleted', async () => {
  const { host, store, agent } = makeDesk();
  const run = await agent.start('go', { runId: 'r' });
  await host.settle(run.settled());
  const seq = (await store.get('r'))?.seq ?? 0;
  const many = Array.from({ length: 600 }, () => receive('x'));
  await store.append('r', { after: seq, input: true }, many, { status: 'waiting' });
  const read: JournalEntry[] = [];
  const reading = async () => {
    for await (const page of readPages(store, 'r')) {
      read.push(...page);
      if (read.length > 300) await store.delete('r', { now: host.now() });
    }
  };
  await expect(reading()).rejects.toMatchObject({ code: 'run-unknown' });
  expect(read.length).toBeLessThan(seq + many.length);
});

test('the run of a sub-agent is deleted with its parent, unless a fork of the parent still waits for it', async () => {
  const [store, host] = [memory(), new ManualHost()];
  const { run } = await settleWith(makeFamily(PAYING, { store, host }), host);
  const child = await childOf(store, run.id);
  const fork = await run.fork({ at: (await store.get(run.id))?.seq ?? 0 });
  await expect(store.delete(child)).rejects.toMatchObject({ code: 'refused', details: { parent: run.id } });
  await expect(store.delete(run.id)).rejects.toMatchObject({ code: 'refused', details: { by: [fork.id] } });
  await fork.cancel();
  expect(await store.delete(run.id, { now: host.now() })).toEqual([run.id, child]);
  expect(await replayRun(store, fork.id)).toMatchObject({ equal: true });
});
