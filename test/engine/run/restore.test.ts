import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTracedTool, wordsOf } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

const host = new ManualHost();

function makeAgent(store: Store, keys: string[] = []) {
  return createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('act', 'act'), { text: 'done' }]),
    tools: [makeTracedTool('act', keys, { approval: true })],
  });
}

/** A snapshot after a transfer as JSON. */
function send(snapshot: JsonValue): JsonValue {
  return JSON.parse(JSON.stringify(snapshot));
}

describe('a run restored from the JSON of its snapshot', () => {
  test('continues in an empty store, and the same decisions lead to the same outcome', async () => {
    const here = await makeAgent(memory()).start('go');
    const before = await here.settled();
    const [store, keys] = [memory(), [] as string[]];
    const there = await makeAgent(store, keys).restore(send(here.snapshot()));
    expect(there.id).toBe(here.id);
    expect(await there.settled()).toEqual(before);
    expect(await there.approve('call_0_0', { by: 'ann' })).toEqual({ accepted: true });
    expect(await there.approve('call_0_0', { by: 'bob' })).toMatchObject({
      code: 'already-decided',
      by: 'ann',
    });
    expect(await there.reject('call_0_1')).toEqual({ accepted: true });
    expect(await host.settle(there.settled())).toMatchObject({ status: 'finished', text: 'done' });
    expect(keys).toEqual([`${here.id}:1:call_0_0`]);
    const reopened = await makeAgent(store).open(here.id);
    expect(await reopened.settled()).toEqual(await there.settled());
    expect((await store.get(here.id))?.status).toBe('finished');
  });

  test('is refused when the store has a later state, and opened when it has the same state', async () => {
    const store = memory();
    const agent = makeAgent(store);
    const run = await agent.start('go');
    await run.settled();
    const snapshot = send(run.snapshot());
    expect((await agent.restore(snapshot)).id).toBe(run.id);
    await run.reject('call_0_0');
    await expect(agent.restore(snapshot)).rejects.toMatchObject({
      code: 'snapshot-outdated',
      message: expect.stringContaining(`agent.open('${run.id}')`),
    });
  });

  test('is refused as run-exists when the store has an earlier state', async () => {
    const old = memory();
    const run = await makeAgent(memory()).start('go', { runId: 'run_same' });
    await run.settled();
    const early = send(run.snapshot());
    await makeAgent(old).restore(early);
    await run.reject('call_0_0');
    await expect(makeAgent(old).restore(send(run.snapshot()))).rejects.toMatchObject({ code: 'run-exists' });
  });

  test('includes the transcript that it continues', async () => {
    const store = memory();
    const first = createAgent({
      name: 'a',
      host,
      store,
      model: answerWith(() => ({ text: 'first answer' })),
    });
    const begun = await first.start('first question');
    await begun.settled();
    const { model, requests } = recordRequests(
      answerWith(({ transcript }) =>
        transcript.at(-1)?.type === 'tool_result'
          ? { text: 'done' }
          : { toolCalls: [{ callId: 'call_a', name: 'act' }] },
      ),
    );
    const tools = [makeTracedTool('act', [], { approval: true })];
    const agent = createAgent({ name: 'a', host, store, model, tools });
    const run = await agent.start('go', { continues: begun.id });
    await run.settled();
    const opened = await agent.open(run.id);
    expect(opened.snapshot()).toEqual(run.snapshot());

    const there = await createAgent({ ...agent.options, store: memory() }).restore(send(run.snapshot()));
    await there.reject('call_a');
    await host.settle(there.settled());
    expect(requests.at(-1)?.transcript.slice(0, 3).map(textOf)).toEqual([
      'first question',
      'first answer',
      'go',
    ]);
  });

  test('has its outcome when the run had ended', async () => {
    const run = await createAgent({ name: 'a', host, model: scripted([{ text: 'done' }]) }).start('go');
    const settled = await run.settled();
    const there = await makeAgent(memory()).restore(send(run.snapshot()));
    expect(await there.settled()).toEqual(settled);
    expect(await there.send('more')).toMatchObject({ code: 'run-ended' });
  });

  test('continues from the durable state when the run was being driven', async () => {
    const store = memory();
    let call: JsonValue = null;
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('read'), { text: 'done' }]),
      tools: [
        makeTracedTool('read', [], {
          sideEffect: 'idempotent',
          run: () => {
            call = send(run.snapshot());
            return 'ok';
          },
        }),
      ],
    });
    const run = await agent.start('go');
    await run.settled();
    const there = createAgent({ ...agent.options, store: memory() });
    const restored = await there.restore(call);
    expect(await host.settle(restored.settled())).toMatchObject({ status: 'finished', text: 'done' });
    expect(await wordsOf(there.store, run.id)).toContain('tool.interrupted call_0_0');
  });

  test.each([null, {}, 'x', { runId: 'r', seq: 1 }, { runId: 'r', seq: 'x', image: {} }])(
    'is refused when it is not a snapshot: %j',
    async snapshot => {
      await expect(makeAgent(memory()).restore(snapshot as JsonValue)).rejects.toMatchObject({
        code: 'input-invalid',
      });
    },
  );

  test('is refused when it is from another version of the chart', async () => {
    const run = await makeAgent(memory()).start('go');
    await run.settled();
    const text = JSON.stringify(run.snapshot()).replace(/"hash":"[^"]*"/, '"hash":"other"');
    await expect(makeAgent(memory()).restore(JSON.parse(text))).rejects.toMatchObject({
      code: 'chart-mismatch',
    });
  });
});
