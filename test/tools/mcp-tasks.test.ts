import { afterEach, describe, expect, it } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { InDoubt } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Settled } from '../../protocol/run-view.ts';
import type { Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';
import { calls, resultsIn, wordsOf } from '../support/engine/agents.ts';
import { until } from '../support/server/runs-app.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';
import { AskingWorld, addAsking } from '../support/tools/asking-server.ts';
import { createKeepingContext, rejectionOf, runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk, start } from '../support/tools/http-desk.ts';

afterEach(closeDesks);

async function begin() {
  const world = new AskingWorld(makeTemporaryFolder('asking'));
  const add = (server: Parameters<typeof addAsking>[0]) => addAsking(server, world);
  const server = await start({ serves: 'current', add });
  return { world, server, add };
}

function makeAgent(url: string, store: Store, topic: string) {
  const model = scripted([calls(['research', { topic }]), { text: 'done' }]);
  return createAgent({ name: 'a', store, model, tools: [desk(url)] });
}

const GIVEN = { type: 'given' as const, value: { name: 'ann' } };

describe('a task of a server', () => {
  it('is kept before it is asked for, and asked for until it has its result, as often as the server says', async () => {
    const { world, server } = await begin();
    const { context, kept, waits, seen } = createKeepingContext();
    const order: string[] = [];
    const keeping = {
      ...context,
      keep: async (state: JsonValue) => {
        await context.keep(state);
        order.push(...server.listMethods().filter(says => says.startsWith('tasks/')), 'kept');
      },
    };
    const tools = await desk(server.url).connect();
    expect(await runTool(tools, 'research', { topic: 'bees' }, keeping)).toBe('bees: {}');
    expect(order).toEqual(['kept']);
    expect(kept).toEqual([{ type: 'task', taskId: expect.stringMatching(/^task-/), answered: [] }]);
    expect(waits).toEqual([100, 100, 100]);
    expect(seen).toEqual([
      { status: 'working', message: '1 of 3' },
      { status: 'working', message: '2 of 3' },
      { status: 'completed' },
    ]);
    expect(world.ledger).toEqual(['began bees']);
    const polls = server.seen.filter(({ says }) => says === 'tasks/get');
    for (const { headers } of polls) expect(headers.get('mcp-name')).toMatch(/^task-/);
  });

  it('is followed by another process and a restarted server, and begun once', async () => {
    const { world, server, add } = await begin();
    const first = createKeepingContext();
    const stopping = new AbortController();
    const stop = {
      ...first.context,
      signal: stopping.signal,
      wait: async () => stopping.abort(new Error('stopped')),
    };
    await rejectionOf(runTool(await desk(server.url).connect(), 'research', { topic: 'bees' }, stop));
    await server.close();
    const restarted = await start({ serves: 'current', add });
    const { context, waits } = createKeepingContext();
    const again = { ...context, kept: first.kept[0] ?? null };
    expect(await runTool(await desk(restarted.url).connect(), 'research', { topic: 'bees' }, again)).toBe(
      'bees: {}',
    );
    expect(waits).toEqual([100, 100]);
    expect(world.ledger).toEqual(['began bees']);
  });

  it('asks people while it works; each answer is sent once, and the rest of the task follows', async () => {
    const { world, server } = await begin();
    const store = memory();
    const run = await makeAgent(server.url, store, 'two people').start('go');
    const questions = async () => {
      const settled = await run.settled();
      return settled.status === 'waiting' ? settled.questions.flatMap(open => open.questions) : [];
    };
    expect(await questions()).toMatchObject([
      { key: 'task.who', message: 'The MCP server "desk" asks: who?' },
    ]);
    await run.answer('call_0_0', { answers: { 'task.who': { name: 'ann' } } });
    const [next] = await questions();
    expect(next?.key).toMatch(/^task\.who_else\./);
    await run.answer('call_0_0', { answers: { [next?.key ?? '']: { name: 'bob' } } });
    expect((await run.settled()).status).toBe('finished');
    const content = (name: string) => ({ action: 'accept', content: { name } });
    expect(resultsIn(run.context.transcript)).toEqual({
      call_0_0: `two people: ${JSON.stringify({ who: content('ann'), 'who else': content('bob') })}`,
    });
    expect(world.ledger).toEqual([
      'began two people',
      `update ${JSON.stringify({ who: content('ann') })}`,
      `update ${JSON.stringify({ 'who else': content('bob') })}`,
    ]);
    expect(await wordsOf(store, run.id)).toContain('tool.kept call_0_0');
  });

  it('is not answered by a fork of its run: there the call is in doubt, and a retry begins another', async () => {
    const { world, server } = await begin();
    const run = await makeAgent(server.url, memory(), 'two people').start('go');
    await run.settled();
    const before = world.ledger.length;
    const fork = await run.fork({ at: run.durable.seq });
    await fork.settled();
    expect(await fork.answer('call_0_0', { answers: { 'task.who': { name: 'eve' } } })).toEqual({
      accepted: true,
    });
    expect(await fork.settled()).toMatchObject({ doubts: [{ callId: 'call_0_0' }] });
    expect(world.ledger).toHaveLength(before);
    await fork.resolve('call_0_0', { retry: true, force: true });
    await fork.settled();
    expect(world.ledger.slice(before)[0]).toBe('began two people');
  });

  it('of a sub-agent asks at the top run', async () => {
    const { world, server } = await begin();
    const store = memory();
    const low = createAgent({
      name: 'low',
      description: 'low',
      store,
      model: scripted([calls(['research', { topic: 'who' }]), { text: 'low done' }]),
      tools: [desk(server.url)],
    });
    const top = createAgent({
      name: 'top',
      store,
      model: scripted([calls(['low', { input: 'x' }]), { text: 'done' }]),
      tools: [low.asTool({ name: 'low', description: 'low' })],
    });
    const run = await top.start('go');
    const [open] = await questionsOf(run);
    expect(open?.runId).not.toBe(run.id);
    await run.answer(open ?? '', { answers: { 'task.who': { name: 'ann' } } });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'done' });
    expect(world.ledger).toHaveLength(2);
  });

  it('that asks for a model is cancelled, and the call fails', async () => {
    const { world, server } = await begin();
    const { context } = createKeepingContext();
    const error = await rejectionOf(
      runTool(await desk(server.url).connect(), 'research', { topic: 'capital' }, context),
    );
    expect(String(error)).toBe(
      'Error: "research": the MCP server "desk" asks for sampling/createMessage, which this client does not have: it only has answers of people.',
    );
    expect(world.ledger).toEqual(['began capital', 'cancel']);
  });

  it.each([
    ['refused', 'failed: rate limit', false],
    ['withdrawn', 'cancelled its task', false],
    ['unfinished', 'without a result that can be read', true],
  ])('that ends as %s is an error', async (topic, message, isDoubt) => {
    const { server } = await begin();
    const { context } = createKeepingContext();
    const error = await rejectionOf(
      runTool(await desk(server.url).connect(), 'research', { topic }, context),
    );
    expect(String(error)).toContain(message);
    expect(error instanceof InDoubt).toBe(isDoubt);
  });

  it.each([
    ['research', true],
    ['research_again', false],
  ])('that the server has lost is in doubt if it must happen once (%s)', async (name, isDoubt) => {
    const { server } = await begin();
    const { context } = createKeepingContext();
    const kept = { type: 'task', taskId: 'task-gone', answered: [] };
    const tools = await desk(server.url, { trustHints: true }).connect();
    const error = await rejectionOf(runTool(tools, name, { topic: 'bees' }, { ...context, kept }));
    expect(String(error)).toContain('no longer knows the task that it began');
    expect(error instanceof InDoubt).toBe(isDoubt);
  });

  it('whose server is away is asked for again, for as long as it keeps the task and at most ten minutes', async () => {
    const { server, add } = await begin();
    const { context, waits } = createKeepingContext();
    const { port } = server;
    const tools = await desk(server.url).connect();
    let isAway = false;
    const wait = async (ms: number) => {
      waits.push(ms);
      if (waits.length === 1) {
        await server.close();
        isAway = true;
      }
      if (waits.length === 5 && isAway) await start({ serves: 'current', port, add });
    };
    expect(await runTool(tools, 'research', { topic: 'bees' }, { ...context, wait })).toBe('bees: {}');
    expect(waits).toEqual([100, 1000, 1000, 1000, 1000, 100, 100]);
    const gone = await start({ serves: 'current', add });
    const other = createKeepingContext();
    const leave = async (ms: number) => {
      other.waits.push(ms);
      await gone.close().catch(() => {});
    };
    const error = await rejectionOf(
      runTool(
        await desk(gone.url).connect(),
        'research',
        { topic: 'bees' },
        { ...other.context, wait: leave },
      ),
    );
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toMatch(/gave no answer about the task that it began for 60\d{4} ms/);
    expect(other.waits.reduce((sum, ms) => sum + ms, 0)).toBeLessThan(602_000);
  });

  it('is cancelled with its run, and left alone when the process ends', async () => {
    const { world, server } = await begin();
    const store = memory();
    const run = await makeAgent(server.url, store, 'forever').start('go');
    await until(async () => (server.listMethods().includes('tasks/get') ? true : undefined));
    await run.cancel();
    expect((await run.settled()).status).toBe('cancelled');
    expect(world.ledger).toEqual(['began forever', 'cancel']);

    const { context } = createKeepingContext();
    const stopping = new AbortController();
    const wait = async () => stopping.abort(new Error('This process ends.'));
    const tools = await desk(server.url).connect();
    await rejectionOf(
      runTool(tools, 'research', { topic: 'forever' }, { ...context, signal: stopping.signal, wait }),
    );
    expect(world.ledger.filter(line => line === 'cancel')).toHaveLength(1);
  });

  it('an answer that was sent before a crash is sent again, and kept then', async () => {
    const { world, server } = await begin();
    const first = createKeepingContext({ 'task.who': GIVEN });
    const dies = {
      ...first.context,
      keep: async (state: JsonValue) => {
        await first.context.keep(state);
        if (first.kept.length === 2) throw new Error('killed');
      },
    };
    const tools = await desk(server.url).connect();
    await rejectionOf(runTool(tools, 'research', { topic: 'who' }, dies));
    const { context, kept } = createKeepingContext({ 'task.who': GIVEN });
    const value = await runTool(
      tools,
      'research',
      { topic: 'who' },
      { ...context, kept: first.kept[0] ?? null },
    );
    expect(value).toBe('who: {"who":{"action":"accept","content":{"name":"ann"}}}');
    expect(kept).toMatchObject([{ answered: ['who'] }]);
    expect(world.ledger.filter(line => line.startsWith('update'))).toHaveLength(2);
  });
});

