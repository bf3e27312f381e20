import { describe, expect, test } from 'vitest';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { readExport } from '../../../engine/replay/read-export.ts';
import { replayExport } from '../../../engine/replay/replay-export.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Store } from '../../../protocol/store.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { BACK, BILLING, makeDesk, wordsIn } from '../../support/engine/front-desk.ts';

const OWED = 'You owe 5.';

/** A conversation that billing has: its run, and a second one. */
async function handOver(more: Partial<Parameters<typeof makeDesk>[0]> = {}) {
  const desk = makeDesk({
    front: [calls(BILLING), { text: 'Front again.' }],
    billing: [{ text: OWED }, { text: 'Since May.' }, { text: 'Bye.' }, { text: 'Really.' }],
    ...more,
  });
  const first = await desk.agent.start('What do I owe? I am ann@example.org.');
  await first.settled();
  const second = await desk.agent.start('Since when?', { continues: first.id });
  await second.settled();
  return { ...desk, first, second };
}

async function runsOf(store: Store): Promise<string[]> {
  return (await store.list({ limit: 100 })).runs.map(({ runId }) => runId);
}

describe('A conversation that was handed over', () => {
  test('goes on in a fork of a run as it did in the run, and the run stays as it was', async () => {
    const { agent, store, second, clerk } = await handOver();
    const before = await eventsOf(store, second.id);
    const fork = await second.fork({ at: before.length });
    const next = await agent.start('Thanks.', { continues: fork.id });
    expect(await next.settled()).toMatchObject({ status: 'finished', agent: 'billing', text: 'Bye.' });
    expect(wordsIn(clerk.at(-1))).toEqual([
      'user: What do I owe? I am ann@example.org.',
      `call ${BILLING}`,
      'result "billing sees the conversation so far."',
      `assistant: ${OWED}`,
      'user: Since when?',
      'assistant: Since May.',
      'user: Thanks.',
    ]);
    expect(await eventsOf(store, second.id)).toEqual(before);
    for (const runId of await runsOf(store))
      expect((await replayRun(store, runId, () => {})).equal).toBe(true);
  });

  test('asks the sub-agent again in a fork from before the call', async () => {
    const { store, second, clerk } = await handOver();
    const events = await eventsOf(store, second.id);
    const at = events.findIndex(({ type }) => type === 'tool.started');
    const fork = await second.fork({ at });
    expect(await fork.settled()).toMatchObject({ status: 'finished', agent: 'billing', text: 'Bye.' });
    expect(wordsIn(clerk.at(-1)).slice(-2)).toEqual([`assistant: ${OWED}`, 'user: Since when?']);
    expect((await replayRun(store, fork.id, () => {})).equal).toBe(true);
  });

  test('can be forked before it was handed over', async () => {
    const { store, first } = await handOver();
    const fork = await first.fork({ at: 1 });
    expect(await fork.settled()).toMatchObject({
      status: 'finished',
      agent: 'front_desk',
      text: 'Front again.',
    });
    expect((await replayRun(store, fork.id, () => {})).equal).toBe(true);
  });

  test('keeps the messages that wait for the sub-agent when the turn before them is edited', async () => {
    const { agent, store } = makeDesk({
      front: [calls(BILLING)],
      billing: [{ text: OWED }, { text: 'Since May.' }],
      ofFront: { guardrails: { answer: () => ({ type: 'pass' }) } },
    });
    const run = await agent.start('What do I owe?', { paused: true });
    for (let steps = 0; steps < 2; steps += 1) {
      await run.step();
      await run.settled();
    }
    await run.send('Since when?');
    const { context } = (await loadRun(store, run.id)).state;
    expect(context.calls).toMatchObject([{ name: BILLING, status: 'ready' }]);
    const edited = await run.editTurn({ text: 'Never.' });
    expect(edited.accepted).toBe(false);
    await run.unpause();
    expect(await run.settled()).toMatchObject({ agent: 'billing', text: 'Since May.' });
  });

  test('is shown to the sub-agent without what was redacted since', async () => {
    const { agent, store, first, second, clerk } = await handOver();
    await store.redact(first.id, { paths: ['/1/input/0/content/0/text'] });
    const third = await agent.start('Thanks.', { continues: second.id });
    await third.settled();
    expect(JSON.stringify(clerk.at(-1))).not.toContain('ann@example.org');
    expect(wordsIn(clerk.at(-1)).at(-1)).toBe('user: Thanks.');
  });

  test('is with the front desk again once the run of the sub-agent was deleted', async () => {
    const { agent, store, second } = await handOver();
    for (const { runId } of (await store.list({ agent: 'billing' })).runs) await store.delete(runId);
    const third = await agent.start('Thanks.', { continues: second.id });
    expect(await third.settled()).toMatchObject({ agent: 'front_desk', text: 'Front again.' });
  });

  test('is exported with each of its runs, and each replays from its file', async () => {
    const { store } = await handOver();
    for (const runId of await runsOf(store)) {
      const file = JSON.stringify(await exportRun(store, runId));
      expect(replayExport(readExport(file, 'the file')).equal).toBe(true);
    }
  });

  test('keeps the tools of one agent out of the requests of the other, through a fork too', async () => {
    const { first, clerk, desk } = await handOver({ ofBilling: { tools: [makeTool('look_up')] } });
    const fork = await first.fork({ at: (await first.durable).seq });
    await fork.send('And now?');
    await fork.settled();
    for (const request of clerk) expect(request.tools.map(({ name }) => name)).toEqual(['look_up', BACK]);
    for (const request of desk) expect(request.tools.map(({ name }) => name)).toEqual(['hours', BILLING]);
  });

  test('in another process has the same agents', async () => {
    const { store, second } = await handOver();
    const later = makeDesk({ front: [], billing: [{ text: 'Yes.' }], store });
    const third = await later.agent.start('Sure?', { continues: second.id });
    expect(await third.settled()).toMatchObject({ agent: 'billing', text: 'Yes.' });
    expect(wordsIn(later.clerk[0]).slice(-3)).toEqual([
      'user: Since when?',
      'assistant: Since May.',
      'user: Sure?',
    ]);
  });
});
