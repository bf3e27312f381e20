import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { SimulatedProcess } from '../../support/engine/simulated-process.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../../support/sample.ts';

const TOP = 'run_top';

/** How often each call acted, by key. */
type World = Map<string, number>;

/** Two researches and a shipment in the background, each with a `once` call. All that is in doubt is looked up. */
async function work(store: Store, world: World, now: number, deathAt: number) {
  const dying = new SimulatedProcess(now, deathAt);
  const act = async (_input: unknown, { key }: { key: string }) => {
    await dying.unlessOver();
    world.set(key, (world.get(key) ?? 0) + 1);
    await dying.unlessOver();
    return 'acted';
  };
  const researcher = createAgent({
    name: 'researcher',
    model: scripted([calls('buy'), { text: 'found' }]),
    tools: [makeTool('buy', { run: act })],
  });
  const research = researcher.asTool({ name: 'research', description: 'Researches.', background: true });
  const started = calls(['research', { input: 'red' }], ['research', { input: 'blue' }], 'ship');
  const agent = createAgent({
    name: 'editor',
    host: dying.host,
    store: dying.connect(store),
    model: scripted([started, ...new Array(5).fill({ text: 'noted' })]),
    tools: [research, makeTool('ship', { background: true, run: act })],
  });
  return await dying.run(async (): Promise<Settled> => {
    const known = await store.get(TOP);
    const run = known === undefined ? await agent.start('go', { runId: TOP }) : await agent.open(TOP);
    for (;;) {
      const settled = await run.settled();
      if (settled.status !== 'waiting') return settled;
      for (const { callId, runId } of settled.doubts) {
        const hasActed = [...world.keys()].some(key => key.startsWith(`${runId}:`));
        const retry = { retry: true, force: true } as const;
        const answer = hasActed ? ({ happened: true, output: 'looked up' } as const) : retry;
        const { accepted } = await run.resolve(callId, { ...answer, runId });
        if (!accepted) throw new Error(`A decision about ${callId} was refused.`);
      }
    }
  });
}

async function runScenario(deathAt: number) {
  const store = memory();
  const world: World = new Map();
  let now = Date.UTC(2026, 0, 1);
  for (const at of [deathAt, Number.POSITIVE_INFINITY]) {
    const outcome = await work(store, world, now, at);
    if (outcome.result !== null) return { store, world, ...outcome };
    now = outcome.now + 20_000;
  }
  throw new Error('the last process does not die');
}

async function findFaults({ store, world, result }: Awaited<ReturnType<typeof runScenario>>) {
  const faults: string[] = [];
  if (result?.status !== 'finished' || result.text !== 'noted')
    faults.push(`ended as ${JSON.stringify(result)}`);
  if (world.size !== 3) faults.push(`${world.size} calls acted`);
  for (const [key, times] of world) if (times > 1) faults.push(`${key} acted ${times} times`);
  const { runs } = await store.list();
  if (runs.length !== 4) faults.push(`${runs.length} runs`);
  for (const { runId, status } of runs) {
    if (status !== 'finished') faults.push(`${runId} is ${status}`);
    if (!(await replayRun(store, runId, () => {})).equal) faults.push(`${runId} does not replay`);
  }
  const { context } = (await loadRun(store, TOP)).state;
  if (context.inbox.length > 0) faults.push(`${context.inbox.length} outcomes are unread`);
  const outcomes = (await eventsOf(store, TOP)).flatMap(event =>
    event.type === 'message.received' && event.from !== undefined ? [event.from.callId] : [],
  );
  if (outcomes.toSorted().join() !== 'call_0_0,call_0_1,call_0_2') faults.push(`outcomes of ${outcomes}`);
  return faults;
}

describe('A run with work in the background', () => {
  test('loses no outcome and repeats nothing unreported, wherever its process dies', async () => {
    const whole = await runScenario(Number.POSITIVE_INFINITY);
    expect(await findFaults(whole)).toEqual([]);
    expect(whole.points).toBeGreaterThan(100);
    const step = TAKES_ALL ? 1 : 4;
    const faults: string[] = [];
    for (let at = 1 + (TAKES_ALL ? 0 : SAMPLE_SEED % step); at <= whole.points; at += step)
      for (const fault of await findFaults(await runScenario(at))) faults.push(`died at ${at}: ${fault}`);
    expect(faults).toEqual([]);
  }, 240_000);
});