/** A server of one tool that begins the task `t`, whose state is given for each time that it is asked for. */
async function telling(begun: object, ...states: object[]) {
  let polls = 0;
  const told: string[] = [];
  const server = await start({
    serves: 'current',
    instead: async (request, says) => {
      if (says !== 'tools/call' && !says.startsWith('tasks/')) return undefined;
      const { id } = (await request.clone().json()) as { id: number };
      told.push(says);
      if (says === 'tasks/cancel') return Response.json({ jsonrpc: '2.0', id, result: {} });
      if (says === 'tasks/update') {
        const error = { code: -32602, message: 'not these' };
        const isTaken = states.some(state => 'result' in state);
        return Response.json({ jsonrpc: '2.0', id, ...(isTaken ? { result: {} } : { error }) });
      }
      const state = says === 'tools/call' ? begun : (states[polls++] ?? states.at(-1));
      const resultType = says === 'tools/call' ? 'task' : 'complete';
      return Response.json({ jsonrpc: '2.0', id, result: { taskId: 't', resultType, ...state } });
    },
  });
  return Object.assign([...(await desk(server.url).connect())], { told });
}

async function questionsOf(run: { settled(): Promise<Settled> }) {
  const settled = await run.settled();
  if (settled.status !== 'waiting') throw new Error(`the run is ${settled.status}`);
  return settled.questions;
}

