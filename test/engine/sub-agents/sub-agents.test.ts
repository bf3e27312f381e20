import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { OpenCall } from '../../../engine/log/settled.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, countEvents, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { assertWaiting, childOf, makeFamily, PAYING, settleWith } from '../../support/engine/family.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

describe('a sub-agent', () => {
  test('answers the call with its own run, linked to the parent, in the same store', async () => {
    const host = new ManualHost();
    const store = memory();
    const { run, settled } = await settleWith(makeFamily({}, { store, host }), host);
    expect(settled).toMatchObject({
      status: 'finished',
      text: 'told',
      results: [{ name: 'research', output: 'found', isError: false }],
    });
    const child = await loadRun(store, await childOf(store, run.id));
    expect(child.state.context.parent).toEqual({ runId: run.id, callId: 'call_0_0' });
    expect(child.state.context.transcript[0]).toMatchObject({
      role: 'user',
      content: [{ type: 'text', text: 'find it' }],
    });
    for (const { runId } of (await store.list()).runs) {
      expect(await replayRun(store, runId, () => {})).toMatchObject({ equal: true });
    }
  });

  test('that fails gives the parent an error result that the model reads', async () => {
    const host = new ManualHost();
    const failing = answerWith(() => {
      throw new Error('no such model');
    });
    const family = makeFamily({ child: { model: failing } }, { store: memory(), host });
    const { settled } = await settleWith(family, host);
    expect(settled).toMatchObject({
      status: 'finished',
      results: [{ isError: true, output: expect.stringContaining('researcher failed') }],
    });
  });

  test('with an open approval shows it in the parent, which rests and names the child run', async () => {
    const host = new ManualHost();
    const store = memory();
    const { run, settled } = await settleWith(makeFamily(PAYING, { store, host }), host);
    assertWaiting(settled);
    const childId = await childOf(store, run.id);
    expect(settled.approvals).toMatchObject([{ name: 'pay', runId: childId, kind: 'approval' }]);
    expect(settled.open).toEqual(settled.approvals);
    expect((await eventsOf(store, run.id)).at(-1)).toMatchObject({
      type: 'tool.suspended',
      childRunId: childId,
    });
  });

  test.each([
    ['through the parent', true],
    ['through its own run', false],
  ])('continues after an approval %s, and so does the parent', async (_, throughParent) => {
    const host = new ManualHost();
    const store = memory();
    const { run, settled } = await settleWith(makeFamily(PAYING, { store, host }), host);
    assertWaiting(settled);
    const [call] = settled.approvals;
    const later = makeFamily(PAYING, { store, host });
    const decided = await later.open(throughParent ? run.id : (call?.runId ?? ''));
    expect(await decided.approve(call?.callId ?? '', { digest: call?.digest ?? '', by: 'ada' })).toEqual({
      accepted: true,
    });
    await host.advance(1_000);
    expect((await store.get(run.id))?.status).toBe('finished');
    const parent = await (await later.open(run.id)).settled();
    expect(parent).toMatchObject({ status: 'finished', results: [{ output: 'paid' }] });
    expect(await countEvents(store, run.id, 'result.received')).toBe(1);
  });

  test('whose call was rejected still returns its answer to the parent', async () => {
    const host = new ManualHost();
    const family = makeFamily(PAYING, { store: memory(), host });
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    await run.reject(settled.approvals[0]?.callId ?? '', { reason: 'too dear' });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'told' });
  });

  test('that waits for its client is answered through the parent', async () => {
    const host = new ManualHost();
    const family = makeFamily(
      {
        child: { tools: [clientTool('ask')] },
        childScript: [calls('ask'), { text: 'asked' }],
      },
      { store: memory(), host },
    );
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    const [question] = settled.open;
    if (question?.kind !== 'result') throw new Error(JSON.stringify(settled.open));
    expect(await run.answer(question, { output: 'yes' })).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ results: [{ output: 'asked' }] });
  });

  test('of a sub-agent shows its approvals in the run at the top, and is decided there', async () => {
    const host = new ManualHost();
    const store = memory();
    const payer = createAgent({
      name: 'payer',
      model: scripted([calls('pay'), { text: 'paid' }]),
      tools: [makeTool('pay', { approval: true })],
    });
    const family = makeFamily(
      {
        child: { tools: [payer.asTool({ name: 'payer', description: 'Pays.' })] },
        childScript: [calls(['payer', { input: 'pay it' }]), { text: 'had it paid' }],
      },
      { store, host },
    );
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    expect(settled.approvals).toMatchObject([{ name: 'pay' }]);
    await run.approve(settled.approvals[0]?.callId ?? '');
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'had it paid' }],
    });
    expect((await store.list()).runs.map(({ status }) => status)).toEqual([
      'finished',
      'finished',
      'finished',
    ]);
  });

  test('runs in parallel with others, and one that rests does not block another', async () => {
    const host = new ManualHost();
    const family = makeFamily(
      {
        child: {
          tools: [makeTool('pay', { approval: true })],
          model: answerWith(({ transcript }) => {
            const input = JSON.stringify(transcript[0]);
            if (input.includes('quick')) return { text: 'quickly done' };
            if (transcript.some(({ type }) => type === 'tool_result')) return { text: 'paid' };
            return { toolCalls: [{ callId: 'p', name: 'pay' }] };
          }),
        },
        script: [calls(['research', { input: 'quick' }], ['research', { input: 'slow' }]), { text: 'told' }],
      },
      { store: memory(), host },
    );
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    expect(settled.approvals).toHaveLength(1);
    expect(settled.results).toEqual([]);
    await run.approve('p');
    expect(await host.settle(run.settled())).toMatchObject({
      results: [{ output: 'quickly done' }, { output: 'paid' }],
    });
  });

  test.each([
    ['digests', { paid: 'big', rejected: 'small' }],
    ['runs', { paid: 'same', rejected: 'same' }],
  ])('with the same call ids as another gets its own decision, identified by %s', async (by, amounts) => {
    const host = new ManualHost();
    const paid: string[] = [];
    const store = memory();
    const pay = makeTool('pay', {
      approval: true,
      run: (_, { runId }) => `paid ${paid.push(runId)}`,
    });
    const family = makeFamily(
      {
        child: {
          tools: [pay],
          model: answerWith(({ transcript }) => {
            const input = JSON.stringify(transcript[0]);
            if (transcript.some(({ type }) => type === 'tool_result')) return { text: 'over' };
            const amount = input.includes('first') ? amounts.rejected : amounts.paid;
            return { toolCalls: [{ callId: 'p', name: 'pay', input: { amount } }] };
          }),
        },
        script: [
          calls(['research', { input: 'first' }], ['research', { input: 'second' }]),
          { text: 'told' },
        ],
      },
      { store, host },
    );
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    const [first, second] = settled.approvals as [OpenCall, OpenCall];
    const seen = (call: OpenCall) => (by === 'runs' ? { runId: call.runId } : { digest: call.digest });
    expect(await run.approve('p', seen(second))).toEqual({ accepted: true });
    expect(await run.reject('p', seen(first))).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(paid).toEqual([second.runId]);
  });

  test('inherits the model of its parent when it has none', async () => {
    const host = new ManualHost();
    const seen = recordRequests(
      answerWith(({ tools }) =>
        tools.length > 0
          ? { toolCalls: [{ callId: 'c', name: 'research', input: { input: 'go' } }], text: '' }
          : { text: 'same model' },
      ),
    );
    const researcher = createAgent({ name: 'researcher' });
    const writer = createAgent({
      name: 'writer',
      model: seen.model,
      limits: { turns: 3 },
      tools: [researcher.asTool({ name: 'research', description: 'Finds.' })],
      store: memory(),
      host,
    });
    await settleWith(writer, host);
    expect(seen.requests.length).toBeGreaterThan(1);
  });
});

