import { describe, expect, test } from 'vitest';
import { digestCall } from '../../protocol/content/digest.ts';
import { HOUR, later, makeDesk, openIds, PAYS } from '../support/durability/approval-desk.ts';
import { calls, clientTool, countEvents, makeGate, makeTool, wordsOf } from '../support/engine/agents.ts';

describe('an approval that expires while no process runs', () => {
  test('is expired for the next process, once, and the model reads that', async () => {
    const { agent, host, make, store, paid } = makeDesk([PAYS(1), { text: 'done' }]);
    const run = await agent.start('go');
    await run.settled();
    const next = later(host, 2 * HOUR);
    const { agent: other, read } = make(next);
    const resumed = await other.open(run.id);
    expect(await resumed.approve('call_0_0')).toMatchObject({ code: 'expired' });
    expect((await next.settle(resumed.settled())).status).toBe('finished');
    expect(paid).toEqual([]);
    expect(read().call_0_0).toBe('Not run: the approval expired without a decision.');
    expect(await countEvents(store, run.id, 'timer.fired')).toBe(1);
  });
});

describe('a message while calls are open', () => {
  test('supersedes calls that wait for approval, keeps client calls open, and is read after both', async () => {
    const { agent, host, read, requests, paid } = makeDesk(
      [calls(['pay', { cents: 1 }], 'show'), { text: 'done' }],
      { onMessage: 'supersede' },
      [clientTool('show')],
    );
    const run = await agent.start('go');
    await run.settled();
    expect(await run.send('Stop!')).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({
      open: [{ kind: 'result', callId: 'call_0_1' }],
    });
    expect(await run.approve('call_0_0')).toMatchObject({ accepted: false, code: 'call-not-open' });
    await run.answer('call_0_1', { output: 'shown' });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', unread: [] });
    expect(paid).toEqual([]);
    expect(read()).toEqual({ call_0_0: 'Not run: superseded by a new message.', call_0_1: 'shown' });
    expect(requests.at(-1)?.transcript.at(-1)).toMatchObject({ content: [{ text: 'Stop!' }] });
  });

  test('waits under queue: the call is decided first, and the model reads the message after its result', async () => {
    const { agent, host, make, paid } = makeDesk([PAYS(1), { text: 'done' }], { onMessage: 'queue' });
    const run = await agent.start('go');
    await run.settled();
    await run.send('Also…');
    expect(openIds(await host.settle(run.settled()))).toEqual(['call_0_0']);
    const next = later(host);
    const { agent: other, requests } = make(next);
    const resumed = await other.open(run.id);
    await resumed.approve('call_0_0');
    expect(await next.settle(resumed.settled())).toMatchObject({ status: 'finished', unread: [] });
    expect(paid).toEqual([{ cents: 1 }]);
    expect(requests).toHaveLength(1);
    expect(requests[0]?.transcript.map(({ type }) => type)).toEqual([
      'message',
      'tool_call',
      'tool_result',
      'message',
    ]);
  });
});

describe('a decision while sibling calls run', () => {
  test('is accepted immediately, and its call starts in the next batch, after the siblings', async () => {
    const slow = makeGate<string>();
    const sibling = makeTool('slow', { sideEffect: 'none', run: () => slow.promise });
    const { agent, host, paid, store } = makeDesk(
      [calls('slow', ['pay', { cents: 1 }]), { text: 'done' }],
      {},
      [sibling],
    );
    const run = await agent.start('go');
    await host.idle();
    expect(await run.approve('call_0_1')).toEqual({ accepted: true });
    await host.advance(1_000);
    expect(paid).toEqual([]);
    slow.open('x');
    expect((await host.settle(run.settled())).status).toBe('finished');
    const order = ['approval.decided call_0_1', 'tool.settled call_0_0', 'tool.started call_0_1'];
    expect((await wordsOf(store, run.id)).filter(word => order.includes(word))).toEqual(order);
    expect(paid).toEqual([{ cents: 1 }]);
  });

  test('that rejects its call gives the call its result immediately', async () => {
    const slow = makeGate<string>();
    const sibling = makeTool('slow', { sideEffect: 'none', run: () => slow.promise });
    const { agent, host, read } = makeDesk([calls('slow', ['pay', { cents: 1 }]), { text: 'done' }], {}, [
      sibling,
    ]);
    const run = await agent.start('go');
    await host.idle();
    expect(await run.reject('call_0_1')).toEqual({ accepted: true });
    slow.open('x');
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(read()).toEqual({ call_0_0: 'x', call_0_1: 'Not run: the call was rejected.' });
  });
});

describe('a client call that needs approval', () => {
  const desk = () =>
    makeDesk([calls(['show', { page: 1 }]), { text: 'done' }], {}, [clientTool('show', { approval: true })]);

  test('waits for its result once approved, with the edited arguments', async () => {
    const { agent, host } = desk();
    const run = await agent.start('go');
    await run.settled();
    await run.approve('call_0_0', { input: { page: 2 } });
    expect(await host.settle(run.settled())).toMatchObject({
      open: [
        { kind: 'result', callId: 'call_0_0', input: { page: 2 }, digest: digestCall('show', { page: 2 }) },
      ],
    });
    expect(await run.approve('call_0_0')).toMatchObject({ code: 'already-decided' });
    await run.answer('call_0_0', { output: 'shown' });
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'shown' }],
    });
  });

  test('has its result once it is rejected or answered, and the client does not run it', async () => {
    for (const decide of ['reject', 'answer'] as const) {
      const { agent, host } = desk();
      const run = await agent.start('go');
      await run.settled();
      await (decide === 'reject' ? run.reject('call_0_0') : run.answer('call_0_0', { output: 'by hand' }));
      const result = decide === 'reject' ? { isError: true } : { isError: false, output: 'by hand' };
      expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', results: [result] });
    }
  });
});

describe('a decision that was accepted before a crash', () => {
  const DECISIONS = {
    approve: { paid: [{ cents: 1 }], result: 'paid' },
    reject: { paid: [], result: 'Not run: the call was rejected.' },
    answer: { paid: [], result: 'by hand' },
  };

  test.each(['approve', 'reject', 'answer'] as const)('(%s) takes effect in the next process', async kind => {
    const { agent, host, make, paid } = makeDesk([PAYS(1), { text: 'done' }]);
    const run = await agent.start('go');
    await run.settled();
    host.reach = point => {
      if (point === 'claim.before') throw new Error('the process ended here');
    };
    const answer = kind === 'answer' ? run.answer('call_0_0', { output: 'by hand' }) : run[kind]('call_0_0');
    expect(await answer).toEqual({ accepted: true });
    const next = later(host);
    const { agent: other, read } = make(next);
    const resumed = await other.open(run.id);
    expect(await resumed.reject('call_0_0')).toMatchObject({ code: 'already-decided' });
    expect((await next.settle(resumed.settled())).status).toBe('finished');
    expect({ paid, result: read().call_0_0 }).toEqual(DECISIONS[kind]);
  });
});
