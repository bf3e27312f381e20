import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { seqOf } from '../../support/engine/forked-run.ts';

/** A finished run that called a tool once. */
async function finished() {
  const host = new ManualHost();
  const store = memory();
  const model = scripted([calls(['look', { id: 1 }]), { text: 'done' }]);
  const ran: unknown[] = [];
  const look = { ...makeTool('look'), run: (input: unknown) => ran.push(input) };
  const agent = createAgent({ name: 'a', host, store, model, tools: [look] });
  const run = await agent.start('go');
  await host.settle(run.settled());
  const events = await eventsOf(store, run.id);
  return { host, store, run, ran, events };
}

describe('a paused fork', () => {
  test('rests after the reply at that entry, which can be changed before it continues', async () => {
    const { host, store, run, ran, events } = await finished();
    const fork = await run.fork({ at: seqOf(events, 'turn.completed'), paused: true });
    expect(await host.settle(fork.settled())).toMatchObject({ status: 'waiting', paused: true });
    expect(ran).toHaveLength(1);
    expect(await fork.editTurn({ calls: [], text: 'No need to look.', by: 'ann' })).toEqual({
      accepted: true,
    });
    await fork.unpause();
    expect(await host.settle(fork.settled())).toMatchObject({ status: 'finished', text: 'No need to look.' });
    expect(ran).toHaveLength(1);
    expect((await eventsOf(store, fork.id))[0]).toMatchObject({ forkOf: { runId: run.id } });
  });

  test('rests where the original finished', async () => {
    const { host, run, events } = await finished();
    const fork = await run.fork({ at: seqOf(events, 'turn.completed', 2), paused: true });
    expect(await host.settle(fork.settled())).toMatchObject({ status: 'waiting', paused: true });
    await fork.editTurn({ text: 'Better.' });
    await fork.unpause();
    expect(await host.settle(fork.settled())).toMatchObject({ status: 'finished', text: 'Better.' });
  });

  test('is possible at every entry, and executes nothing', async () => {
    const { host, run, ran, events } = await finished();
    for (const at of events.keys()) {
      const fork = await run.fork({ at: at + 1, paused: true });
      const settled = await host.settle(fork.settled());
      expect(['waiting', 'finished']).toContain(settled.status);
    }
    expect(ran).toHaveLength(1);
  });
});
