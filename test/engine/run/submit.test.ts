import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, clientTool, eventsOf, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { assertWaiting, childOf, makeFamily, PAYING, settleWith } from '../../support/engine/family.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const A = 'call_0_0';
const B = 'call_0_1';
const approveBoth: RunCommand[] = [
  { type: 'approve', callId: A, by: 'ann' },
  { type: 'approve', callId: B, by: 'ann' },
];

type Parts = { tools?: Tool[]; store?: Store };

/** A run that waits for two approvals, and the appends to its journal from then on. */
async function makeWaiting({ tools = [makeTool('pay', { approval: true })], store = memory() }: Parts = {}) {
  const host = new ManualHost();
  const appends: RunEvent['type'][][] = [];
  const watched = watchStore(store, {
    afterAppend: (_, events) => void appends.push(events.map(({ type }) => type)),
  });
  const agent = createAgent({
    name: 'a',
    host,
    store: watched,
    tools,
    model: scripted([calls(...tools.flatMap(({ name }) => [name, name]).slice(0, 2)), { text: 'done' }]),
  });
  const { run } = await settleWith(agent, host);
  appends.length = 0;
  return { agent, host, store, appends, run };
}

async function wordsBehind(store: Store, run: Run, work: () => Promise<unknown>): Promise<string[]> {
  const before = (await wordsOf(store, run.id)).length;
  await work();
  return (await wordsOf(store, run.id)).slice(before);
}

