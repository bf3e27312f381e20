import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Reconciliation } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';

const CALL = 'call_0_0';
const LEASE_MS = 10_000;

/**
 * A `once` tool: each attempt waits for its own gate, ignores the abort signal, and then acts.
 * `found` is the answer of its `reconcile`.
 */
function makePayments(found?: () => Reconciliation, options: { timeoutMs?: number } = {}) {
  const gates = [makeGate(), makeGate(), makeGate()];
  const paid: number[] = [];
  let attempts = 0;
  const tool = makeTool('pay', {
    ...options,
    ...(found === undefined ? {} : { reconcile: async () => found() }),
    run: async () => {
      const attempt = ++attempts;
      await gates[attempt - 1]?.promise;
      paid.push(attempt);
      return `paid by attempt ${attempt}`;
    },
  });
  return { tool, paid, act: (attempt: number) => gates[attempt - 1]?.open(), count: () => attempts };
}

let names = 0;

function setUp(found?: () => Reconciliation, options: { timeoutMs?: number } = {}) {
  names += 1;
  const payments = makePayments(found, options);
  const store = memory();
  const make = (name: string) => {
    const host = new ManualHost({ name: `${names}${name}_` });
    const model = scripted([calls('pay'), { text: 'done' }]);
    return { host, agent: createAgent({ name: 'a', host, store, model, tools: [payments.tool] }) };
  };
  return { ...payments, store, make };
}

/** Stops a driver in the middle of a call for longer than its lease, and has another process take the run over. */
async function replaceDriver(found?: () => Reconciliation, opened: number[] = []) {
  const setup = setUp(found);
  opened.forEach(setup.act);
  const [first, second] = [setup.make('first'), setup.make('second')];
  const zombie = await first.agent.start('go');
  await first.host.idle();
  second.host.jump(LEASE_MS + 1);
  const run = await second.agent.open(zombie.id);
  const settled = await second.host.settle(run.settled());
  const wake = async () => {
    first.host.jump(LEASE_MS + 1);
    setup.act(1);
    await first.host.idle();
  };
  return { ...setup, zombie, run, settled, wake, host: second.host };
}

describe('E3: an attempt that may still act', () => {
  test('blocks a new attempt when the tool only reports that the call has not happened yet', async () => {
    const { settled, wake, paid, run, store, host } = await replaceDriver(() => ({ happened: false }));
    expect(settled).toMatchObject({
      status: 'waiting',
      doubts: [{ callId: CALL, reason: expect.stringContaining('may yet: attempt 1') }],
    });
    await wake();
    expect(paid).toEqual([1]);
    expect((await host.settle(run.settled())).status).toBe('waiting');
    expect(await eventsOf(store, run.id)).toContainEqual(
      expect.objectContaining({ type: 'tool.late', attempt: 1, output: 'paid by attempt 1' }),
    );
  });

  test('allows a new attempt when the tool reports that the first one can no longer happen', async () => {
    const { settled, count } = await replaceDriver(() => ({ happened: false, final: true }), [2]);
    expect(settled).toMatchObject({ status: 'finished', results: [{ output: 'paid by attempt 2' }] });
    expect(count()).toBe(2);
  });

  test('blocks a retry by a person, and the refusal names it', async () => {
    const { run, wake, count, host } = await replaceDriver();
    expect(await run.resolve(CALL, { retry: true, by: 'ann' })).toEqual({
      accepted: false,
      code: 'attempt-alive',
      message: expect.stringContaining('attempt 1, which still runs in this process'),
    });
    expect(count()).toBe(1);
    await wake();
    expect(await run.resolve(CALL, { retry: true, by: 'ann' })).toMatchObject({ code: 'already-happened' });
    expect(await run.resolve(CALL, { retry: true, force: true, by: 'ann' })).toEqual({ accepted: true });
    await host.idle();
    expect(count()).toBe(2);
  });

  test('is overridden by force, which is journaled, and a second success is recorded as a contradiction', async () => {
    const { run, wake, act, paid, store, host } = await replaceDriver();
    expect(await run.resolve(CALL, { retry: true, force: true, by: 'ann' })).toEqual({ accepted: true });
    expect(await eventsOf(store, run.id)).toContainEqual(
      expect.objectContaining({
        type: 'doubt.resolved',
        resolution: { type: 'retry', force: true },
        by: 'ann',
      }),
    );
    act(2);
    expect((await host.settle(run.settled())).status).toBe('finished');
    await wake();
    expect(paid).toEqual([2, 1]);
    expect(await eventsOf(store, run.id)).toContainEqual(
      expect.objectContaining({
        type: 'tool.late',
        attempt: 1,
        contradicts: 'attempt 2 succeeded, so it has happened twice',
      }),
    );
  });

  test('contradicts the person who resolved the call as failed, in a tool.late event', async () => {
    const { run, wake, store, host } = await replaceDriver();
    await run.resolve(CALL, { failed: 'the bank says no', by: 'ann' });
    expect((await host.settle(run.settled())).status).toBe('finished');
    await wake();
    const late = (await eventsOf(store, run.id)).find(({ type }) => type === 'tool.late');
    expect(late).toMatchObject({ contradicts: 'ann said that it failed: the bank says no' });
  });

  test('names its process when another live process runs it', async () => {
    const { store, make, paid } = setUp(() => ({ happened: false }));
    const { host, agent } = make('only');
    const run = await agent.start('go');
    await host.idle();
    const [begun, , ...rest] = await eventsOf(store, run.id);
    const foreign = memory();
    if (begun?.type !== 'run.started') throw new Error('a run begins with run.started');
    const started = { ...begun, runId: 'run_elsewhere' };
    const claimed = {
      type: 'run.claimed',
      at: started.at,
      by: 'elsewhere:7@space/instance/1',
      epoch: 1,
    } as const;
    await foreign.create(started, undefined, { events: [claimed, ...rest], status: 'running' });
    const other = new ManualHost({ name: 'other_' });
    other.jump(LEASE_MS + 1);
    const model = scripted([calls('pay'), { text: 'done' }]);
    const tools = [makePayments(() => ({ happened: false })).tool];
    const opened = await createAgent({ name: 'a', host: other, store: foreign, model, tools }).open(
      started.runId,
    );
    expect(await other.settle(opened.settled())).toMatchObject({
      doubts: [{ reason: expect.stringContaining('attempt 1, started by process elsewhere:7') }],
    });
    expect(paid).toEqual([]);
  });
});

