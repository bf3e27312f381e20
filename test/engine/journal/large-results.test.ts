import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { EngineError, InDoubt } from '../../../protocol/error.ts';
import { blobsOf } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, eventsOf, makeGate, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { LARGE, LIMIT, makeAgent, runToEnd } from '../../support/engine/large-results.ts';
import { recordRequests } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const NOTE = /\n\[\d+ of \d+ bytes were left out here\. Ask for less at a time\.\]\n/;

async function namedIn(store: Store, runId: string) {
  return (await eventsOf(store, runId)).flatMap(blobsOf);
}

describe('a result that exceeds maxResultBytes', () => {
  test('is truncated in the journal and for the model, and stored in full as a blob', async () => {
    const { store, run, requests, settled } = await runToEnd();
    const event = (await eventsOf(store, 'r')).find(({ type }) => type === 'tool.settled');
    expect(event).toMatchObject({ isError: false, blob: { bytes: JSON.stringify(LARGE).length } });
    expect(JSON.stringify(event).length).toBeLessThan(LIMIT + 500);
    const read = resultsIn(requests[1]?.transcript ?? []).call_0_0;
    expect(read).toMatch(NOTE);
    expect(read).toMatch(/^\{"head":"begins".*ends"\}$/s);
    expect(settled).toMatchObject({ results: [{ output: read, blob: { bytes: expect.any(Number) } }] });
    expect(await run.output('call_0_0')).toEqual(LARGE);
  });

  test('is measured in bytes of UTF-8, and a result of exactly the limit stays in the journal', async () => {
    const fits = JSON.stringify('漢'.repeat(100));
    const bytes = Buffer.byteLength(fits);
    for (const [maxResultBytes, count] of [
      [bytes, 0],
      [bytes - 1, 1],
    ] as const) {
      const tool = makeTool('dump', { maxResultBytes, run: () => '漢'.repeat(100) });
      const { store } = await runToEnd({ tools: [tool] });
      expect(await namedIn(store, 'r')).toHaveLength(count);
    }
  });

  test('exceeds 1 MiB by default', async () => {
    for (const [length, count] of [
      [1024 * 1024 - 2, 0],
      [1024 * 1024 - 1, 1],
    ] as const) {
      const { store, requests } = await runToEnd({
        tools: [makeTool('dump', { run: () => 'x'.repeat(length) })],
      });
      expect(await namedIn(store, 'r')).toHaveLength(count);
      const read = String(resultsIn(requests[1]?.transcript ?? []).call_0_0);
      expect(read.length).toBeGreaterThan(99_900);
      expect(read.length).toBeLessThanOrEqual(100_000);
    }
  });

  test('is bounded by the agent when the tool has no limit', async () => {
    const tools = [makeTool('dump', { run: () => LARGE })];
    expect(await namedIn((await runToEnd({ tools, maxResultBytes: LIMIT })).store, 'r')).toHaveLength(1);
  });

  test('may be the error of a tool', async () => {
    const tool = makeTool('dump', {
      maxResultBytes: LIMIT,
      run: () => {
        throw new Error('broken '.repeat(1000));
      },
    });
    const { store, run } = await runToEnd({ tools: [tool] });
    const event = (await eventsOf(store, 'r')).find(({ type }) => type === 'tool.settled');
    expect(event).toMatchObject({ isError: true, output: expect.stringMatching(NOTE) });
    expect(await run.output('call_0_0')).toBe('broken '.repeat(1000));
  });

  test('keeps the note to the model that a person edited the input', async () => {
    const host = new ManualHost();
    const { model, requests } = recordRequests(scripted([calls('dump'), { text: 'done' }]));
    const tool = makeTool('dump', { maxResultBytes: LIMIT, approval: true, run: () => LARGE });
    const run = await createAgent({ name: 'a', host, model, tools: [tool] }).start('go');
    await host.settle(run.settled());
    await run.approve('call_0_0', { input: { n: 1 } });
    await host.settle(run.settled());
    expect(resultsIn(requests[1]?.transcript ?? []).call_0_0).toMatch(
      /^\[A person changed the input to \{"n":1\}\.\]\n\{"head"/,
    );
  });

  test('is stored once per run when several calls return it', async () => {
    const { model } = recordRequests(scripted([calls('dump', 'dump', 'dump'), { text: 'done' }]));
    const { store } = await runToEnd({ model });
    expect(new Set((await namedIn(store, 'r')).map(({ digest }) => digest)).size).toBe(1);
  });

  test('is stored before the event that names it is appended', async () => {
    const order: string[] = [];
    const store = watchStore(memory(), {
      beforeAppend: (_, events) => {
        if (events.some(event => blobsOf(event).length > 0)) order.push('event');
      },
      beforeBlob: async () => {
        await Promise.resolve();
        order.push('blob');
      },
    });
    await runToEnd({ store });
    expect(order).toEqual(['blob', 'event']);
  });

  test('leaves the call without a result and the run resumable when the store fails', async () => {
    let broken = true;
    const store = watchStore(memory(), {
      beforeBlob: () => {
        if (broken) throw new EngineError('store-unavailable', 'The disk is full.');
      },
    });
    const tool = makeTool('dump', { sideEffect: 'idempotent', maxResultBytes: LIMIT, run: () => LARGE });
    const { host, agent } = makeAgent({ store, tools: [tool] });
    const run = await agent.start('go', { runId: 'r' });
    await expect(host.settle(run.settled())).rejects.toMatchObject({ code: 'store-unavailable' });
    expect(await namedIn(store, 'r')).toEqual([]);
    broken = false;
    expect(await host.settle((await agent.open('r')).settled())).toMatchObject({ status: 'finished' });
    expect(await namedIn(store, 'r')).toHaveLength(1);
  });

  test('of a call that already ended is kept as late evidence, truncated', async () => {
    const gate = makeGate<JsonValue>();
    const tool = makeTool('dump', { maxResultBytes: LIMIT, run: () => gate.promise });
    const { host, store, agent } = makeAgent({ tools: [tool] });
    const run = await agent.start('go', { runId: 'r' });
    await host.idle();
    const cancelled = run.cancel();
    await host.advance(6000);
    await host.settle(cancelled);
    gate.open(LARGE);
    await host.idle();
    const late = (await eventsOf(store, 'r')).find(({ type }) => type === 'tool.late');
    expect(late).toMatchObject({ output: expect.stringMatching(NOTE), blob: { bytes: expect.any(Number) } });
  });
});

describe('input in place of a tool result', () => {
  const output: JsonValue = { said: 'y'.repeat(5000) };

  test.each([
    ['the result of a client', clientTool('dump', { maxResultBytes: LIMIT })],
    ['the answer to a gated call', makeTool('dump', { approval: true, maxResultBytes: LIMIT })],
  ])('%s is bounded as a tool is', async (_, tool) => {
    const { host, store, run, requests } = await runToEnd({ tools: [tool] });
    expect(await run.answer('call_0_0', { output })).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(await namedIn(store, 'r')).toHaveLength(1);
    expect(resultsIn(requests[1]?.transcript ?? []).call_0_0).toMatch(NOTE);
    expect(await run.output('call_0_0')).toEqual(output);
  });

  test('a reason over the limit is refused, and changes nothing', async () => {
    const { run } = await runToEnd({ tools: [makeTool('dump', { approval: true })] });
    expect(await run.reject('call_0_0', { reason: 'no '.repeat(50_000) })).toMatchObject({
      accepted: false,
      code: 'input-invalid',
      message: expect.stringContaining('at most 100000 bytes; got 150000'),
    });
    expect(await run.reject('call_0_0', { reason: 'no' })).toEqual({ accepted: true });
  });

  test('the resolution of a call in doubt is bounded', async () => {
    const tool = makeTool('dump', {
      maxResultBytes: LIMIT,
      run: () => {
        throw new InDoubt('nobody knows');
      },
    });
    const { host, store, run } = await runToEnd({ tools: [tool] });
    await run.resolve('call_0_0', { happened: true, output });
    await host.settle(run.settled());
    expect(await namedIn(store, 'r')).toHaveLength(1);
    expect(await run.output('call_0_0')).toEqual(output);
  });

  test('the answer of a sub-agent is bounded, also when it arrives after the parent has rested', async () => {
    const host = new ManualHost();
    const store = memory();
    const text = 'long '.repeat(1000);
    const child = (approval: boolean) =>
      createAgent({
        name: 'child',
        model: scripted([calls('act'), { text }]),
        tools: [makeTool('act', { approval })],
      });
    const ask = (approval: boolean) => child(approval).asTool({ name: 'ask', description: 'asks' });
    const parent = (approval: boolean) =>
      createAgent({
        name: 'parent',
        host,
        store,
        maxResultBytes: LIMIT,
        model: scripted([calls(['ask', { input: 'how?' }]), { text: 'done' }]),
        tools: [ask(approval)],
      });
    const direct = await parent(false).start('go', { runId: 'direct' });
    await host.settle(direct.settled());
    expect(await direct.output('call_0_0')).toBe(text);
    const waiting = await parent(true).start('go', { runId: 'waiting' });
    const settled = await host.settle(waiting.settled());
    if (settled.status !== 'waiting') throw new Error(settled.status);
    await waiting.approve(settled.approvals[0]?.callId ?? '');
    await host.settle(waiting.settled());
    expect(await waiting.output('call_0_0')).toBe(text);
    for (const id of ['direct', 'waiting']) expect(await namedIn(store, id)).toHaveLength(1);
  });
});

test('50 results of 2 MB are each written once, and no entry or snapshot contains one', async () => {
  const [count, size] = [50, 2_000_000];
  let [largestEntry, largestSnapshot, blobs, blobBytes] = [0, 0, 0, 0];
  const forgetful: Store = { ...watchStore(memory(), {}), putBlob: async () => {} };
  const store = watchStore(forgetful, {
    beforeAppend: (_, events) => {
      for (const event of events) largestEntry = Math.max(largestEntry, JSON.stringify(event).length);
    },
    onSnapshot: bytes => {
      largestSnapshot = Math.max(largestSnapshot, bytes);
    },
    beforeBlob: text => {
      blobs += 1;
      blobBytes += text.length;
    },
  });
  let made = 0;
  const tool = makeTool('dump', {
    run: () => {
      made += 1;
      return `${made} `.repeat(size / `${made} `.length);
    },
  });
  const names = Array.from({ length: count }, () => 'dump');
  const { settled } = await runToEnd({
    store,
    tools: [tool],
    model: scripted([calls(...names), { text: 'done' }]),
  });
  expect(settled.status === 'finished' && settled.results).toHaveLength(count);
  expect(blobs).toBe(count);
  expect(blobBytes).toBeGreaterThan(count * size * 0.99);
  expect(blobBytes).toBeLessThan(count * size * 1.01);
  expect(largestEntry).toBeLessThan(110_000);
  expect(largestSnapshot).toBeLessThan(count * 110_000);
});
