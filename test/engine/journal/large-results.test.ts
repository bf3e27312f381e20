import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { EngineError, InDoubt } from '../../../protocol/error.ts';
import { blobsOf } from '../../../protocol/event.ts';
import type { Finisher } from '../../../protocol/finisher.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { numberCitations } from '../../../text/citations.ts';
import { createAgent } from '../../../tools/agent/agent.ts';
import { ManualHost } from '../../../tools/testing/manual-host.ts';
import { calls, clientTool, eventsOf, makeGate, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { recordRequests } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const LIMIT = 1000;
const LARGE = { head: 'begins', rows: 'x'.repeat(5000), tail: 'ends' };
const NOTE = /\n\[\d+ of \d+ bytes were left out here\. Ask for less at a time\.\]\n/;

const large = (name = 'dump', output: JsonValue = LARGE) =>
  makeTool(name, { maxResultBytes: LIMIT, run: () => output });

type Parts = Partial<Parameters<typeof createAgent>[0]>;

function makeAgent(parts: Parts = {}) {
  const host = new ManualHost();
  const store = memory();
  const { model, requests } = recordRequests(scripted([calls('dump'), { text: 'done' }]));
  return {
    host,
    store,
    requests,
    agent: createAgent({ name: 'a', host, store, model, tools: [large()], ...parts }),
  };
}

async function runToEnd(parts: Parts = {}) {
  const made = makeAgent(parts);
  const run = await made.agent.start('go', { runId: 'r' });
  const settled = await made.host.settle(run.settled());
  return { ...made, run, settled };
}

async function namedIn(store: Store, runId: string) {
  return (await eventsOf(store, runId)).flatMap(blobsOf);
}

describe('a result that is too large', () => {
  test('is in the journal and for the model its head and its tail, and whole in the store', async () => {
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

  test('is measured in bytes of UTF-8, and one that just fits is in the journal', async () => {
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

  test('is one of more than 1 MiB where nobody says otherwise', async () => {
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

  test('is what the agent says it is, where the tool does not', async () => {
    const tools = [makeTool('dump', { run: () => LARGE })];
    expect(await namedIn((await runToEnd({ tools, maxResultBytes: LIMIT })).store, 'r')).toHaveLength(1);
  });

  test('an error of a tool can be one', async () => {
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

  test('says to the model, too, that a person changed the input', async () => {
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

  test('is stored once for each run where several calls give it', async () => {
    const { model } = recordRequests(scripted([calls('dump', 'dump', 'dump'), { text: 'done' }]));
    const { store } = await runToEnd({ model });
    expect(new Set((await namedIn(store, 'r')).map(({ digest }) => digest)).size).toBe(1);
  });

  test('is durable before the event that names it', async () => {
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

  test('that the store does not take leaves the call without a result, and the run resumable', async () => {
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

  test('of a call that is over by the time it came is kept as evidence, cut as well', async () => {
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

describe('what somebody says instead of a tool', () => {
  const said: JsonValue = { said: 'y'.repeat(5000) };

  test.each([
    ['the result of a client', clientTool('dump', { maxResultBytes: LIMIT })],
    ['the answer to a gated call', makeTool('dump', { approval: true, maxResultBytes: LIMIT })],
  ])('%s is bounded as a tool is', async (_, tool) => {
    const { host, store, run, requests } = await runToEnd({ tools: [tool] });
    expect(await run.answer('call_0_0', { output: said })).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(await namedIn(store, 'r')).toHaveLength(1);
    expect(resultsIn(requests[1]?.transcript ?? []).call_0_0).toMatch(NOTE);
    expect(await run.output('call_0_0')).toEqual(said);
  });

  test('a reason beyond all bounds is refused, and changes nothing', async () => {
    const { run } = await runToEnd({ tools: [makeTool('dump', { approval: true })] });
    expect(await run.reject('call_0_0', { reason: 'no '.repeat(50_000) })).toMatchObject({
      accepted: false,
      code: 'input-invalid',
      message: expect.stringContaining('at most 100000 bytes; got 150000'),
    });
    expect(await run.reject('call_0_0', { reason: 'no' })).toEqual({ accepted: true });
  });

  test('what happened to a call in doubt is bounded as well', async () => {
    const tool = makeTool('dump', {
      maxResultBytes: LIMIT,
      run: () => {
        throw new InDoubt('nobody knows');
      },
    });
    const { host, store, run } = await runToEnd({ tools: [tool] });
    await run.resolve('call_0_0', { happened: true, output: said });
    await host.settle(run.settled());
    expect(await namedIn(store, 'r')).toHaveLength(1);
    expect(await run.output('call_0_0')).toEqual(said);
  });

  test('the answer of a sub-agent is bounded, also one that comes from another process', async () => {
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
        ...{ name: 'parent', host, store, maxResultBytes: LIMIT },
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

describe('who needs the whole', () => {
  const sections = Array.from({ length: 200 }, (_, index) => ({ id: `s${index}` }));
  const cites = numberCitations({
    sources: ({ output }) => (Array.isArray(output) ? (output as { id: string }[]) : []),
  });

  test('a finisher reads one result after another', async () => {
    const seen: JsonValue[] = [];
    const finisher: Finisher = async ({ results, wholeOutput }) => {
      for (const result of results) seen.push(await wholeOutput(result));
      return undefined;
    };
    await runToEnd({ finishers: [finisher] });
    expect(seen).toEqual([LARGE]);
  });

  test('what stands in the middle of a large result can be cited, in the next run too', async () => {
    const answers = [calls('dump'), { text: 'So [doc:s100].' }, { text: 'Again [doc:s101].' }] as const;
    const { host, agent, settled } = await runToEnd({
      model: scripted([...answers]),
      tools: [large('dump', sections)],
      finishers: [cites],
    });
    expect(settled).toMatchObject({ text: 'So [1].\n\nSources:\n[1] s100' });
    const next = await agent.start('more', { continues: 'r' });
    expect(await host.settle(next.settled())).toMatchObject({ text: 'Again [1].\n\nSources:\n[1] s101' });
  });

  test('a restored run whose store lacks the whole names it, and goes on', async () => {
    const model = () => scripted([calls('dump'), calls('wait'), { text: 'So [doc:s100].' }]);
    const tools = [large('dump', sections), clientTool('wait')];
    const first = await runToEnd({ model: model(), tools, finishers: [cites] });
    const elsewhere = makeAgent({ model: model(), tools, finishers: [cites] });
    const restored = await elsewhere.agent.restore(first.run.snapshot());
    await expect(restored.output('call_0_0')).rejects.toMatchObject({ code: 'result-missing' });
    await restored.answer('call_1_0', { output: 'ok' });
    expect(await elsewhere.host.settle(restored.settled())).toMatchObject({
      status: 'finished',
      text: expect.stringContaining('Citations of unread sources were omitted: s100.'),
    });
  });

  test('a fork has the large results of its run', async () => {
    const { run, store } = await runToEnd();
    const fork = await run.fork({ at: (await store.read('r')).length });
    expect(await fork.output('call_0_0')).toEqual(LARGE);
  });

  test('a call without a result is named', async () => {
    const { run } = await runToEnd();
    await expect(run.output('nope')).rejects.toMatchObject({ code: 'call-unknown' });
  });
});

describe('replay', () => {
  test('proves a run with large results, without a word of them in its state', async () => {
    const { store } = await runToEnd();
    const verdict = await replayRun(store, 'r');
    expect(verdict).toMatchObject({ equal: true });
    expect(JSON.stringify(verdict.end).length).toBeLessThan(6000);
  });

  test.each([
    ['is gone', async () => undefined, 'that is not in the store'],
    [
      'is another one',
      async (length: number) => new TextEncoder().encode('"other"').slice(0, length),
      'its hash differs',
    ],
  ] as const)('names the entry whose result %s', async (_, readBlob, message) => {
    const { store } = await runToEnd();
    const entries = await store.read('r');
    const at = entries.find(({ event }) => blobsOf(event).length > 0)?.seq;
    const damaged: Store = {
      ...watchStore(store, {}),
      readBlob: async (_run, _digest, offset, length) => (offset > 0 ? new Uint8Array() : readBlob(length)),
    };
    expect(await replayRun(damaged, 'r')).toMatchObject({
      equal: false,
      problem: { seq: at, message: expect.stringContaining(message) },
    });
  });

  test('an export of the journal alone is as small as the journal', async () => {
    const { store } = await runToEnd();
    expect(JSON.stringify(await exportRun(store, 'r')).length).toBeLessThan(10_000);
  });
});

test('50 results of 2 MB are written once, and neither an entry nor a snapshot holds one', async () => {
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
