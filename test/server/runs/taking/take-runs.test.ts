import { describe, expect, test } from 'vitest';
import { scripted } from '../../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../../agent/agent.ts';
import type { FaultPoint } from '../../../../engine/host/host.ts';
import type { Store } from '../../../../protocol/store.ts';
import { createRunsApp } from '../../../../server/app.ts';
import { POLL_INTERVAL_MS } from '../../../../server/runs/take-runs.ts';
import { memory } from '../../../../stores/memory.ts';
import { ManualHost } from '../../../../testing/manual-host.ts';
import { calls, makeGate, makeTool, wordsOf } from '../../../support/engine/agents.ts';
import { makeDyingProcess } from '../../../support/engine/dying-process.ts';
import { watchStore } from '../../../support/engine/watched-store.ts';

const TOP = 'run_top';

/** A lead calls a manager, who calls a clerk, who pays after an approval; or a lead calls the clerk directly. */
function makeLead(store: Store, host: ManualHost, deep: boolean): Agent {
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls('pay'), { text: 'paid' }]),
    tools: [makeTool('pay', { approval: true, sideEffect: 'idempotent' })],
  });
  const manager = createAgent({
    name: 'manager',
    model: scripted([calls(['clerk', { input: 'pay' }]), { text: 'managed' }]),
    tools: [clerk.asTool({ name: 'clerk', description: 'Pays.' })],
  });
  const [name, below] = deep ? (['manager', manager] as const) : (['clerk', clerk] as const);
  return createAgent({
    name: 'lead',
    store,
    host,
    model: scripted([calls([name, { input: 'pay' }]), { text: 'done' }]),
    tools: [below.asTool({ name, description: 'Works.' })],
  });
}

/** The lead's run waits for an approval below it; its process has ended. */
async function rest(store: Store, deep: boolean) {
  const host = new ManualHost({ name: 'first_' });
  const run = await makeLead(store, host, deep).start('go', { runId: TOP });
  const settled = await host.settle(run.settled());
  if (settled.status !== 'waiting') throw new Error(`it is ${settled.status}`);
  const [call] = settled.approvals;
  if (call === undefined) throw new Error('nobody is asked');
  return { call, now: host.now() };
}

/**
 * A process that opens the clerk's run alone, approves its call, and dies at its `deathAt`-th fault point. Returns
 * the point, or `null` if it finished first.
 */
async function approveAndDie(
  store: Store,
  { call, now }: Awaited<ReturnType<typeof rest>>,
  deathAt: number,
  deep: boolean,
) {
  const { host, store: dying, death, died } = makeDyingProcess(store, { now, name: 'second_', deathAt });
  const lead = makeLead(dying, host, deep);
  const work = async () => {
    const run = await lead.open(call.runId);
    await run.approve(call.callId);
    await run.settled();
    await host.advance(1_000);
  };
  const done = work().catch(error => {
    if (death() === null) throw error;
  });
  await host.settle(Promise.race([done, died]));
  return { died: death(), now: host.now() };
}

/** A later server; returns the lead's run after a few polls. */
async function serve(store: Store, now: number, deep: boolean) {
  const host = new ManualHost({ now: now + 60_000, name: 'third_' });
  const app = createRunsApp({ store, host, agents: new Map([['lead', makeLead(store, host, deep)]]) });
  await app.pickUp();
  await host.advance(4 * POLL_INTERVAL_MS);
  app.close();
  return await store.get(TOP);
}