describe('a call that timed out', () => {
  const noAnswer = 'The tool did not answer within 50 ms.';

  test('stays in doubt while its once function runs, whatever the tool reports', async () => {
    const { make, act, paid, count } = setUp(() => ({ happened: false }), { timeoutMs: 50 });
    const { host, agent } = make('live');
    const run = await agent.start('go');
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'waiting',
      doubts: [
        {
          reason: `${noAnswer} It has not happened so far, but may yet: attempt 1 still runs in this process.`,
        },
      ],
    });
    expect(await run.resolve(CALL, { retry: true })).toMatchObject({ code: 'attempt-alive' });
    act(1);
    await host.idle();
    expect(paid).toEqual([1]);
    expect(await run.resolve(CALL, { retry: true })).toMatchObject({ code: 'already-happened' });
    expect(await run.resolve(CALL, { happened: true, output: 'paid' })).toEqual({ accepted: true });
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(count()).toBe(1);
  });

  test('gets its result when the function ends within the grace time', async () => {
    const { make, act } = setUp(() => ({ happened: false }), { timeoutMs: 50 });
    const { host, agent } = make('live');
    const run = await agent.start('go');
    await host.advance(500);
    act(1);
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'paid by attempt 1', isError: false }],
    });
  });

  test('fails when the tool reports that it can no longer happen', async () => {
    const { make, count } = setUp(() => ({ happened: false, final: true }), { timeoutMs: 50 });
    const { host, agent } = make('live');
    const run = await agent.start('go');
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: `${noAnswer} It did not happen.`, isError: true }],
    });
    expect(count()).toBe(1);
  });
});

describe('a run that another process drives', () => {
  test('is cancelled by that process, and its tools get their grace time', async () => {
    const { make, store, act } = setUp();
    const [first, second] = [make('first'), make('second')];
    const run = await first.agent.start('go');
    await first.host.idle();
    const other = await second.agent.open(run.id);
    expect(await other.cancel({ by: 'ann', reason: 'enough' })).toEqual({ accepted: true });
    expect(await other.cancel({ by: 'eve' })).toEqual({ accepted: true });
    expect((await eventsOf(store, run.id)).at(-1)).toMatchObject({ type: 'cancel.requested', by: 'ann' });
    await first.host.advance(1_000);
    act(1);
    expect(await first.host.settle(run.settled())).toMatchObject({ status: 'cancelled', unsettled: [] });
    expect(await second.host.settle(other.settled())).toMatchObject({ status: 'cancelled' });
    expect((await wordsOf(store, run.id)).slice(-3)).toEqual([
      'cancel.requested',
      `tool.settled ${CALL}`,
      'run.cancelled',
    ]);
    expect((await eventsOf(store, run.id)).at(-1)).toMatchObject({ by: 'ann', reason: 'enough' });
  });

  test('is ended by any process that opens it once its driver has missed the cancellation deadline', async () => {
    const { make, store } = setUp();
    const [first, second] = [make('first'), make('second')];
    const run = await first.agent.start('go');
    await first.host.idle();
    const other = await second.agent.open(run.id);
    await other.cancel({ by: 'ann' });
    expect(await second.host.settle(other.settled())).toMatchObject({
      status: 'cancelled',
      unsettled: [{ callId: CALL }],
    });
    expect(await wordsOf(store, run.id)).toEqual(
      expect.arrayContaining(['cancel.requested', 'run.cancelled']),
    );
  });

  test('executes nothing more when its process dies after the cancel request', async () => {
    const { make, store, count } = setUp(() => ({ happened: false, final: true }));
    const [first, second] = [make('first'), make('second')];
    const run = await first.agent.start('go');
    await first.host.idle();
    await (await second.agent.open(run.id)).cancel({ by: 'ann' });
    second.host.jump(LEASE_MS + 1);
    const third = await second.agent.open(run.id);
    expect(await second.host.settle(third.resume())).toMatchObject({ status: 'cancelled' });
    expect(count()).toBe(1);
    expect((await wordsOf(store, run.id)).filter(word => word.startsWith('tool.'))).toEqual([
      `tool.started ${CALL}`,
    ]);
  });
});
