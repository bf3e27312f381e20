import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { SimulatedProcess } from '../../support/engine/simulated-process.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../../support/sample.ts';

const TOP = 'run_top';
/** External side effects: how often each call acted, by key. */
type Environment = Map<string, number>;

/** One process that drives the family until its `deathAt`-th fault point, and decides all open calls. */
async function work(store: Store, world: Environment, now: number, deathAt: number) {
  const dying = new SimulatedProcess(now, deathAt);
  const act = async (_input: unknown, { key }: { key: string }) => {
    await dying.unlessOver();
    world.set(key, (world.get(key) ?? 0) + 1);
    await Promise.resolve();
    await dying.unlessOver();
    return 'acted';
  };
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls('look', 'pay'), calls('pay'), { text: 'paid' }]),
    tools: [makeTool('look', { sideEffect: 'none' }), makeTool('pay', { approval: true, run: act })],
  });
  const agent = createAgent({
    name: 'lead',
    host: dying.host,
    store: dying.connect(store),
    model: scripted([calls(['clerk', { input: 'pay twice' }], 'note'), { text: 'done' }]),
    tools: [clerk.asTool({ name: 'clerk', description: 'Pays.' }), makeTool('note', { run: act })],
  });
  const drive = async (): Promise<Settled> => {
    const known = await store.get(TOP);
    const run = known === undefined ? await agent.start('go', { runId: TOP }) : await agent.open(TOP);
    for (;;) {
      const settled = await run.settled();
      if (settled.status !== 'waiting') return settled;
      await decideAll(run, settled, world);
    }
  };
  return await dying.run(drive);
}

/** A retry is forced: a function of a process that ended never returns here, so it counts as running in this process. */
async function decideAll(run: Run, settled: Extract<Settled, { status: 'waiting' }>, world: Environment) {
  const outcomes = [];
  for (const { callId, digest } of settled.approvals)
    outcomes.push(await run.approve(callId, { digest, by: 'ann' }));
  for (const { callId, runId } of settled.doubts) {
    const hasActed = [...world.keys()].some(key => key.startsWith(`${runId}:`) && key.endsWith(callId));
    const retry = { retry: true, force: true } as const;
    outcomes.push(await run.resolve(callId, hasActed ? { happened: true, output: 'found outside' } : retry));
  }
  const refused = outcomes.find(({ accepted }) => !accepted);
  if (refused !== undefined) throw new Error(`A decision was refused: ${JSON.stringify(refused)}`);
}

async function runScenario(deaths: readonly number[]) {
  const store = memory();
  const world: Environment = new Map();
  let now = Date.UTC(2026, 0, 1);
  let fired = 0;
  for (const deathAt of [...deaths, Number.POSITIVE_INFINITY]) {
    const outcome = await work(store, world, now, deathAt);
    if (outcome.result !== null) return { store, world, fired, ...outcome };
    fired += 1;
    now = outcome.now + 20_000;
  }
  throw new Error('the last process does not die');
}

async function findFaults({ store, world, result: settled }: Awaited<ReturnType<typeof runScenario>>) {
  const faults: string[] = [];
  if (settled?.status !== 'finished' || settled.text !== 'done')
    faults.push(`ended as ${JSON.stringify(settled)}`);
  const runs = (await store.list()).runs;
  if (runs.length !== 2) faults.push(`${runs.length} runs`);
  for (const [key, times] of world) if (times > 1) faults.push(`${key} acted ${times} times`);
  if (world.size !== 3) faults.push(`${world.size} calls acted`);
  for (const { runId, status } of runs) {
    if (status !== 'finished') faults.push(`${runId} is ${status}`);
    if (!(await replayRun(store, runId, () => {})).equal) faults.push(`${runId} does not replay`);
    const { transcript } = (await loadRun(store, runId)).state.context;
    for (const item of transcript) {
      if (item.type !== 'tool_call') continue;
      const results = transcript.filter(
        other => other.type === 'tool_result' && other.callId === item.callId,
      );
      if (results.length !== 1) faults.push(`${runId} ${item.callId} has ${results.length} results`);
    }
  }
  const answers = (await eventsOf(store, TOP)).filter(
    event =>
      (event.type === 'tool.settled' || event.type === 'result.received') && event.callId === 'call_0_0',
  );
  if (answers.length !== 1) faults.push(`the sub-agent answered ${answers.length} times`);
  return faults;
}

describe('a run and its sub-agent whose process dies', () => {
  test('at any one point lose nothing and repeat nothing unreported', async () => {
    const { points } = await runScenario([]);
    expect(points).toBeGreaterThan(60);
    const faulty: Record<string, string[]> = {};
    for (let at = 1; at <= points; at += 1) {
      const scenario = await runScenario([at]);
      expect(scenario.fired, `point ${at}`).toBe(1);
      const faults = await findFaults(scenario);
      if (faults.length > 0) faulty[at] = faults;
    }
    expect(faulty).toEqual({});
  });

  test('at two points, the second during recovery, lose nothing and repeat nothing unreported', async () => {
    const { points } = await runScenario([]);
    const faulty: Record<string, string[]> = {};
    let fired = 0;
    const step = TAKES_ALL ? 7 : 21;
    for (let first = TAKES_ALL ? 1 : 1 + 7 * (SAMPLE_SEED % 3); first <= points; first += step) {
      for (let second = 1 + (first % 5); second <= 40; second += 7) {
        const scenario = await runScenario([first, second]);
        fired += scenario.fired;
        const faults = await findFaults(scenario);
        if (faults.length > 0) faulty[`${first}, ${second}`] = faults;
      }
    }
    expect(faulty).toEqual({});
    expect(fired).toBeGreaterThan(TAKES_ALL ? 80 : 20);
  });
});