describe('a server that recovers runs', () => {
  test.each([
    ['one level', false],
    ['two levels', true],
  ])(
    'strands no run whose sub-agent %s below was driven by a process that died, at any point',
    async (_, deep) => {
      const stranded: Record<string, unknown> = {};
      const passed = new Set<FaultPoint>();
      for (let at = 1; ; at += 1) {
        const store = memory();
        const rested = await rest(store, deep);
        const { died, now } = await approveAndDie(store, rested, at, deep);
        const [child] = (await store.list({ limit: 1000 })).runs.filter(({ agent }) => agent === 'clerk');
        const decided = (await wordsOf(store, child?.runId ?? '')).some(word => word.startsWith('approval'));
        const lead = decided ? await serve(store, now, deep) : undefined;
        if (decided && lead?.status !== 'finished') stranded[`${at} ${died}`] = lead?.status;
        if (died === null) break;
        passed.add(died);
      }
      expect(stranded).toEqual({});
      expect([...passed]).toEqual(expect.arrayContaining(['append.after', 'release.after']));
    },
  );

  test('continues with a run as soon as what it waits for has ended in another process', async () => {
    const store = memory();
    const rested = await rest(store, false);
    const host = new ManualHost({ now: rested.now, name: 'third_' });
    const app = createRunsApp({ store, host, agents: new Map([['lead', makeLead(store, host, false)]]) });
    expect(await app.pickUp()).toEqual([]);
    await untilReleased(store, rested);
    await host.idle();
    expect(await store.get(TOP)).toMatchObject({ status: 'finished' });
    app.close();
  });

  test('continues with a fork once the sub-agent of its original has ended', async () => {
    const store = memory();
    const rested = await rest(store, false);
    const forking = new ManualHost({ now: rested.now, name: 'fork_' });
    const run = await makeLead(store, forking, false).open(TOP);
    const fork = await run.fork({ at: (await store.read(TOP)).length });
    expect(await store.get(fork.id)).toMatchObject({ status: 'waiting' });
    const host = new ManualHost({ now: forking.now(), name: 'third_' });
    const app = createRunsApp({ store, host, agents: new Map([['lead', makeLead(store, host, false)]]) });
    await app.pickUp();
    await host.advance(4 * POLL_INTERVAL_MS);
    const claims = async () => (await wordsOf(store, fork.id)).filter(word => word.startsWith('run.claimed'));
    expect([(await store.get(fork.id))?.status, await claims()]).toEqual(['waiting', []]);
    await untilReleased(store, rested);
    await host.advance(60 * POLL_INTERVAL_MS);
    expect(await store.get(fork.id)).toMatchObject({ status: 'finished' });
    app.close();
  });

  test('finds what a process leaves behind in a store that tells nothing', async () => {
    const store = memory();
    const rested = await rest(store, false);
    const host = new ManualHost({ now: rested.now, name: 'third_' });
    const silent = watchStore(store, {});
    const agents = new Map([['lead', makeLead(silent, host, false)]]);
    const app = createRunsApp({ store: silent, host, agents });
    expect(await app.pickUp()).toEqual([]);
    await host.advance(POLL_INTERVAL_MS);
    await untilReleased(store, rested);
    expect(await store.get(TOP)).toMatchObject({ status: 'waiting' });
    await host.advance(2 * POLL_INTERVAL_MS);
    expect(await store.get(TOP)).toMatchObject({ status: 'finished' });
    app.close();
  });

  test('takes over a run whose driver died while the server runs, once its lease has expired', async () => {
    const store = memory();
    const host = new ManualHost({ name: 'first_' });
    const gate = makeGate<string>();
    const tools = (run: () => Promise<string> | string) => [makeTool('look', { sideEffect: 'none', run })];
    const model = scripted([calls('look'), { text: 'done' }]);
    const frozen = createAgent({ name: 'a', host, store, model, tools: tools(() => gate.promise) });
    const second = new ManualHost({ name: 'second_' });
    const agent = createAgent({ name: 'a', host: second, store, model, tools: tools(() => 'seen') });
    const app = createRunsApp({ store, host: second, agents: new Map([['a', agent]]) });
    await app.pickUp();
    const { id } = await frozen.start('go');
    await host.idle();
    await second.advance(POLL_INTERVAL_MS);
    expect(await store.get(id)).toMatchObject({ status: 'running' });
    await second.advance(3 * POLL_INTERVAL_MS);
    expect(await store.get(id)).toMatchObject({ status: 'finished' });
    app.close();
  });

  test('retries a run that cannot be driven after doubling waits, and logs the reason', async () => {
    const store = memory();
    const host = new ManualHost();
    const full = watchStore(store, {
      beforeAppend: () => Promise.reject(new Error('no space left')),
    });
    const agent = createAgent({ name: 'a', host, store: full, model: scripted([{ text: 'done' }]) });
    await store.create(agent.input('go', { runId: 'run_left' }));
    const log: string[] = [];
    const agents = new Map([['a', agent]]);
    const app = createRunsApp({ store, host, agents, log: line => log.push(line) });
    expect(await app.pickUp()).toEqual(['run_left']);
    await host.advance(100 * POLL_INTERVAL_MS);
    const claims = (await wordsOf(store, 'run_left')).filter(word => word === 'run.claimed').length;
    expect(claims).toBeGreaterThan(3);
    expect(claims).toBeLessThan(9);
    expect(log[0]).toContain('no space left');
    app.close();
    await host.advance(100 * POLL_INTERVAL_MS);
    expect((await wordsOf(store, 'run_left')).filter(word => word === 'run.claimed')).toHaveLength(claims);
  });
});

/** Another process approves the clerk's call and drives its run to its end without notifying anybody. */
async function untilReleased(store: Store, rested: Awaited<ReturnType<typeof rest>>): Promise<void> {
  for (let at = 1; ; at += 1) {
    const copy = memory();
    const { died } = await approveAndDie(copy, await rest(copy, false), at, false);
    if (died !== 'release.after') continue;
    await approveAndDie(store, rested, at, false);
    return;
  }
}
