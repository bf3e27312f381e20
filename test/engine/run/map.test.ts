import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { MapProgress } from '../../../agent/map-inputs.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';

function askedIn({ transcript }: ModelRequest): string {
  const [first] = transcript;
  if (first?.type !== 'message' || first.role !== 'user') throw new Error('expected a message of the user');
  return first.content.map(part => (part.type === 'text' ? part.text : '')).join('');
}

/** A model that answers with the input in capitals for 100 tokens, and notes what it was asked. */
function makeModel({ answer = async (_asked: string, _signal: AbortSignal) => {} } = {}) {
  const asked: string[] = [];
  let busy = 0;
  const seen = { asked, mostAtOnce: 0 };
  const script = (text: string) => scripted([{ text, usage: { inputTokens: 90, outputTokens: 10 } }]);
  const model: ModelAdapter = {
    ...script(''),
    async *stream(request, options) {
      const input = askedIn(request);
      asked.push(input);
      busy += 1;
      seen.mostAtOnce = Math.max(seen.mostAtOnce, busy);
      try {
        await answer(input, options.signal);
        yield* script(input.toUpperCase()).stream(request, options);
      } finally {
        busy -= 1;
      }
    },
  };
  return { model, seen };
}

function makeAgent(model: ModelAdapter, options: Partial<AgentOptions> = {}) {
  const prices = { [model.model]: { input: 1_000, output: 1_000 } };
  return createAgent({ name: 'upper', model, prices, retry: { attempts: 1 }, ...options });
}

const summaryOf = (result: object) =>
  'text' in result ? result.text : (result as { status: string }).status;

test('a map gives the results in the order of the inputs, runs as many at once as it may, and says how far it is', async () => {
  const { model, seen } = makeModel({
    answer: async input => {
      for (let turns = input === 'a' ? 50 : 1; turns > 0; turns -= 1)
        await new Promise(resolve => setImmediate(resolve));
    },
  });
  const told: MapProgress[] = [];
  const agent = makeAgent(model);
  const results = await agent.map(['a', 'b', 'c', 'd', 'e'], {
    concurrency: 2,
    onProgress: progress => void told.push(progress),
  });
  expect(results.map(summaryOf)).toEqual(['A', 'B', 'C', 'D', 'E']);
  expect(seen.mostAtOnce).toBe(2);
  expect(told.map(({ done, all }) => [done, all])).toEqual([1, 2, 3, 4, 5].map(done => [done, 5]));
  expect(told.map(({ cost }) => cost.toFixed(1))).toEqual(['0.1', '0.2', '0.3', '0.4', '0.5']);
  expect(await agent.map([])).toEqual([]);
});

test('a run that fails is a result beside the others', async () => {
  const { model } = makeModel({
    answer: async input => {
      if (input === 'b')
        throw new ProviderError('No.', { code: 'invalid-request', provider: 'p', model: 'm' });
    },
  });
  const results = await makeAgent(model).map(['a', 'b', 'c']);
  expect(results.map(summaryOf)).toEqual(['A', 'failed', 'C']);
});

test('the same map again starts nothing, another label or no label starts each input', async () => {
  const { model, seen } = makeModel();
  const agent = makeAgent(model);
  const labels = { job: '1' };
  const first = await agent.map(['a', 'b', 'a'], { labels });
  expect(seen.asked).toEqual(['a', 'b', 'a']);
  expect(await agent.map(['a', 'b', 'a'], { labels })).toEqual(first);
  expect(seen.asked).toHaveLength(3);
  await agent.map(['new', 'a', 'b', 'a'], { labels });
  expect(seen.asked.slice(3)).toEqual(['new']);
  await agent.map(['a'], { labels: { job: '2' } });
  await agent.map(['a']);
  await agent.map(['a']);
  expect(seen.asked.slice(4)).toEqual(['a', 'a', 'a']);
  const { runs } = await agent.store.list({ labels });
  expect(runs).toHaveLength(4);
});

test('a run context belongs to its run: the same input for another user is another run', async () => {
  const { model, seen } = makeModel();
  const agent = createAgent({ name: 'upper', model, runContext: z.object({ user: z.string() }) });
  const labels = { job: '1' };
  await agent.map(['a', 'b'], { labels, runContext: { user: 'ada' } });
  await agent.map(['a', 'b'], { labels, runContext: (_, place) => ({ user: place === 0 ? 'ada' : 'bob' }) });
  expect(seen.asked).toEqual(['a', 'b', 'b']);
});

test('once its budget is spent, a map begins no run; with a larger one the same map begins the rest', async () => {
  const { model, seen } = makeModel();
  const agent = makeAgent(model);
  const inputs = ['a', 'b', 'c', 'd', 'e'];
  const options = { labels: { job: '1' }, concurrency: 1 };
  const told: number[] = [];
  const results = await agent.map(inputs, {
    ...options,
    limits: { tokens: 250 },
    onProgress: ({ done }) => void told.push(done),
  });
  expect(results.map(summaryOf)).toEqual(['A', 'B', 'C', 'not-started', 'not-started']);
  expect(results[4]).toEqual({ status: 'not-started', limit: 'tokens', usage: null, turns: 0 });
  expect(told).toEqual([1, 2, 3, 4, 5]);
  expect((await agent.map(inputs, { ...options, limits: { cost: 0.3 } })).map(summaryOf)).toEqual(
    results.map(summaryOf),
  );
  const all = await agent.map(['e', ...inputs], { ...options, limits: { turns: 5 } });
  expect(all.map(summaryOf)).toEqual(['E', 'A', 'B', 'C', 'D', 'not-started']);
  expect(seen.asked).toEqual(['a', 'b', 'c', 'e', 'd']);
});

