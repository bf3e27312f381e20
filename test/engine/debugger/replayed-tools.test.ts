import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { standingOf } from '../../../engine/journal/load-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { isOfChart } from '../../../machines/fold.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { finishedRun, foldOf, seqOf } from '../../support/engine/forked-run.ts';

/** Lets the fork end, and approves what it asks. */
async function finish(host: ManualHost, fork: Run) {
  let settled = await host.settle(fork.settled());
  for (
    ;
    settled.status === 'waiting' && settled.approvals.length > 0;
    settled = await host.settle(fork.settled())
  )
    for (const call of settled.approvals) await fork.approve(call.callId, { by: 'bob' });
  return settled;
}

/** A run that looked up 1, 1 and 2, and a fork of its start on another model. */
async function onOtherModel(turns: Parameters<typeof scripted>[0], { edit = false } = {}) {
  const [host, store] = [new ManualHost(), memory()];
  const ran: unknown[] = [];
  const look = makeTool('look', {
    approval: edit,
    run: (input: unknown) => {
      ran.push(input);
      return `result ${ran.length}`;
    },
  });
  const first = scripted([
    calls(['look', { id: 1 }]),
    calls(['look', { id: 1 }]),
    calls(['look', { id: 2 }]),
    { text: 'done' },
  ]);
  const agent = createAgent({ name: 'a', host, store, model: first, tools: [look] });
  const run = await agent.start('go');
  await finish(host, run);
  const created = await run.fork({ at: 1, replayTools: true });
  const other = createAgent({ name: 'a', host, store, model: scripted(turns), tools: [look] });
  const fork = await other.open(created.id);
  return { host, store, ran, run, fork };
}

describe('a fork with replayTools', () => {
  test('on the same model equals the original from every entry, and executes nothing', async () => {
    const { host, store, keys, run, events } = await finishedRun();
    const executed = keys.length;
    for (const at of events.keys()) {
      const fork = await run.fork({ at: at + 1, replayTools: true });
      expect(await finish(host, fork)).toMatchObject({ status: 'finished', text: 'done' });
      const withoutIds = ({ transcript }: typeof run.context) => transcript.map(({ id: _, ...item }) => item);
      expect(withoutIds(fork.context)).toEqual(withoutIds(run.context));
      expect(fork.context.toolCalls).toBe(run.context.toolCalls);
      for (const event of (await eventsOf(store, fork.id)).slice(at + 1))
        if (event.type === 'tool.settled') expect(event.played?.runId).toBe(run.id);
    }
    expect(keys).toHaveLength(executed);
  });

  test('gives the k-th equal call the k-th result, and names the entry', async () => {
    const { host, store, ran, run, fork } = await onOtherModel([
      calls(['look', { id: 2 }], ['look', { id: 1 }], ['look', { id: 1 }]),
      { text: 'ended' },
    ]);
    expect(await finish(host, fork)).toMatchObject({ status: 'finished', text: 'ended' });
    expect(ran).toHaveLength(3);
    const played = (await eventsOf(store, fork.id)).flatMap(event =>
      event.type === 'tool.settled' ? [[event.output, event.played]] : [],
    );
    const seqs = [1, 2, 3].map(nth => ({ runId: run.id, nth }));
    const original = await eventsOf(store, run.id);
    const from = seqs.map(({ runId, nth }) => ({ runId, seq: seqOf(original, 'tool.settled', nth) }));
    expect(played.sort()).toEqual([
      ['result 1', from[0]],
      ['result 2', from[1]],
      ['result 3', from[2]],
    ]);
  });

  test('holds a call that the original did not make: it runs only after a person says so', async () => {
    const { host, ran, fork } = await onOtherModel([
      calls(['look', { id: 1 }], ['look', { id: 9 }]),
      { text: 'ended' },
    ]);
    const held = await finish(host, fork);
    expect(held).toMatchObject({ status: 'waiting', doubts: [{ input: { id: 9 } }] });
    const [doubt] = held.status === 'waiting' ? held.doubts : [];
    expect(doubt?.reason).toContain('Not executed');
    expect(ran).toHaveLength(3);
    expect(await fork.resolve(doubt?.callId ?? '', { retry: true })).toEqual({ accepted: true });
    expect(await finish(host, fork)).toMatchObject({ status: 'finished' });
    expect(ran.slice(3)).toEqual([{ id: 9 }]);
  });

  test('holds the call that equals one too often, and a call whose input a person changed', async () => {
    const again = await onOtherModel([calls(['look', { id: 2 }], ['look', { id: 2 }]), { text: 'ended' }]);
    expect(await finish(again.host, again.fork)).toMatchObject({ doubts: [{ input: { id: 2 } }] });
    const edited = await onOtherModel([calls(['look', { id: 2 }]), { text: 'ended' }], { edit: true });
    const asks = await edited.host.settle(edited.fork.settled());
    const [call] = asks.status === 'waiting' ? asks.approvals : [];
    await edited.fork.approve(call?.callId ?? '', { input: { id: 7 } });
    expect(await finish(edited.host, edited.fork)).toMatchObject({ doubts: [{ input: { id: 7 } }] });
    expect([again.ran.length, edited.ran.length]).toEqual([3, 3]);
  });

  test('holds its calls if the original was deleted, and a fork of it executes tools again', async () => {
    const { host, store, ran, run, fork } = await onOtherModel([
      calls(['look', { id: 1 }]),
      { text: 'ended' },
    ]);
    const plain = await fork.fork({ at: 1 });
    expect(plain.context.config.playsResultsOf).toBeUndefined();
    await host.settle(plain.settled());
    expect(ran).toHaveLength(4);
    await store.delete(run.id);
    expect(await finish(host, fork)).toMatchObject({
      status: 'waiting',
      doubts: [{ name: 'look' }],
    });
    expect(ran).toHaveLength(4);
  });

  test('replays a call whose process died after its start: a call that may act once is not in doubt', async () => {
    const { host, store, keys, agent, run, events } = await finishedRun();
    const executed = keys.length;
    const at = seqOf(events, 'tool.started', 3);
    const [started, ...rest] = events.slice(0, at);
    if (started?.type !== 'run.started') throw new Error('the journal has no beginning');
    const config = { ...started.config, playsResultsOf: run.id };
    const dead = { ...started, runId: 'dead', forkOf: { runId: run.id, at: 1 }, config };
    const copied = rest.flatMap(event => (isOfChart(event) ? [event] : []));
    const state = foldOf([dead, ...copied].map((event, index) => ({ seq: index + 1, event })));
    expect(state.context.calls).toMatchObject([{ name: 'pay', status: 'running', sideEffect: 'once' }]);
    await store.create(dead, undefined, { events: copied, ...standingOf(state) });
    const fork = await agent.open('dead');
    expect(await host.settle(fork.resume())).toMatchObject({ status: 'finished', text: 'done' });
    expect(keys).toHaveLength(executed);
    const settled = (await eventsOf(store, 'dead'))
      .slice(copied.length + 1)
      .find(({ type }) => type === 'tool.settled');
    expect(settled).toMatchObject({ played: { runId: run.id, seq: seqOf(events, 'tool.settled', 3) } });
  });
});
