import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { toStored } from '../../../machines/snapshot.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

/** The state after each entry of a journal, as JSON. */
async function replay(store: Store, runId: string): Promise<string[]> {
  const [first, ...rest] = await store.read(runId);
  if (first?.event.type !== 'run.started') throw new Error('the journal has no beginning');
  let state = beginFold(first.event);
  const states = [JSON.stringify(toStored(state))];
  for (const entry of rest) {
    state = foldEntry(state, entry, runId);
    states.push(JSON.stringify(toStored(state)));
  }
  return states;
}

async function rested(host: ManualHost, store: Store) {
  const agent = createAgent({
    name: 'a',
    host,
    store,
    model: scripted([
      { text: 'Let me see.', ...calls('read', 'act') },
      { error: { code: 'overloaded', times: 1 } },
      calls('show', 'fail'),
      { text: 'done' },
    ]),
    tools: [
      makeTool('read', { sideEffect: 'idempotent' }),
      makeTool('act', { approval: true }),
      makeTool('fail', {
        run: () => {
          throw new Error('no');
        },
      }),
      clientTool('show'),
    ],
  });
  return await agent.start('go');
}

describe('E7: state is a fold', () => {
  test('replaying the journal produces byte-identical state at every rest and at the end', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await rested(host, store);
    const images: unknown[] = [];
    const look = async () => {
      await host.settle(run.settled());
      const { seq, image } = run.snapshot() as { seq: number; image: { state: unknown } };
      const states = await replay(store, run.id);
      expect(states).toHaveLength(seq);
      expect(JSON.stringify(image.state)).toBe(states.at(-1));
      images.push(image);
    };
    await look();
    await run.approve('call_0_1', { input: { edited: true } });
    await look();
    await run.answer('call_1_0', { output: { seen: true } });
    await look();
    expect(images).toHaveLength(3);
    expect((await run.settled()).status).toBe('finished');
  });

  test('two replays of the same journal agree at every prefix', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await rested(host, store);
    await host.settle(run.settled());
    await run.approve('call_0_1');
    await host.settle(run.settled());
    const states = await replay(store, run.id);
    expect(await replay(store, run.id)).toEqual(states);
    expect(new Set(states).size).toBeGreaterThan(10);
  });

  test('a snapshot of a driven run contains only durable state', async () => {
    const host = new ManualHost();
    const inner = memory();
    const snapshots: { seq: number; state: string }[] = [];
    let take = () => {};
    const store = watchStore(inner, { beforeAppend: () => take() });
    const run = await rested(host, store);
    take = () => {
      const { seq, image } = run.snapshot() as { seq: number; image: { state: unknown } };
      snapshots.push({ seq, state: JSON.stringify(image.state) });
    };
    await host.settle(run.settled());
    const states = await replay(inner, run.id);
    expect(snapshots.length).toBeGreaterThan(1);
    for (const { seq, state } of snapshots) expect(state).toBe(states[seq - 1]);
  });

  test('an event that the chart does not accept is never journaled', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await rested(host, store);
    await host.settle(run.settled());
    const before = await wordsOf(store, run.id);
    await run.approve('call_9_9');
    await run.approve('call_0_1', { digest: 'another' });
    await run.answer('call_0_0', { output: 1 });
    await run.resolve('call_0_1', { retry: true });
    await run.unpause();
    expect(await wordsOf(store, run.id)).toEqual(before);
  });

  test('resuming a run at rest journals only the claim', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await rested(host, store);
    const waiting = await host.settle(run.settled());
    const before = await wordsOf(store, run.id);
    expect(await host.settle(run.resume())).toEqual(waiting);
    expect(await wordsOf(store, run.id)).toEqual([...before, 'run.claimed']);
  });

  test('the total size of snapshots is linear in the journal, in one process and in one process per round', async () => {
    const measure = async (rounds: number, reopen: boolean) => {
      let bytes = 0;
      const host = new ManualHost();
      const store = watchStore(memory(), {
        onSnapshot: size => {
          bytes += size;
        },
      });
      const round = calls('act');
      const agent = createAgent({
        name: 'a',
        host,
        store,
        limits: { turns: 1000, toolCalls: 1000 },
        model: scripted([...Array.from({ length: rounds }, () => round), { text: 'done' }]),
        tools: [makeTool('act', { approval: true })],
      });
      let run = await agent.start('go');
      for (let call = 0; call < rounds; call += 1) {
        await run.settled();
        if (reopen) run = await agent.open(run.id);
        await run.approve(`call_${call}_0`);
      }
      expect((await run.settled()).status).toBe('finished');
      return bytes;
    };
    for (const reopen of [false, true]) {
      const [small, middle, large] = [
        await measure(60, reopen),
        await measure(120, reopen),
        await measure(240, reopen),
      ];
      expect(middle / small).toBeLessThan(2.6);
      expect(large / middle).toBeLessThan(2.6);
    }
  });

  test('a journal with an event that the chart does not accept is refused as journal-damaged', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await rested(host, store);
    await host.settle(run.settled());
    const { seq = 0 } = (await store.get(run.id)) ?? {};
    const foreign = { type: 'timer.fired', at: 1, generation: 99 } as const;
    await store.append(run.id, { after: seq, input: true }, [foreign], { status: 'waiting' });
    const agent = createAgent({ name: 'a', host, store, model: scripted([{ text: 'x' }]) });
    await expect(agent.open(run.id)).rejects.toMatchObject({ code: 'journal-damaged' });
  });
});
