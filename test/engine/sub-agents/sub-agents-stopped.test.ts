import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { countEvents, eventsOf, makeGate, makeTool, resultsIn } from '../../support/engine/agents.ts';
import {
  assertWaiting,
  childOf,
  type Family,
  makeFamily,
  PAYING,
  settleWith,
} from '../../support/engine/family.ts';
import { answerWith } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

describe('a sub-agent after a crash', () => {
  test('is resumed by the call that started it; no second run is created', async () => {
    const store = memory();
    const gate = makeGate<{ text: string }>();
    const first = new ManualHost();
    const hanging = { child: { model: answerWith(() => gate.promise) } };
    const dying = makeFamily(hanging, { store, host: first });
    const run = await dying.start('go');
    await first.idle();
    expect((await store.list()).runs).toHaveLength(2);
    const host = new ManualHost({ now: first.now() + 60_000, name: 'b' });
    const reopened = await makeFamily({}, { store, host }).open(run.id);
    expect(await host.settle(reopened.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'found' }],
    });
    expect((await store.list()).runs).toHaveLength(2);
    expect(await countEvents(store, run.id, 'tool.settled')).toBe(1);
    gate.open({ text: 'too late' });
    await first.idle();
    expect(resultsIn((await loadRun(store, run.id)).state.context.transcript)).toEqual({ call_0_0: 'found' });
  });

  test('whose end was not reported to its parent is found when the parent is opened', async () => {
    const store = memory();
    const host = new ManualHost();
    const { run, settled } = await settleWith(makeFamily(PAYING, { store, host }), host);
    assertWaiting(settled);
    const childId = await childOf(store, run.id);
    const alone = createAgent({
      name: 'researcher',
      host,
      ...PAYING.child,
      model: scripted(PAYING.childScript ?? []),
      store: watchStore(store, {
        beforeAppend(runId) {
          if (runId === run.id) throw new Error('cut off');
        },
      }),
    });
    const child = await alone.open(childId);
    await child.approve(settled.approvals[0]?.callId ?? '');
    expect(await host.settle(child.settled())).toMatchObject({ status: 'finished' });
    await host.idle();
    expect((await store.get(run.id))?.status).toBe('waiting');
    const reopened = await makeFamily(PAYING, { store, host }).open(run.id);
    expect(await host.settle(reopened.settled())).toMatchObject({ status: 'finished', text: 'told' });
  });

  test('reports its end to its parent from a process that has only the sub-agent', async () => {
    const store = memory();
    const host = new ManualHost();
    const { run, settled } = await settleWith(makeFamily(PAYING, { store, host }), host);
    assertWaiting(settled);
    const alone = createAgent({
      name: 'researcher',
      host,
      store,
      ...PAYING.child,
      model: scripted(PAYING.childScript ?? []),
    });
    const child = await alone.open(await childOf(store, run.id));
    await child.approve(settled.approvals[0]?.callId ?? '');
    await host.settle(child.settled());
    await host.idle();
    expect((await eventsOf(store, run.id)).at(-1)).toMatchObject({
      type: 'result.received',
      output: 'paid',
      isError: false,
    });
  });
});

describe('cancelling', () => {
  test('a run cancels its running sub-agent', async () => {
    const store = memory();
    const host = new ManualHost();
    const hanging = answerWith((_request, _before) => new Promise<never>(() => {}));
    const run = await makeFamily({ child: { model: hanging } }, { store, host }).start('go');
    await host.idle();
    const cancelled = run.cancel();
    await host.advance(6_000);
    expect(await cancelled).toEqual({ accepted: true });
    await host.advance(6_000);
    expect((await store.list()).runs.map(({ status }) => status)).toEqual(['cancelled', 'cancelled']);
  });

  test('a run cancels its resting sub-agents, from a process without their agents', async () => {
    const store = memory();
    const host = new ManualHost();
    const { run } = await settleWith(makeFamily(PAYING, { store, host }), host);
    const bare = await createAgent({ name: 'writer', store, host }).open(run.id);
    expect(await bare.cancel()).toEqual({ accepted: true });
    expect((await store.list()).runs.map(({ status }) => status)).toEqual(['cancelled', 'cancelled']);
  });

  test('a sub-agent whose parent has ended is cancelled instead of acting on an approval', async () => {
    const store = memory();
    const host = new ManualHost();
    const paid: string[] = [];
    const paying = (): Family => ({
      ...PAYING,
      child: { tools: [makeTool('pay', { approval: true, run: (_, { key }) => String(paid.push(key)) })] },
    });
    const { run, settled } = await settleWith(makeFamily(paying(), { store, host }), host);
    assertWaiting(settled);
    const [call] = settled.approvals;
    const { state, seq } = await loadRun(store, run.id);
    const end: RunEvent = { type: 'run.cancelled', at: state.context.now + 1, unsettled: [] };
    await store.append(run.id, { after: seq, input: true }, [end], { status: 'cancelled' });
    const child = await makeFamily(paying(), { store, host }).open(call?.runId ?? '');
    await child.approve(call?.callId ?? '');
    expect(await host.settle(child.settled())).toMatchObject({ status: 'cancelled' });
    expect(paid).toEqual([]);
  });

  test('a call that waits for a sub-agent is not open, and no one but its run can answer it', async () => {
    const store = memory();
    const host = new ManualHost();
    const { run, settled } = await settleWith(makeFamily(PAYING, { store, host }), host);
    assertWaiting(settled);
    const [approval] = settled.approvals;
    expect(settled.open).toEqual([approval]);
    const [placeholder] = run.context.calls;
    const { callId = '', digest = '' } = placeholder ?? {};
    for (const named of [{ digest }, { runId: run.id }, { digest, runId: run.id }])
      expect(await run.answer(callId, { ...named, output: 'never mind' })).toMatchObject({ accepted: false });
    expect(await run.answer(callId, { digest, output: 'never mind' })).toMatchObject({
      code: 'call-not-open',
      message: expect.stringContaining(`waits for run ${approval?.runId} of its sub-agent`),
    });
    await run.approve(approval?.callId ?? '');
    const ended = await host.settle(run.settled());
    expect(ended).toMatchObject({ status: 'finished', results: [{ name: 'research', isError: false }] });
    expect(JSON.stringify(ended)).not.toContain('never mind');
  });
});
