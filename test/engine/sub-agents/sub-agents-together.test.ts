import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { MAX_CRASHES } from '../../../engine/driver/detect-crash-loop.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { OpenCall } from '../../../engine/log/settled.ts';
import { commandFor } from '../../../protocol/open/answer.ts';
import type { Store } from '../../../protocol/store.ts';
import type { ToolCallContext } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool, makeTracedTool } from '../../support/engine/agents.ts';
import {
  assertWaiting,
  childOf,
  type Family,
  makeFamily,
  PAYING,
  settleWith,
} from '../../support/engine/family.ts';
import { answerWith } from '../../support/engine/models.ts';

const never = () => new Promise<never>(() => {});
const LATER_MS = 60_000;

/** A family whose sub-agent pays behind an approval; `keys` collects the keys of its payments. */
function makePaying(keys: string[], more: Partial<Family> = {}): Family {
  return { ...PAYING, child: { tools: [makeTracedTool('pay', keys, { approval: true })] }, ...more };
}

describe('a decision that names only a call id', () => {
  test("is not applied to a sub-agent's call when the parent's call with that id is already decided", async () => {
    const keys: string[] = [];
    const host = new ManualHost();
    const store = memory();
    const child = createAgent({
      name: 'researcher',
      model: scripted([calls('pay'), { text: 'paid' }]),
      tools: [makeTracedTool('pay', keys, { approval: true })],
    });
    const parent = createAgent({
      name: 'writer',
      store,
      host,
      model: scripted([calls(['research', { input: 'go' }]), { text: 'told' }]),
      tools: [child.asTool({ name: 'research', description: 'Finds.', approval: true })],
    });
    const run = await parent.start('go');
    await host.settle(run.settled());
    expect(await run.approve('call_0_0', { by: 'ann' })).toEqual({ accepted: true });
    const settled = await host.settle(run.settled());
    assertWaiting(settled);
    expect(await run.approve('call_0_0', { by: 'bob' })).toMatchObject({
      accepted: false,
      code: 'already-decided',
      by: 'ann',
    });
    expect(keys).toEqual([]);
    const [{ digest, runId }] = settled.approvals as [OpenCall];
    expect(await run.approve('call_0_0', { digest, runId, by: 'bob' })).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(keys).toHaveLength(1);
  });

  test('is refused when two sub-agents have such a call, naming both runs', async () => {
    const host = new ManualHost();
    const script = [calls(['research', { input: 'a' }], ['research', { input: 'b' }]), { text: 'told' }];
    const family = makeFamily({ ...PAYING, script }, { store: memory(), host });
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    const [first, second] = settled.approvals as [OpenCall, OpenCall];
    const refused = await run.approve(first.callId);
    expect(refused).toMatchObject({ accepted: false, code: 'refused' });
    for (const { runId } of [first, second])
      expect(refused).toHaveProperty('message', expect.stringContaining(runId));
    for (const { callId, runId } of [first, second]) {
      expect(await run.approve(callId, { runId })).toEqual({ accepted: true });
    }
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
  });

  test('is refused with the id of an unrelated run', async () => {
    const keys: string[] = [];
    const host = new ManualHost();
    const tools = [makeTracedTool('pay', keys, { approval: true })];
    const model = scripted([calls('pay'), { text: 'done' }]);
    const agent = createAgent({ name: 'a', store: memory(), host, model, tools });
    const { run } = await settleWith(agent, host);
    expect(await run.approve('call_0_0', { runId: 'run_of_somebody_else' })).toMatchObject({
      accepted: false,
      code: 'call-unknown',
    });
    await host.idle();
    expect(keys).toEqual([]);
  });

  test('is refused with the earlier decision when the sub-agent has ended', async () => {
    const host = new ManualHost();
    const { run, settled } = await settleWith(makeFamily(PAYING, { store: memory(), host }), host);
    assertWaiting(settled);
    const [{ callId, runId, digest }] = settled.approvals as [OpenCall];
    await run.approve(callId, { runId, by: 'ann' });
    await host.settle(run.settled());
    expect(await run.reject(callId, { runId, digest })).toMatchObject({ code: 'already-decided', by: 'ann' });
  });
});