test('a budget holds for runs in progress too: none alone spends more', async () => {
  const model = scripted([
    { ...calls('look'), usage: { inputTokens: 90, outputTokens: 10 } },
    { ...calls('look'), usage: { inputTokens: 90, outputTokens: 10 } },
    { text: 'At last.', usage: { inputTokens: 90, outputTokens: 10 } },
  ]);
  const agent = createAgent({ name: 'looker', model, tools: [makeTool('look')], onLimit: 'stop' });
  const [result] = await agent.map(['a'], { limits: { turns: 2 } });
  expect(result).toMatchObject({ turns: 2 });
});

test('a map with a limit that cannot bind is refused, and so are other invalid options', async () => {
  const { model, seen } = makeModel();
  const agent = createAgent({ name: 'upper', model });
  const refused = async (options: object, message: RegExp) =>
    await expect(agent.map(['a'], options)).rejects.toThrow(message);
  await refused({ limits: { cost: 1 } }, /price/);
  await refused({ limits: { tokens: -1 } }, /limits\.tokens/);
  await refused({ limits: { toolCalls: 1 } }, /unknown option "toolCalls" of limits of agent\.map/);
  await refused({ concurrency: 0 }, /concurrency of agent\.map must be a positive integer, got 0/);
  await refused({ signal: {} }, /signal of agent\.map: expected an AbortSignal, got an object/);
  await refused({ onProgress: 'log' }, /onProgress of agent\.map must be a function, got a string/);
  await expect(agent.map('text' as never)).rejects.toMatchObject({
    code: 'input-invalid',
    message: 'agent.map: expected a list, got a string.',
  });
  expect(seen.asked).toEqual([]);
  expect((await agent.store.list()).runs).toEqual([]);
});

test('a run that waits is a result, and the same map continues it once it was decided', async () => {
  const model = scripted([calls('pay'), { text: 'Paid.' }]);
  const agent = createAgent({ name: 'payer', model, tools: [makeTool('pay', { approval: true })] });
  const options = { labels: { job: '1' } };
  const [waiting] = await agent.map(['a'], options);
  if (waiting?.status !== 'waiting') throw new Error(`expected a waiting run, got ${waiting?.status}`);
  const run = await agent.open(waiting.runId);
  for (const call of waiting.approvals) await run.approve(call);
  const [finished] = await agent.map(['a'], options);
  expect(finished).toMatchObject({ status: 'finished', text: 'Paid.', runId: waiting.runId });
});

test('a migrated run is known by its successor', async () => {
  const model = scripted([calls('pay'), { text: 'Paid.' }]);
  const store = memory();
  const tools = [makeTool('pay', { approval: true })];
  const options = { labels: { job: '1' } };
  const old = createAgent({ name: 'payer', version: '1', model, tools, store });
  const [waiting] = await old.map(['a'], options);
  if (waiting?.status !== 'waiting') throw new Error(`expected a waiting run, got ${waiting?.status}`);
  const migrations = [{ from: { agent: '1' }, to: { agent: '2' }, migrate: <All>(all: All) => all }];
  const agent = createAgent({ name: 'payer', version: '2', model, tools, store, migrations });
  const { id } = await agent.migrate(waiting.runId);
  expect(await agent.map(['a'], options)).toMatchObject([{ status: 'waiting', runId: id }]);
  expect((await store.list()).runs).toHaveLength(2);
});

test('two maps of the same inputs at once share the runs, and both have all results', async () => {
  const store = memory();
  const { model, seen } = makeModel({ answer: async () => await new Promise(done => setTimeout(done, 5)) });
  const inputs = Array.from({ length: 24 }, (_, place) => `document ${place}`);
  const options = { labels: { job: '1' }, concurrency: 3 };
  const results = await Promise.all([1, 2].map(() => makeAgent(model, { store }).map(inputs, options)));
  expect(seen.asked.toSorted()).toEqual(inputs.toSorted());
  expect(seen.mostAtOnce).toBe(6);
  for (const result of results)
    expect(result.map(summaryOf)).toEqual(inputs.map(input => input.toUpperCase()));
});

test('an aborted map cancels the runs in progress and begins no others', async () => {
  const controller = new AbortController();
  const begun = makeGate();
  const { model, seen } = makeModel({
    answer: async (input, signal) => {
      if (input === 'a') return;
      if (input === 'c') begun.open();
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
  });
  const agent = makeAgent(model);
  const options = { labels: { job: '1' }, concurrency: 2, signal: controller.signal };
  const mapped = agent.map(['a', 'b', 'c', 'd'], options);
  await begun.promise;
  controller.abort();
  expect((await mapped).map(summaryOf)).toEqual(['A', 'cancelled', 'cancelled', 'not-started']);
  expect((await agent.map(['a', 'x'], options)).map(summaryOf)).toEqual(['A', 'not-started']);
  expect(seen.asked).toEqual(['a', 'b', 'c']);
});

test('an error of the store ends the map once the runs in progress have settled', async () => {
  const gate = makeGate();
  const { model, seen } = makeModel({ answer: async () => await gate.promise });
  const inner = memory();
  let created = 0;
  const create: typeof inner.create = async (...given) => {
    created += 1;
    if (created === 2) {
      setTimeout(() => gate.open(), 20);
      throw new Error('The disk is gone.');
    }
    return await inner.create(...given);
  };
  const store = new Proxy(inner, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target);
      if (name === 'create') return create;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const agent = makeAgent(model, { store });
  await expect(agent.map(['a', 'b', 'c', 'd'], { concurrency: 2 })).rejects.toThrow('The disk is gone.');
  expect(seen.asked).toEqual(['a']);
  expect((await inner.list()).runs).toMatchObject([{ status: 'finished' }]);
});