describe('a family of agents', () => {
  test('cannot have two agents with one name', () => {
    const twin = createAgent({ name: 'writer' });
    expect(() =>
      createAgent({ name: 'writer', tools: [twin.asTool({ name: 'ask', description: 'Asks.' })] }),
    ).toThrow('"writer" is used twice');
  });

  test('an agent called as a tool without an engine returns its answer', async () => {
    const researcher = createAgent({ name: 'researcher', model: scripted([{ text: 'found' }]) });
    const tool = researcher.asTool({ name: 'research', description: 'Finds.' });
    const context = {
      signal: new AbortController().signal,
      key: 'k',
      callId: 'c',
      runId: 'r',
      runContext: undefined,
      progress() {},
    };
    expect(await tool.run?.({ input: 'go' }, context)).toBe('found');
  });

  test('a fork of a parent cannot decide the calls of the sub-agent of its source', async () => {
    const store = memory();
    const host = new ManualHost();
    const family = makeFamily(PAYING, { store, host });
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    const events = await store.read(run.id);
    const fork = await run.fork({ at: events.length });
    await host.settle(fork.settled());
    expect(await fork.approve(settled.approvals[0]?.callId ?? '')).toMatchObject({
      accepted: false,
      code: 'call-not-open',
    });
  });

  test('a fork of a parent receives the result of the sub-agent of its source', async () => {
    const store = memory();
    const host = new ManualHost();
    const family = makeFamily(PAYING, { store, host });
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    const fork = await run.fork({ at: (await store.read(run.id)).length });
    expect(await host.settle(fork.settled())).toMatchObject({ status: 'waiting', open: [] });
    await run.approve(settled.approvals[0]?.callId ?? '');
    expect((await host.settle(run.settled())).status).toBe('finished');
    const paid = (await eventsOf(store, run.id)).find(({ type }) => type === 'result.received');
    expect((await host.settle(fork.settled())).status).toBe('finished');
    const given = (await eventsOf(store, fork.id)).find(({ type }) => type === 'result.received');
    expect(given).toMatchObject({ output: paid?.type === 'result.received' ? paid.output : undefined });
  });
});
