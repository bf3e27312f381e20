import { describe, expect, test } from 'vitest';
import { digestCall } from '../../protocol/content/digest.ts';
import { HOUR, later, makeDesk, openIds, PAYS } from '../support/durability/approval-desk.ts';
import { calls, countEvents, eventsOf, makeTool, wordsOf } from '../support/engine/agents.ts';

describe('two calls that wait for approval', () => {
  test('one runs after its approval, and the other stays open', async () => {
    const { agent, store, host, paid } = makeDesk([PAYS(1, 2), { text: 'done' }]);
    const run = await agent.start('go');
    await run.settled();
    expect(await run.approve('call_0_1')).toEqual({ accepted: true });
    expect(openIds(await host.settle(run.settled()))).toEqual(['call_0_0']);
    expect(paid).toEqual([{ cents: 2 }]);
    expect(await wordsOf(store, run.id)).not.toContain('tool.started call_0_0');
  });

  test('one is approved and one rejected, and the model reads both results in call order', async () => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const { agent, host, paid, read, readOrder } = makeDesk([PAYS(1, 2), { text: 'done' }]);
      const run = await agent.start('go');
      await run.settled();
      for (const call of order) {
        if (call === 0) await run.reject('call_0_0', { reason: 'too much' });
        else await run.approve('call_0_1');
      }
      expect((await host.settle(run.settled())).status).toBe('finished');
      expect(paid).toEqual([{ cents: 2 }]);
      expect(readOrder()).toEqual(['call_0_0', 'call_0_1']);
      expect(read()).toEqual({
        call_0_0: 'Not run: the call was rejected: too much',
        call_0_1: 'paid',
      });
    }
  });

  test('a sticky decision for one tool does not decide a call of the other', async () => {
    for (const decide of ['approve', 'reject'] as const) {
      const { agent, host } = makeDesk([PAYS(1, 2), { text: 'done' }]);
      const run = await agent.start('go');
      await run.settled();
      await run[decide]('call_0_0', { sticky: true });
      expect(openIds(await host.settle(run.settled()))).toEqual(['call_0_1']);
    }
  });
});

describe('edited arguments', () => {
  test('are journaled with their own digest when valid, run, and are shown to the model', async () => {
    const { agent, store, host, paid, read } = makeDesk([PAYS(500), { text: 'done' }]);
    const run = await agent.start('go');
    const waiting = await run.settled();
    const seen = waiting.status === 'waiting' ? waiting.approvals[0]?.digest : undefined;
    expect(await run.approve('call_0_0', { input: { cents: 300 }, by: 'ann' })).toEqual({ accepted: true });
    const settled = await host.settle(run.settled());
    expect(paid).toEqual([{ cents: 300 }]);
    const decided = (await eventsOf(store, run.id)).find(({ type }) => type === 'approval.decided');
    const editDigest = digestCall('pay', { cents: 300 });
    expect(decided).toMatchObject({ digest: seen, decision: { input: { cents: 300 }, editDigest } });
    expect(editDigest).not.toBe(seen);
    expect(read().call_0_0).toBe('[A person changed the input to {"cents":300}.]\npaid');
    expect(settled).toMatchObject({ results: [{ input: { cents: 300 }, output: 'paid' }] });
  });

  test('are refused when invalid, and nothing is journaled', async () => {
    const { agent, store, paid } = makeDesk([PAYS(500), { text: 'done' }]);
    const run = await agent.start('go');
    await run.settled();
    const before = await eventsOf(store, run.id);
    for (const input of [{ cents: -1 }, { cents: '300' }, {}, null, 7]) {
      expect(await run.approve('call_0_0', { input })).toMatchObject({
        accepted: false,
        code: 'input-invalid',
        message: expect.stringContaining('pay'),
      });
    }
    expect(await eventsOf(store, run.id)).toEqual(before);
    expect(paid).toEqual([]);
  });

  test('survive a crash between the decision and the call', async () => {
    const { agent, host, make, paid } = makeDesk([PAYS(500), { text: 'done' }]);
    const run = await agent.start('go');
    await run.settled();
    host.reach = point => {
      if (point === 'input.after') throw new Error('the process ended here');
    };
    await expect(run.approve('call_0_0', { input: { cents: 300 } })).rejects.toThrow('ended here');
    const next = later(host);
    const resumed = await make(next).agent.open(run.id);
    expect((await next.settle(resumed.settled())).status).toBe('finished');
    expect(paid).toEqual([{ cents: 300 }]);
  });
});

describe('an answer in place of a call', () => {
  test('is the result of the call, which never starts, and cannot be decided again', async () => {
    const { agent, store, host, paid, read } = makeDesk([PAYS(1), { text: 'done' }]);
    const run = await agent.start('go');
    await run.settled();
    expect(await run.answer('call_0_0', { output: { receipt: 7 }, by: 'ann' })).toEqual({ accepted: true });
    expect(await run.approve('call_0_0', { by: 'bob' })).toMatchObject({
      code: 'already-decided',
      by: 'ann',
    });
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(paid).toEqual([]);
    expect(read()).toEqual({ call_0_0: { receipt: 7 } });
    expect(await countEvents(store, run.id, 'tool.started')).toBe(0);
  });
});

