import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Breakpoint } from '../../../protocol/debugger/breakpoint.ts';
import { textOf } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, eventsOf, makeGate, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

/** An agent that pays back: amounts over 100 need an approval. */
async function begin(breakpoints: readonly Breakpoint[], made = calls(['refund', { cents: 50 }])) {
  const store = memory();
  const host = new ManualHost();
  const paid: number[] = [];
  const { model, requests } = recordRequests(scripted([made, { text: 'done' }]));
  const refund = tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ cents: z.number().int().positive() }),
    approval: ({ input }) => input.cents > 100,
    run: ({ cents }) => {
      paid.push(cents);
      return `paid ${cents}`;
    },
  });
  const agent = createAgent({ name: 'a', host, store, model, tools: [refund] });
  const run = await agent.start('go', { paused: true });
  await host.settle(run.settled());
  await run.submit([{ type: 'breakpoints', breakpoints }, { type: 'unpause' }]);
  const settle = () => host.settle(run.settled());
  return { agent, store, host, paid, requests, run, settle, settled: await settle() };
}

const LARGE: Breakpoint = {
  id: 'large',
  next: 'executeTools',
  tool: 'refund',
  where: { path: 'input.cents', op: '>=', value: 50 },
} as const;

describe('a breakpoint', () => {
  test('holds the run in any process that drives it, until a person continues it', async () => {
    const { agent, run, settled, paid, host } = await begin([LARGE]);
    expect(settled).toMatchObject({ status: 'waiting', paused: true });
    const other = await agent.open(run.id);
    await host.settle(other.resume());
    expect(other.context.next).toMatchObject({ type: 'pause', breakpoint: 'large' });
    expect(paid).toEqual([]);
    await other.unpause({ by: 'ann' });
    expect(await host.settle(other.settled())).toMatchObject({ status: 'finished' });
    expect(paid).toEqual([50]);
  });

  test('is refused if it is not valid, and its event is journaled with who set it', async () => {
    const { run, store } = await begin([LARGE]);
    const refused = { accepted: false, code: 'input-invalid' };
    const invalid: unknown[] = [
      [{ id: '' }],
      [{ id: 'a', where: { path: 'output', op: '=', value: 1 } }],
      [{ id: 'a', where: { path: 'input.a', op: '~', value: '.*' } }],
      [{ id: 'a' }, { id: 'a' }],
      Array.from({ length: 51 }, (_, index) => ({ id: `${index}` })),
    ];
    for (const breakpoints of invalid)
      expect(await run.setBreakpoints(breakpoints as Breakpoint[])).toMatchObject(refused);
    expect(await run.setBreakpoints([], { by: 'ann' })).toEqual({ accepted: true });
    expect((await eventsOf(store, run.id)).at(-1)).toMatchObject({ type: 'breakpoints.set', by: 'ann' });
  });

  test('that matches once is "run to here"', async () => {
    const here: Breakpoint = { id: 'here', next: 'finish', once: true };
    const { run, settle } = await begin([here]);
    expect(run.context.next).toMatchObject({ breakpoint: 'here' });
    await run.unpause();
    expect(await settle()).toMatchObject({ status: 'finished' });
    expect(run.context.breakpoints).toEqual([]);
  });
});

describe('an edited call', () => {
  test('runs with the new input, and the model and the journal tell it', async () => {
    const { run, settle, paid, requests, store } = await begin([LARGE]);
    expect(await run.editCall('call_0_0', { input: { cents: 25 }, by: 'ann' })).toEqual({ accepted: true });
    await run.unpause();
    expect(await settle()).toMatchObject({ results: [{ input: { cents: 25 }, output: 'paid 25' }] });
    expect(paid).toEqual([25]);
    expect(resultsIn(requests[1]?.transcript ?? []).call_0_0).toBe(
      '[A person changed the input to {"cents":25}.]\npaid 25',
    );
    const edit = (await eventsOf(store, run.id)).find(({ type }) => type === 'call.edited');
    expect(edit).toMatchObject({ by: 'ann', call: { input: { cents: 25 }, gate: false } });
  });

  test('asks its approval predicate again, and the approval is bound to the new digest', async () => {
    const { run, settle, paid } = await begin([LARGE]);
    const before = run.context.calls[0]?.digest ?? '';
    await run.editCall('call_0_0', { input: { cents: 500 } });
    await run.unpause();
    expect(await settle()).toMatchObject({ status: 'waiting', approvals: [{ input: { cents: 500 } }] });
    expect(await run.approve('call_0_0', { digest: before })).toMatchObject({ code: 'wrong-digest' });
    expect(paid).toEqual([]);
    await run.approve('call_0_0');
    expect(await settle()).toMatchObject({ status: 'waiting', paused: true });
    await run.unpause();
    await settle();
    expect(paid).toEqual([500]);
  });

  test('loses the approval that it had', async () => {
    const { run, settle, paid } = await begin([LARGE], calls(['refund', { cents: 500 }]));
    await run.approve('call_0_0');
    await settle();
    expect(run.context.calls[0]?.status).toBe('ready');
    await run.editCall('call_0_0', { input: { cents: 900 } });
    expect(run.context.calls[0]?.status).toBe('gated');
    await run.unpause();
    expect(await settle()).toMatchObject({ approvals: [{ input: { cents: 900 } }] });
    expect(paid).toEqual([]);
  });

  test('is refused: invalid input, another digest, an unknown call, a call that has run', async () => {
    const { run, settle } = await begin([LARGE]);
    const edit = (callId: string, options: { input: unknown; digest?: string }) =>
      run.editCall(callId, options);
    expect(await edit('call_0_0', { input: { cents: -1 } })).toMatchObject({ code: 'input-invalid' });
    expect(await edit('call_0_0', { input: { cents: 1 }, digest: 'old' })).toMatchObject({
      code: 'wrong-digest',
    });
    expect(await edit('call_9', { input: {} })).toMatchObject({ code: 'call-unknown' });
    await run.unpause();
    await settle();
    expect(await edit('call_0_0', { input: { cents: 1 } })).toMatchObject({ accepted: false });
  });
});