describe('a run that was restored in a store without its sub-agent', () => {
  test('has the call in doubt instead of calling the sub-agent again', async () => {
    const keys: string[] = [];
    const host = new ManualHost();
    const child = {
      model: answerWith(({ transcript }) =>
        transcript.some(({ type }) => type === 'tool_result')
          ? never()
          : { toolCalls: [{ callId: 'p', name: 'pay' }] },
      ),
      tools: [makeTracedTool('pay', keys)],
    };
    const run = await makeFamily({ child }, { store: memory(), host }).start('go');
    await host.idle();
    expect(keys).toHaveLength(1);
    const later = new ManualHost({ now: host.now() + LATER_MS, name: 'b' });
    const restored = await makeFamily({ child }, { store: memory(), host: later }).restore(run.snapshot());
    expect(await later.settle(restored.settled())).toMatchObject({ doubts: [{ name: 'research' }] });
    expect(keys).toHaveLength(1);
  });
});

/** Drives a sub-agent that makes `turns` calls and answers; each process of the family hangs after one more call. */
async function driveInSteps(store: Store, deaths: number, turns: number) {
  const child = (allowed: number): NonNullable<Family['child']> => ({
    limits: { turns: 40 },
    model: answerWith(({ transcript }) => {
      const results = transcript.filter(({ type }) => type === 'tool_result').length;
      if (results >= allowed) return never();
      return results >= turns ? { text: 'found' } : { toolCalls: [{ callId: `c${results}`, name: 'look' }] };
    }),
    tools: [makeTool('look', { sideEffect: 'none' })],
  });
  let now = Date.UTC(2026, 0, 1);
  for (let process = 1; process <= deaths; process += 1) {
    const host = new ManualHost({ now, name: `${process}_` });
    const agent = makeFamily({ child: child(process) }, { store, host });
    if (process === 1) await agent.start('go', { runId: 'run_top' });
    else void (await agent.open('run_top')).settled();
    await host.idle();
    await host.idle();
    now += LATER_MS;
  }
  const host = new ManualHost({ now, name: 'last_' });
  const run = await makeFamily({ child: child(Number.POSITIVE_INFINITY) }, { store, host }).open('run_top');
  return await host.settle(run.settled());
}

describe('two paused sub-agents', () => {
  async function pauseBoth() {
    const host = new ManualHost();
    const child = createAgent({
      name: 'researcher',
      model: scripted([calls('pay'), { text: 'paid' }]),
      tools: [makeTool('pay', { approval: true })],
    });
    const research = child.asTool({ name: 'research', description: 'Finds.' });
    const asks = calls(['research', { input: 'one' }], ['research', { input: 'two' }]);
    const model = scripted([asks, { text: 'told' }]);
    const parent = createAgent({ name: 'writer', store: memory(), host, model, tools: [research] });
    const run = await parent.start('go');
    const settled = await host.settle(run.settled());
    assertWaiting(settled);
    for (const { runId } of settled.approvals) await (await parent.open(runId)).pause();
    const paused = await host.settle(run.settled());
    assertWaiting(paused);
    return { run, host, pauses: paused.open.filter(({ kind }) => kind === 'pause') };
  }

  test.each([0, 1])(
    'are continued one by one, by the command for the open thing: first the one at %i',
    async at => {
      const { run, host, pauses } = await pauseBoth();
      expect(pauses).toHaveLength(2);
      const [chosen, other] = [pauses[at], pauses[1 - at]];
      if (chosen === undefined || other === undefined) throw new Error('two are paused');
      expect(await run.submit([commandFor(chosen, { type: 'continue' })])).toEqual({ accepted: true });
      const settled = await host.settle(run.settled());
      assertWaiting(settled);
      expect(settled.open.filter(({ kind }) => kind === 'pause')).toEqual([other]);
      expect(await run.unpause({ runId: chosen.runId })).toMatchObject({ accepted: false, code: 'refused' });
      expect(await run.unpause()).toEqual({ accepted: true });
      expect(await host.settle(run.settled())).toMatchObject({ paused: false });
    },
  );

  test('are not continued by a submission of several commands, which applies to one run', async () => {
    const { run, pauses } = await pauseBoth();
    const [first] = pauses;
    if (first === undefined) throw new Error('one is paused');
    const commands = [commandFor(first, { type: 'step' }), { type: 'pause' } as const];
    expect(await run.submit(commands)).toMatchObject({ accepted: false, code: 'refused', index: 0 });
  });
});

