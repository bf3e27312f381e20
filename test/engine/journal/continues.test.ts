import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeGate, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

/** A model that answers with the number of messages it read. */
const counting = () =>
  recordRequests(answerWith(({ transcript }) => ({ text: `read ${transcript.length}` })));

describe('a run that continues another', () => {
  test('begins with the transcripts of the whole chain, oldest first, and journals none of them', async () => {
    const store = memory();
    const host = new ManualHost();
    const { model, requests } = counting();
    const agent = createAgent({ name: 'a', host, store, model });
    const first = await agent.start('one');
    await first.settled();
    const second = await agent.start('two', { continues: first.id });
    await second.settled();
    const other = createAgent({ name: 'a', host, store, model });
    const third = await other.start('three', { continues: second.id });
    await third.settled();

    expect(requests.at(-1)?.transcript.map(textOf)).toEqual(['one', 'read 1', 'two', 'read 3', 'three']);
    const events = await eventsOf(store, third.id);
    expect(events[0]).toMatchObject({ type: 'run.started', continues: second.id, input: [{ role: 'user' }] });
    expect(JSON.stringify(events)).not.toContain('read 3');
    expect((await store.chain(third.id)).map(({ runId }) => runId)).toEqual([first.id, second.id, third.id]);
    expect(JSON.stringify((await store.loadSnapshot(third.id)) ?? null)).not.toContain('read 3');
  });

  test('is refused while the previous run is running or resting, and when it does not exist', async () => {
    const host = new ManualHost();
    const gate = makeGate();
    const running = createAgent({
      name: 'a',
      host,
      model: answerWith(async () => {
        await gate.promise;
        return { text: 'done' };
      }),
    });
    const run = await running.start('go');
    await host.idle();
    await expect(running.start('more', { continues: run.id })).rejects.toMatchObject({ code: 'refused' });
    await expect(running.start('more', { continues: 'run_x' })).rejects.toMatchObject({
      code: 'run-unknown',
    });
    gate.open();
    await run.settled();
    expect((await running.run('more', { continues: run.id })).status).toBe('finished');

    const resting = createAgent({
      name: 'a',
      host,
      model: scripted([calls('act'), { text: 'done' }]),
      tools: [makeTool('act', { approval: true })],
    });
    const waiting = await resting.start('go');
    await waiting.settled();
    await expect(resting.start('more', { continues: waiting.id })).rejects.toMatchObject({ code: 'refused' });
  });

  test('has a result for every call of a cancelled run: its own, or why there is none', async () => {
    const store = memory();
    const host = new ManualHost();
    const never = makeGate();
    const cancelled = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('read', 'act', 'pay'), { text: 'done' }]),
      tools: [
        makeTool('read', { run: () => 'what it read' }),
        makeTool('act', { approval: true }),
        makeTool('pay', { run: () => never.promise }),
      ],
    });
    const run = await cancelled.start('go');
    await host.idle();
    await host.settle(run.cancel());

    const { model, requests } = counting();
    const agent = createAgent({ name: 'a', host, store, model });
    expect((await agent.run('and now?', { continues: run.id })).status).toBe('finished');
    expect(resultsIn(requests[0]?.transcript ?? [])).toEqual({
      call_0_0: 'what it read',
      call_0_1: 'Not run: the run ended first.',
      call_0_2: 'The run ended before this call had a result. The call may or may not have taken effect.',
    });
  });

  test('reads the messages that the previous run left unread', async () => {
    const host = new ManualHost();
    const gate = makeGate();
    const { model, requests } = recordRequests(
      answerWith(async (_, before) => {
        if (before === 0) await gate.promise;
        return { text: `answer ${before}` };
      }),
    );
    const agent = createAgent({ name: 'a', host, model, limits: { turns: 1 }, onLimit: 'stop' });
    const run = await agent.start('go');
    await host.idle();
    await run.send('too late');
    gate.open();
    await run.settled();
    await agent.run('next', { continues: run.id });
    expect(requests[1]?.transcript.map(textOf)).toEqual(['go', 'answer 0', 'too late', 'next']);
  });

  test('does not reuse a call id of the chain', async () => {
    const host = new ManualHost();
    const store = memory();
    const model = answerWith(({ transcript }) =>
      transcript.at(-1)?.type === 'tool_result'
        ? { text: 'done' }
        : { toolCalls: [{ callId: 'call_1', name: 'read' }] },
    );
    const agent = createAgent({ name: 'a', host, store, model, tools: [makeTool('read')] });
    const first = await agent.start('go');
    await first.settled();
    const second = await agent.run('go', { continues: first.id });
    expect(second).toMatchObject({ results: [{ callId: 'call_1_2' }] });
  });

  test('is not created when the chain cannot be read, and the next attempt succeeds', async () => {
    const host = new ManualHost();
    const inner = memory();
    const { model } = counting();
    const first = await createAgent({ name: 'a', host, store: inner, model }).start('one');
    await first.settled();
    let broken = true;
    const store = watchStore(inner, {
      before: method => {
        if (broken && method === 'read') throw new Error('not now');
      },
    });
    const agent = createAgent({ name: 'a', host, store, model });
    await expect(agent.start('two', { continues: first.id })).rejects.toThrow('not now');
    expect((await inner.list()).runs).toHaveLength(1);
    broken = false;
    const run = await agent.start('two', { continues: first.id });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'read 3' });
  });
});

test('a process that has read nothing of a long run continues it from the snapshot of its end', async () => {
  const runs = memory();
  const host = new ManualHost();
  const ROUNDS = 40;
  const model = answerWith((_, before) =>
    before < ROUNDS
      ? { toolCalls: [{ callId: `call_${before}`, name: 'measure', input: { point: before } }] }
      : { text: 'Measured.' },
  );
  const tools = [makeTool('measure', { sideEffect: 'none', run: () => 12 })];
  const limits = { turns: ROUNDS + 1, toolCalls: ROUNDS };
  const first = await createAgent({ name: 'a', host, store: runs, model, tools, limits }).start('go');
  await first.settled();
  const { seq = 0 } = (await runs.get(first.id)) ?? {};
  expect(seq).toBeGreaterThan(100);
  expect((await runs.loadSnapshot(first.id))?.seq).toBe(seq);

  const read: number[] = [];
  const store = {
    ...runs,
    read: async (...given: Parameters<Store['read']>) => {
      const page = await runs.read(...given);
      if (given[0] === first.id) read.push(...page.map(entry => entry.seq));
      return page;
    },
  };
  const { model: counted, requests } = counting();
  await (
    await createAgent({ name: 'a', host, store, model: counted }).start('more', { continues: first.id })
  ).settled();
  expect(requests.at(-1)?.transcript).toHaveLength(2 * ROUNDS + 3);
  expect(read).toEqual([]);
});