describe('an edited turn', () => {
  test('adds, changes and drops calls; what the model then reads is what ran', async () => {
    const made = calls(['refund', { cents: 50 }], ['refund', { cents: 60 }]);
    const { run, settle, paid, requests } = await begin([LARGE], made);
    const edit = await run.editTurn({
      text: 'I pay two of them.',
      calls: [
        { callId: 'call_0_1', name: 'refund', input: { cents: 61 } },
        { name: 'refund', input: { cents: 7 } },
      ],
      by: 'ann',
    });
    expect(edit).toEqual({ accepted: true });
    await run.unpause();
    expect(await settle()).toMatchObject({ status: 'finished' });
    expect(paid).toEqual([61, 7]);
    const [, text, first, second] = requests[1]?.transcript ?? [];
    expect(text).toMatchObject({ role: 'assistant', content: [{ text: 'I pay two of them.' }] });
    expect([first, second]).toMatchObject([
      { type: 'tool_call', callId: 'call_0_1', arguments: '{"cents":61}' },
      { type: 'tool_call', arguments: '{"cents":7}' },
    ]);
  });

  test('keeps what it does not name', async () => {
    const { run } = await begin([LARGE]);
    const { digest } = run.context.calls[0] ?? {};
    await run.editTurn({ text: 'Paying.' });
    expect(run.context.calls).toMatchObject([{ callId: 'call_0_0', digest, status: 'ready' }]);
    await run.editTurn({ calls: [] });
    expect(run.context.calls).toEqual([]);
    expect(run.context.transcript.at(-1)).toMatchObject({ content: [{ text: 'Paying.' }] });
  });

  test('keeps the input of a call that was edited before', async () => {
    const { run, settle, paid } = await begin([LARGE]);
    await run.editCall('call_0_0', { input: { cents: 99 } });
    await run.editTurn({ text: 'Paying.' });
    await run.unpause();
    await settle();
    expect(paid).toEqual([99]);
  });

  test('replaces the final answer of a run that is held before its end', async () => {
    const { run, settle } = await begin([{ id: 'end', next: 'finish' }]);
    await run.editTurn({ text: 'All is paid.' });
    await run.unpause();
    expect(await settle()).toMatchObject({ status: 'finished', text: 'All is paid.' });
  });

  test('is the latest turn as it is now, whatever this process has read of the run', async () => {
    const store = memory();
    const host = new ManualHost();
    const second = makeGate();
    const model = answerWith(async (_, before) => {
      if (before === 1) await second.promise;
      if (before > 1) return { text: 'done' };
      return { text: `turn ${before + 1}`, toolCalls: [{ callId: `c${before}`, name: 'look' }] };
    });
    const look = makeTool('look', { approval: () => true });
    const agent = createAgent({ name: 'a', host, store, model, tools: [look] });
    const run = await agent.start('go');
    await host.settle(run.settled());
    await run.approve('c0');
    await host.idle();
    const other = await agent.open(run.id);
    const early = { code: 'refused', message: expect.stringContaining('Turn 2') };
    expect(await other.editTurn({ text: 'Too early.' })).toMatchObject(early);
    second.open();
    await host.settle(run.settled());
    expect(await other.editTurn({ text: 'I look again.' })).toEqual({ accepted: true });
    await other.approve('c1');
    await host.settle(other.settled());
    const told = other.context.transcript.map(item =>
      item.type === 'message' ? textOf(item) : 'callId' in item && `${item.type} ${item.callId}`,
    );
    expect(told).toEqual([
      ...['go', 'turn 1', 'tool_call c0', 'tool_result c0'],
      ...['I look again.', 'tool_call c1', 'tool_result c1', 'done'],
    ]);
  });

  test('is refused: an invalid call, an id that exists, another turn, a turn whose calls have run', async () => {
    const { run, settle } = await begin([LARGE, { id: 'end', next: 'finish' }]);
    const calling = (callId: string, cents: number) => [{ callId, name: 'refund', input: { cents } }];
    expect(await run.editTurn({ calls: calling('call_0_0', -1) })).toMatchObject({ code: 'input-invalid' });
    const twice = [...calling('call_0_0', 1), ...calling('call_0_0', 2)];
    expect(await run.editTurn({ calls: twice })).toMatchObject({ code: 'input-invalid' });
    expect(await run.editTurn({ calls: [{ name: 'other', input: {} }] })).toMatchObject({
      code: 'input-invalid',
    });
    expect(await run.editTurn({ turn: 7, text: 'x' })).toMatchObject({ code: 'refused' });
    await run.unpause();
    await settle();
    expect(await run.editTurn({ calls: calling('call_0_0', 1) })).toMatchObject({ code: 'input-invalid' });
    expect(await run.editTurn({ turn: 1, text: 'x' })).toMatchObject({ code: 'refused' });
  });
});