describe('a server that lies about a task', () => {
  const done = { status: 'completed', result: { content: [{ type: 'text', text: 'done' }] } };

  it('is asked for it at most ten times a second, and at least every five minutes', async () => {
    const tools = await telling(
      { status: 'working', pollIntervalMs: 0 },
      { status: 'working', pollIntervalMs: -5 },
      { status: 'working', pollIntervalMs: 1e12 },
      { status: 'working' },
      done,
    );
    const { context, waits } = createKeepingContext();
    expect(await runTool(tools, 'echo', {}, context)).toBe('done');
    expect(waits).toEqual([100, 100, 300_000, 1_000]);
  });

  const asking = (message: string) => ({
    status: 'input_required',
    pollIntervalMs: 100,
    inputRequests: {
      a: { method: 'elicitation/create', params: { message, requestedSchema: { type: 'object' } } },
    },
  });

  it('and asks something else under a key that it used has people answer that too', async () => {
    const tools = await telling(asking('A?'), asking('A?'), asking('B?'), asking('B?'), done);
    const model = scripted([calls('echo'), { text: 'done' }]);
    const run = await createAgent({ name: 'a', model, tools }).start('go');
    for (const question of ['A?', 'B?']) {
      expect(await questionsOf(run)).toMatchObject([{ reason: `The MCP server "desk" asks: ${question}` }]);
      expect(tools.told).not.toContain('tasks/update');
      await run.answer('call_0_0', { answers: { 'task.a': {} } });
    }
    expect((await run.settled()).status).toBe('finished');
    expect(tools.told).toEqual([
      'tools/call',
      'tasks/get',
      'tasks/get',
      'tasks/get',
      'tasks/update',
      'tasks/get',
    ]);
  });

  it('and refuses the answers that it asks for is given up, and told so', async () => {
    const tools = await telling(asking('A?'), asking('A?'));
    const { context, kept } = createKeepingContext({ 'task.a': { type: 'given', value: {} } });
    const error = await rejectionOf(runTool(tools, 'echo', {}, context));
    expect(String(error)).toBe(
      'Error: "echo": the MCP server "desk" does not take the answers it asked for (not these).',
    );
    expect(tools.told.filter(says => says === 'tasks/update')).toHaveLength(5);
    expect(tools.told.at(-1)).toBe('tasks/cancel');
    expect(kept).toHaveLength(1);
  });

  it('and does not wait for its answer has its result taken', async () => {
    const tools = await telling(asking('A?'), asking('A?'), done);
    const model = scripted([calls('echo'), { text: 'done' }]);
    const run = await createAgent({ name: 'a', model, tools }).start('go');
    await questionsOf(run);
    await run.answer('call_0_0', { answers: { 'task.a': {} } });
    expect((await run.settled()).status).toBe('finished');
    expect(tools.told).not.toContain('tasks/update');
  });

  it.each([
    ['no id', { taskId: '', status: 'working' }],
    ['a long id', { taskId: 'a'.repeat(1_001), status: 'working' }],
    ['an unknown state', { status: 'sleeping' }],
  ])('with %s leaves the call in doubt', async (_what, begun) => {
    const { context, kept } = createKeepingContext();
    const error = await rejectionOf(runTool(await telling(begun), 'echo', {}, context));
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toContain('began a task that cannot be read');
    expect(kept).toEqual([]);
  });

  it('with states that cannot be read is given up in the end', async () => {
    const tools = await telling({ status: 'working', pollIntervalMs: 300_000 }, { status: 'sleeping' });
    const { context } = createKeepingContext();
    const error = await rejectionOf(runTool(tools, 'echo', {}, context));
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toContain('gave no answer');
  });

  it('about its result is answered as any server: its words are cut, and what is no result is in doubt', async () => {
    const { context, seen } = createKeepingContext();
    const tools = await telling(
      { status: 'working' },
      { status: 'working', statusMessage: 'a'.repeat(9_000) },
      { status: 'completed', result: { resultType: 'input_required', content: [] } },
    );
    const error = await rejectionOf(runTool(tools, 'echo', {}, context));
    expect(String(error)).toContain('asks for input');
    expect(JSON.stringify(seen).length).toBeLessThan(700);
  });
});