describe('commands that are submitted together', () => {
  test('become one append, in order', async () => {
    const { run, appends, host } = await makeWaiting();
    expect(await run.submit(approveBoth)).toEqual({ accepted: true });
    expect(appends[0]).toEqual(['approval.decided', 'approval.decided']);
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'done' });
  });

  test('are all refused when one is refused, with its index and reason', async () => {
    const { run, store } = await makeWaiting();
    let result: unknown;
    const words = await wordsBehind(store, run, async () => {
      result = await run.submit([...approveBoth, { type: 'reject', callId: 'call_9' }]);
    });
    expect(result).toMatchObject({ accepted: false, index: 2, code: 'call-unknown' });
    expect(words).toEqual([]);
    expect(await run.submit([approveBoth[0] as RunCommand, approveBoth[0] as RunCommand])).toMatchObject({
      index: 1,
      code: 'already-decided',
      by: 'ann',
    });
    expect(await run.submit([{ type: 'unpause' }, ...approveBoth])).toMatchObject({
      index: 0,
      code: 'refused',
    });
  });

  test('run in one batch between a pause and an unpause, and the pause is never durable on its own', async () => {
    let running = 0;
    let most = 0;
    const pay = makeTool('pay', {
      approval: true,
      run: async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise(setImmediate);
        running -= 1;
        return 'paid';
      },
    });
    const { run, appends, host } = await makeWaiting({ tools: [pay] });
    await run.submit([{ type: 'pause' }, ...approveBoth, { type: 'unpause' }]);
    expect(appends[0]).toEqual(['pause.requested', 'approval.decided', 'approval.decided', 'run.unpaused']);
    await host.settle(run.settled());
    expect(most).toBe(2);
  });

  test.each<[string, (run: Run, given: never) => Promise<unknown>, unknown]>([
    ['run.submit', (run, given) => run.submit(given), 'a list'],
    ['run.setBreakpoints', (run, given) => run.setBreakpoints(given), 'a list'],
    ['run.editTranscript', (run, given) => run.editTranscript(given), 'a list'],
    ['calls of run.editTurn', (run, calls) => run.editTurn({ calls }), 'a list'],
    ['commands of run.fork', (run, commands) => run.fork({ at: 1, commands }), 'a list'],
    ['run.submit', (run, given) => run.submit([given]), 'a command'],
    ['commands of run.fork', (run, given) => run.fork({ at: 1, commands: [given] }), 'a command'],
  ])('of %s with what is none are refused, and change nothing', async (_, act, expected) => {
    const { run, store } = await makeWaiting();
    const words = await wordsBehind(store, run, async () => {
      for (const given of [null, 5])
        await expect(act(run, given as never)).rejects.toMatchObject({
          code: 'input-invalid',
          message: expect.stringContaining(`expected ${expected}`),
        });
    });
    expect(words).toEqual([]);
    expect((await store.list()).runs).toHaveLength(1);
  });

  test('of an edited transcript or a message with an item that is none are refused', async () => {
    const { run } = await makeWaiting();
    const items: never = [null] as never;
    for (const result of [await run.editTranscript(items), await run.send(items)])
      expect(result).toMatchObject({ accepted: false, code: 'input-invalid' });
  });

  test('cannot lift an earlier pause', async () => {
    const { run, host } = await makeWaiting();
    await run.pause({ by: 'operator' });
    expect(await run.submit([{ type: 'pause' }, ...approveBoth, { type: 'unpause' }])).toMatchObject({
      index: 0,
      code: 'refused',
    });
    expect(await run.submit(approveBoth)).toEqual({ accepted: true });
    const settled = await host.settle(run.settled());
    assertWaiting(settled);
    expect(settled).toMatchObject({ paused: true, approvals: [] });
  });

  test('are validated before any is appended: an invalid edited input, and an output that JSON cannot represent', async () => {
    const pay = tool({
      name: 'pay',
      description: 'Pays.',
      input: z.object({ cents: z.number().optional() }),
      approval: true,
      run: () => 'paid',
    });
    const { run, store } = await makeWaiting({ tools: [pay] });
    const words = await wordsBehind(store, run, async () => {
      expect(
        await run.submit([
          approveBoth[0] as RunCommand,
          { type: 'approve', callId: B, input: { cents: 'many' } },
        ]),
      ).toMatchObject({ index: 1, code: 'input-invalid' });
      expect(
        await run.submit([approveBoth[0] as RunCommand, { type: 'answer', callId: B, output: 1n }]),
      ).toMatchObject({ index: 1, code: 'input-invalid' });
      expect(await run.submit([approveBoth[0] as RunCommand, { type: 'send', message: [] }])).toMatchObject({
        index: 1,
        code: 'input-invalid',
      });
    });
    expect(words).toEqual([]);
  });

  test('are re-checked after an append of another process, and refused if one is no longer valid', async () => {
    const { agent, run, store } = await makeWaiting();
    const host = new ManualHost();
    let intrude: (() => Promise<unknown>) | undefined = async () =>
      await (await agent.open(run.id)).pause({ by: 'eve' });
    const racing = watchStore(store, {
      async beforeAppend() {
        const now = intrude;
        intrude = undefined;
        await now?.();
      },
    });
    const other = await createAgent({ ...agent.options, host, store: racing }).open(run.id);
    expect(await other.submit(approveBoth)).toEqual({ accepted: true });
    expect((await wordsOf(store, run.id)).slice(-3)).toEqual([
      'pause.requested',
      `approval.decided ${A}`,
      `approval.decided ${B}`,
    ]);
    const again = await makeWaiting();
    intrude = async () => await (await again.agent.open(again.run.id)).reject(B, { by: 'eve' });
    const second = watchStore(again.store, {
      async beforeAppend() {
        const now = intrude;
        intrude = undefined;
        await now?.();
      },
    });
    const late = await createAgent({ ...again.agent.options, host, store: second }).open(again.run.id);
    expect(await late.submit(approveBoth)).toMatchObject({ index: 1, code: 'already-decided', by: 'eve' });
    expect(await wordsOf(again.store, again.run.id)).not.toContain(`approval.decided ${A}`);
  });

  test('apply to a run that is being driven, all or none', async () => {
    const gate = makeGate();
    const host = new ManualHost();
    const store = memory();
    const appends: RunEvent['type'][][] = [];
    const agent = createAgent({
      name: 'a',
      host,
      store: watchStore(store, {
        afterAppend: (_, events) => void appends.push(events.map(({ type }) => type)),
      }),
      tools: [
        makeTool('look', { sideEffect: 'none', run: () => gate.promise }),
        makeTool('pay', { approval: true }),
        clientTool('show'),
      ],
      model: scripted([calls('look', 'pay', 'show'), { text: 'done' }]),
    });
    const run = await agent.start('go');
    while (!(await wordsOf(store, run.id)).includes(`tool.started ${A}`)) await new Promise(setImmediate);
    expect(
      await run.submit([
        { type: 'approve', callId: B },
        { type: 'approve', callId: A },
      ]),
    ).toMatchObject({ index: 1, code: 'call-not-open' });
    expect(await wordsOf(store, run.id)).not.toContain(`approval.decided ${B}`);
    expect(
      await run.submit([
        { type: 'approve', callId: B },
        { type: 'answer', callId: 'call_0_2', output: 'shown' },
        { type: 'set-params', params: { instructions: 'Be brief.' } },
      ]),
    ).toEqual({ accepted: true });
    expect(appends).toContainEqual(['approval.decided', 'result.received', 'params.changed']);
    gate.open();
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'done' });
  });

  test('end the run when one of them is cancel, and none is accepted after it', async () => {
    const { run, store } = await makeWaiting();
    const reject: RunCommand = { type: 'reject', callId: A };
    expect(await run.submit([{ type: 'cancel', reason: 'enough' }, reject])).toMatchObject({ index: 1 });
    expect(await run.submit([reject, { type: 'cancel', reason: 'enough' }])).toEqual({ accepted: true });
    expect((await eventsOf(store, run.id)).at(-1)).toMatchObject({ type: 'run.cancelled', unsettled: [B] });
  });

  test('are refused for a call of a sub-agent, naming its run', async () => {
    const store = memory();
    const host = new ManualHost();
    const agent = makeFamily(PAYING, { store, host });
    const { run, settled } = await settleWith(agent, host);
    assertWaiting(settled);
    const child = await childOf(store, run.id);
    const callId = settled.approvals[0]?.callId ?? '';
    const digest = settled.approvals[0]?.digest ?? '';
    for (const more of [{ runId: child }, { digest }])
      expect(
        await run.submit([
          { type: 'set-params', params: {} },
          { type: 'approve', callId, ...more },
        ]),
      ).toMatchObject({ index: 1, code: 'refused', message: expect.stringContaining(child) });
    expect(await wordsOf(store, run.id)).not.toContain('params.changed');
    expect(await run.submit([{ type: 'approve', callId, digest }])).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'told' });
  });

  test('change nothing when the list is empty', async () => {
    const { run, store } = await makeWaiting();
    expect(await wordsBehind(store, run, () => run.submit([]))).toEqual([]);
  });
});

describe('the id of a request', () => {
  test('is journaled with the input of its command, and left out of the state', async () => {
    const { run, store } = await makeWaiting();
    await run.approve(A, { requestId: 'req_1' });
    await run.submit([
      { type: 'pause', requestId: 'req_2' },
      { type: 'reject', callId: B, requestId: 'req_3' },
    ]);
    await run.cancel({ requestId: 'req_4' });
    const ids = (await eventsOf(store, run.id)).flatMap(event =>
      'requestId' in event ? [[event.type, event.requestId]] : [],
    );
    expect(ids).toEqual([
      ['approval.decided', 'req_1'],
      ['pause.requested', 'req_2'],
      ['approval.decided', 'req_3'],
      ['run.cancelled', 'req_4'],
    ]);
    expect(JSON.stringify(run.snapshot())).not.toContain('req_');
  });

  test('has 1 to 64 characters', async () => {
    const { run } = await makeWaiting();
    for (const requestId of ['', 'x'.repeat(65)])
      expect(await run.pause({ requestId })).toMatchObject({ accepted: false, code: 'input-invalid' });
    expect(await run.pause({ requestId: 'x'.repeat(64) })).toEqual({ accepted: true });
  });
});