describe('a family whose processes die', () => {
  test('is not paused while its sub-agent makes progress in each process', async () => {
    const settled = await driveInSteps(memory(), MAX_CRASHES + 3, MAX_CRASHES + 4);
    expect(settled).toMatchObject({ status: 'finished', results: [{ output: 'found' }] });
  });

  test('shows a quarantined sub-agent with the reason, and unpauses it through its parent', async () => {
    const store = memory();
    const hanging: Family = { child: { model: answerWith(never) } };
    let now = Date.UTC(2026, 0, 1);
    const open = (family: Family) => {
      now += LATER_MS;
      const host = new ManualHost({ now, name: `${now}_` });
      return { host, agent: makeFamily(family, { store, host }) };
    };
    const first = open(hanging);
    await first.agent.start('go', { runId: 'run_top' });
    await first.host.idle();
    for (let died = 1; died < MAX_CRASHES; died += 1) {
      const { host, agent } = open(hanging);
      void (await agent.open('run_top')).settled();
      await host.idle();
    }
    const { host, agent } = open({});
    const run = await agent.open('run_top');
    const quarantined = await host.settle(run.settled());
    expect(quarantined).toMatchObject({
      status: 'waiting',
      paused: true,
      open: [{ kind: 'pause', runId: run.id, reason: expect.stringContaining('died') }],
    });
    await run.unpause();
    const theirs = await host.settle(run.settled());
    expect(theirs).toMatchObject({
      status: 'waiting',
      paused: true,
      open: [{ kind: 'pause', reason: expect.stringContaining('died') }],
    });
    expect(run.context.paused).toBe(false);
    expect(await run.unpause()).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      results: [{ output: 'found' }],
    });
  });

  test('resumes the sub-agent even when its token limit is spent by then', async () => {
    const store = memory();
    const usage = {
      inputTokens: 4_000,
      outputTokens: 1_000,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
    };
    const small = { inputTokens: 1, outputTokens: 1 };
    const family = (isLate: boolean): Family => ({
      parent: { limits: { tokens: 2_000 } },
      script: [
        { ...calls(['research', { input: 'dear' }], ['research', { input: 'slow' }]), usage: small },
        { text: 'told', usage: small },
      ],
      child: {
        model: answerWith(({ transcript }) => {
          if (JSON.stringify(transcript[0]).includes('dear')) return { text: 'dear', usage };
          return isLate ? { text: 'slow', usage } : never();
        }),
      },
    });
    const host = new ManualHost();
    await makeFamily(family(false), { store, host }).start('go', { runId: 'run_top' });
    await host.idle();
    const later = new ManualHost({ now: host.now() + LATER_MS, name: 'b' });
    const run = await makeFamily(family(true), { store, host: later }).open('run_top');
    expect(await later.settle(run.settled())).toMatchObject({
      results: [{ output: 'dear' }, { output: 'slow' }],
    });
  });
});