describe('a decision is refused', () => {
  test('for a call of another run, which stays unchanged', async () => {
    const { agent, store, paid } = makeDesk([PAYS(1), PAYS(2), { text: 'done' }]);
    const [one, two] = [await agent.start('go'), await agent.start('go')];
    await Promise.all([one.settled(), two.settled()]);
    await one.reject('call_0_0');
    expect(openIds(await one.settled())).toEqual(['call_1_0']);
    for (const refused of [
      await two.approve('call_1_0'),
      await two.reject('call_1_0'),
      await two.answer('call_1_0', { output: 1 }),
    ]) {
      expect(refused).toMatchObject({
        accepted: false,
        code: 'call-unknown',
        message: expect.stringContaining(two.id),
      });
    }
    expect(openIds(await one.settled())).toEqual(['call_1_0']);
    expect(openIds(await two.settled())).toEqual(['call_0_0']);
    expect(await countEvents(store, two.id, 'approval.decided')).toBe(0);
    expect(paid).toEqual([]);
  });

  test('for a settled call: with its decider, or as not open if it needed no approval', async () => {
    const free = makeTool('free', { sideEffect: 'none' });
    const { agent, host, store } = makeDesk([calls('free', ['pay', { cents: 1 }]), { text: 'done' }], {}, [
      free,
    ]);
    const run = await agent.start('go');
    await run.settled();
    expect(await run.approve('call_0_0')).toMatchObject({ accepted: false, code: 'call-not-open' });
    expect(await run.answer('call_0_0', { output: 1 })).toMatchObject({ code: 'call-not-open' });
    await run.approve('call_0_1', { by: 'ann' });
    await host.settle(run.settled());
    const before = await eventsOf(store, run.id);
    expect(await run.reject('call_0_1', { by: 'bob' })).toMatchObject({ code: 'already-decided', by: 'ann' });
    expect(await run.approve('call_0_0')).toMatchObject({ code: 'run-ended' });
    expect(await eventsOf(store, run.id)).toEqual(before);
  });

  test('when the arguments changed after they were shown', async () => {
    const { agent, host, paid, store } = makeDesk([PAYS(500), { text: 'done' }]);
    const run = await agent.start('go');
    const waiting = await run.settled();
    const seen = waiting.status === 'waiting' ? (waiting.approvals[0]?.digest ?? '') : '';
    await run.pause();
    await run.settled();
    const edited = run.context.transcript.map(item =>
      item.type === 'tool_call' ? { ...item, arguments: '{"cents":900}', input: { cents: 900 } } : item,
    );
    expect(await run.editTranscript(edited)).toEqual({ accepted: true });
    await run.unpause();
    await host.settle(run.settled());
    expect(await run.approve('call_0_0', { digest: seen })).toMatchObject({
      accepted: false,
      code: 'wrong-digest',
      message: expect.stringContaining(digestCall('pay', { cents: 900 })),
    });
    expect(paid).toEqual([]);
    expect(await countEvents(store, run.id, 'approval.decided')).toBe(0);
    expect(await run.approve('call_0_0', { digest: digestCall('pay', { cents: 900 }) })).toEqual({
      accepted: true,
    });
    await host.settle(run.settled());
    expect(paid).toEqual([{ cents: 900 }]);
  });

  test('after its deadline, whether or not a process noticed the deadline', async () => {
    const { agent, host, paid } = makeDesk([PAYS(1, 2), { text: 'done' }]);
    const run = await agent.start('go');
    await run.settled();
    host.jump(HOUR);
    expect(await run.approve('call_0_0')).toMatchObject({ accepted: false, code: 'expired' });
    expect(await run.answer('call_0_1', { output: 1 })).toMatchObject({ accepted: false, code: 'expired' });
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(await run.approve('call_0_0')).toMatchObject({ accepted: false });
    expect(paid).toEqual([]);
  });
});

describe('a sticky rule', () => {
  test.each(['approve', 'reject'] as const)(
    'to %s applies to later calls in a later process',
    async decide => {
      const { agent, host, make, paid } = makeDesk([PAYS(1, 2), PAYS(3), { text: 'done' }]);
      const run = await agent.start('go');
      await run.settled();
      await run[decide]('call_0_0', { sticky: true });
      await host.settle(run.settled());
      const next = later(host);
      const { agent: other, read } = make(next);
      const resumed = await other.open(run.id);
      expect(openIds(await next.settle(resumed.settled()))).toEqual(['call_0_1']);
      await resumed.answer('call_0_1', { output: 'by hand' });
      expect((await next.settle(resumed.settled())).status).toBe('finished');
      expect(paid).toEqual(decide === 'approve' ? [{ cents: 1 }, { cents: 3 }] : []);
      expect(read().call_1_0).toBe(decide === 'approve' ? 'paid' : 'Not run: the call was rejected.');
    },
  );
});
