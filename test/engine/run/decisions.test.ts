import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Run } from '../../../engine/run/run.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, countEvents, makeTracedTool } from '../../support/engine/agents.ts';

function makeRefunds() {
  const store = memory();
  const host = new ManualHost();
  const keys: string[] = [];
  const make = () =>
    createAgent({
      name: 'refunds',
      host,
      store,
      model: scripted([calls(['refund', { cents: 100 }], ['refund', { cents: 200 }]), { text: 'done' }]),
      tools: [makeTracedTool('refund', keys, { approval: true })],
    });
  return { store, host, keys, make };
}

describe('E5: decisions are consumed once', () => {
  test('one of two simultaneous decisions wins, and the other gets the name of the decider', async () => {
    const { store, host, keys, make } = makeRefunds();
    const run = await make().start('go');
    await run.settled();
    const answers = await Promise.all([
      run.approve('call_0_0', { by: 'ann' }),
      run.reject('call_0_0', { by: 'bob' }),
    ]);
    expect(answers).toEqual([
      { accepted: true },
      {
        accepted: false,
        code: 'already-decided',
        message: expect.stringContaining('approved by ann'),
        by: 'ann',
      },
    ]);
    await host.settle(run.settled());
    expect(await countEvents(store, run.id, 'approval.decided')).toBe(1);
    expect(keys).toEqual([`${run.id}:1:call_0_0`]);
  });

  test.each(['one process', 'a hundred processes'])('one of a hundred decisions in %s wins', async where => {
    const { store, host, keys, make } = makeRefunds();
    const first = await make().start('go');
    await first.settled();
    const people = Array.from({ length: 100 }, (_, index) => `person ${index}`);
    const answers = await Promise.all(
      people.map(async by => {
        const run: Run = where === 'one process' ? first : await make().open(first.id);
        return await run.approve('call_0_1', { by });
      }),
    );
    const winner = people[answers.findIndex(({ accepted }) => accepted)];
    expect(answers.filter(({ accepted }) => accepted)).toHaveLength(1);
    for (const answer of answers) {
      if (answer.accepted) continue;
      expect(answer).toMatchObject({ code: 'already-decided', by: winner });
    }
    await host.settle(first.settled());
    await host.advance(1000);
    expect(await countEvents(store, first.id, 'approval.decided')).toBe(1);
    expect(keys).toEqual([`${first.id}:1:call_0_1`]);
  });

  test('a decision with another digest is refused, and the call stays open', async () => {
    const { host, keys, make } = makeRefunds();
    const run = await make().start('go');
    const waiting = await run.settled();
    const [first, second] = waiting.status === 'waiting' ? waiting.approvals : [];
    expect(first?.digest).not.toBe(second?.digest);
    expect(await run.approve('call_0_0', { digest: second?.digest ?? '' })).toMatchObject({
      accepted: false,
      code: 'wrong-digest',
    });
    expect(await run.settled()).toEqual(waiting);
    expect(await run.approve('call_0_0', { digest: first?.digest ?? '' })).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(keys).toHaveLength(1);
  });

  test('a result for a call with another digest is refused, and the call stays open', async () => {
    const look = tool({ name: 'look', description: 'Looks.', input: z.object({}) });
    const model = scripted([calls(['look', {}]), { text: 'seen' }]);
    const run = await createAgent({ name: 'desk', store: memory(), model, tools: [look] }).start('go');
    await run.settled();
    expect(await run.answer('call_0_0', { output: 1, digest: 'other' })).toMatchObject({
      accepted: false,
      code: 'wrong-digest',
    });
    expect((await run.settled()).status).toBe('waiting');
    const digest = run.context.calls[0]?.digest ?? '';
    expect(await run.answer('call_0_0', { output: 1, digest })).toEqual({ accepted: true });
  });

  test('a decision on an unknown call is refused as call-unknown', async () => {
    const { make } = makeRefunds();
    const run = await make().start('go');
    await run.settled();
    expect(await run.approve('call_9_9')).toMatchObject({ code: 'call-unknown' });
    expect(await run.reject('constructor')).toMatchObject({ code: 'call-unknown' });
    expect(await run.answer('call_9_9', { output: 1 })).toMatchObject({ code: 'call-unknown' });
    expect(await run.resolve('call_9_9', { retry: true })).toMatchObject({ code: 'call-unknown' });
  });

  test('the refusal of an unknown call names the open calls, and what each waits for', async () => {
    const { host, make } = makeRefunds();
    const run = await make().start('go');
    await run.settled();
    expect(await run.approve('')).toMatchObject({
      code: 'call-unknown',
      message: `Run ${run.id} has no call "". Its open calls: refund (call_0_0), waiting for approval; refund (call_0_1), waiting for approval.`,
    });
    expect(await run.editCall('call_9', { input: {} })).toMatchObject({
      code: 'call-unknown',
      message: expect.stringContaining('no open call "call_9". Its open calls: refund (call_0_0), waiting'),
    });
    for (const callId of ['call_0_0', 'call_0_1']) await run.reject(callId);
    await host.settle(run.settled());
    expect(await run.approve('call_9')).toMatchObject({
      code: 'call-unknown',
      message: `Run ${run.id} has no call "call_9". It has no open calls.`,
    });
  });

  test('the refusal of an unknown call names at most ten of many open calls', async () => {
    const model = scripted([calls(...Array.from({ length: 12 }, () => 'refund'))]);
    const tools = [makeTracedTool('refund', [], { approval: true })];
    const run = await createAgent({ name: 'refunds', store: memory(), model, tools }).start('go');
    await run.settled();
    const { message } = (await run.approve('none')) as { message: string };
    expect(message).toContain('refund (call_0_9), waiting for approval; and 2 more.');
  });

  test.each([
    [
      'one group as a text',
      { name: 'mia', groups: 'managers' },
      'expected `groups` to be a list of names, got a string',
    ],
    ['a misspelt member', { name: 'mia', group: ['managers'] }, 'did you mean "groups"?'],
    ['a name alone', 'mia', 'to be an object, got a string'],
    ['an empty name', { name: '', groups: ['managers'] }, 'expected the name of a person, got ""'],
  ])('a decision as a person with %s is refused as input-invalid', async (_, as, message) => {
    const run = await makeRefunds().make().start('go');
    await run.settled();
    const refused = { code: 'input-invalid', message: expect.stringContaining(message) };
    await expect(run.approve('call_0_0', { as } as never)).rejects.toMatchObject(refused);
    await expect(run.editTranscript([], { as } as never)).rejects.toMatchObject(refused);
    const command = { type: 'approve', callId: 'call_0_0', as } as never;
    await expect(run.submit([command])).rejects.toMatchObject(refused);
  });

  test('a decision after the end of the run is refused as already-decided or run-ended', async () => {
    const { host, make } = makeRefunds();
    const run = await make().start('go');
    await run.settled();
    await run.approve('call_0_0', { by: 'ann' });
    await host.settle(run.settled());
    await run.cancel();
    expect(await run.approve('call_0_0')).toMatchObject({ code: 'already-decided', by: 'ann' });
    expect(await run.approve('call_0_1')).toMatchObject({ code: 'run-ended' });
    expect(await run.send('hello?')).toMatchObject({
      code: 'run-ended',
      message: expect.stringContaining(`continues: '${run.id}'`),
    });
    for (const refused of [await run.pause(), await run.unpause(), await run.step(), await run.cancel()]) {
      expect(refused).toMatchObject({ accepted: false, code: 'run-ended' });
    }
  });

  test('a second resolution of a doubt names who resolved it, not who approved the call', async () => {
    const host = new ManualHost({ name: 'doubted_' });
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('pay', 'pay'), { text: 'done' }]),
      tools: [
        makeTracedTool('pay', [], {
          approval: true,
          timeoutMs: 100,
          run: () => new Promise(() => {}),
        }),
      ],
    });
    const run = await agent.start('go');
    await run.settled();
    await run.approve('call_0_0', { by: 'ann' });
    await host.advance(1_200);
    expect(await run.settled()).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect(await run.resolve('call_0_0', { happened: true, output: 1, by: 'bob' })).toEqual({
      accepted: true,
    });
    expect(await run.resolve('call_0_0', { retry: true, by: 'eve' })).toMatchObject({
      code: 'already-decided',
      by: 'bob',
      message: expect.stringContaining('resolved by bob'),
    });
  });

  test('an invalid message is refused, and the run continues', async () => {
    const { host, make } = makeRefunds();
    const run = await make().start('go');
    await run.settled();
    expect(await run.send([])).toMatchObject({ accepted: false, code: 'input-invalid' });
    await expect(run.send(5 as never)).rejects.toThrow('Expected the input to be a text or a list of items');
    expect(await run.reject('call_0_0')).toEqual({ accepted: true });
    expect(await run.reject('call_0_1')).toEqual({ accepted: true });
    expect((await host.settle(run.settled())).status).toBe('finished');
  });
});