describe('cancelling a family', () => {
  test('whose process died also cancels the running sub-agent, and lists the calls without results', async () => {
    const store = memory();
    const host = new ManualHost();
    const child = {
      model: answerWith(() => ({ toolCalls: [{ callId: 'p', name: 'pay' }] })),
      tools: [makeTool('pay', { run: never })],
    };
    const run = await makeFamily({ child }, { store, host }).start('go');
    await host.idle();
    const later = new ManualHost({ now: host.now() + LATER_MS, name: 'b' });
    const bare = await createAgent({ name: 'writer', store, host: later }).open(run.id);
    expect(await bare.cancel()).toEqual({ accepted: true });
    expect((await store.list()).runs.map(({ status }) => status)).toEqual(['cancelled', 'cancelled']);
    expect(await later.settle(bare.settled())).toMatchObject({
      unsettled: [{ name: 'research' }, { name: 'pay', runId: await childOf(store, run.id) }],
    });
  });
});

describe('a fork', () => {
  test('of a run with a running sub-agent starts its own after a resolution to retry, and does not affect the source', async () => {
    const keys: string[] = [];
    const store = memory();
    const host = new ManualHost();
    const family = makeFamily(makePaying(keys), { store, host });
    const { run, settled } = await settleWith(family, host);
    assertWaiting(settled);
    const started = (await store.read(run.id)).find(({ event }) => event.type === 'tool.started');
    const fork = await run.fork({ at: started?.seq ?? 0 });
    expect(await host.settle(fork.settled())).toMatchObject({ doubts: [{ name: 'research' }] });
    await fork.resolve('call_0_0', { retry: true });
    const its = await host.settle(fork.settled());
    assertWaiting(its);
    expect(its.approvals[0]?.runId).not.toBe(settled.approvals[0]?.runId);
    await fork.cancel();
    const [{ callId, runId, digest }] = settled.approvals as [OpenCall];
    await run.approve(callId, { runId, digest });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'told' });
    expect(keys).toHaveLength(1);
  });

  test('of a suspended run does not show the approvals of the sub-agent of its source', async () => {
    const store = memory();
    const host = new ManualHost();
    const { run } = await settleWith(makeFamily(PAYING, { store, host }), host);
    const fork = await run.fork({ at: (await store.read(run.id)).length });
    expect(await host.settle(fork.settled())).toMatchObject({
      status: 'waiting',
      open: [],
    });
  });

  test("of a sub-agent's run has no parent, even after the parent has ended", async () => {
    const store = memory();
    const host = new ManualHost();
    const family = makeFamily({}, { store, host });
    const { run } = await settleWith(family, host);
    const child = await family.open(await childOf(store, run.id));
    const fork = await child.fork({ at: 2 });
    expect(await host.settle(fork.settled())).toMatchObject({ status: 'finished', text: 'found' });
    expect((await loadRun(store, fork.id)).state.context.parent).toBeNull();
  });
});

describe('one agent shared by several', () => {
  test('can be a tool of a run and of its sub-agent', async () => {
    const host = new ManualHost();
    const ran: string[] = [];
    const look = makeTool('look', {
      sideEffect: 'none',
      run: (_, { runId }: ToolCallContext) => `${ran.push(runId)}`,
    });
    const searcher = createAgent({
      name: 'searcher',
      model: scripted([calls('look'), { text: 'searched' }]),
      tools: [look],
    });
    const search = searcher.asTool({ name: 'search', description: 'Searches.' });
    const family = makeFamily(
      {
        parent: { tools: [search] },
        child: { tools: [search] },
        script: [calls(['research', { input: 'a' }], ['search', { input: 'b' }]), { text: 'told' }],
        childScript: [calls(['search', { input: 'c' }]), { text: 'found' }],
      },
      { store: memory(), host },
    );
    expect((await settleWith(family, host)).settled).toMatchObject({
      results: [{ output: 'found' }, { output: 'searched' }],
    });
    expect(new Set(ran).size).toBe(2);
  });
});
