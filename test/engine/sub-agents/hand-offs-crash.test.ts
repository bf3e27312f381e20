import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { SimulatedProcess } from '../../support/engine/simulated-process.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../../support/sample.ts';

const RUNS = ['run_first', 'run_second', 'run_third'];

type World = Map<string, number>;

/** A conversation of three messages: handed over, a gated refund by the sub-agent, and handed back. */
async function work(store: Store, world: World, now: number, deathAt: number) {
  const dying = new SimulatedProcess(now, deathAt);
  const act = async (_input: unknown, { key }: { key: string }) => {
    await dying.unlessOver();
    world.set(key, (world.get(key) ?? 0) + 1);
    await dying.unlessOver();
    return 'acted';
  };
  // The script counts all turns that the model reads: those of the front desk come first.
  const billing = createAgent({
    name: 'billing',
    model: scripted([
      { text: '' },
      { text: 'What for?' },
      calls('refund'),
      { text: 'Refunded.' },
      calls('transfer_to_front_desk'),
    ]),
    tools: [makeTool('refund', { approval: true, run: act })],
  });
  const agent = createAgent({
    name: 'front_desk',
    host: dying.host,
    store: dying.connect(store),
    model: scripted([calls('transfer_to_billing'), {}, {}, { text: 'Bye.' }]),
    handoffs: [billing],
  });
  const drive = async (): Promise<Settled[]> => {
    const ended: Settled[] = [];
    for (const [at, runId] of RUNS.entries()) {
      const continues = at === 0 ? {} : { continues: RUNS[at - 1] ?? '' };
      const known = await store.get(runId);
      const run =
        known === undefined
          ? await agent.start(['Money back.', 'Order 7.', 'Thanks.'][at] ?? '', { runId, ...continues })
          : await agent.open(runId);
      for (;;) {
        const settled = await run.settled();
        if (settled.status !== 'waiting') {
          ended.push(settled);
          break;
        }
        for (const { callId } of settled.approvals) await run.approve(callId, { by: 'ann' });
        for (const { callId } of settled.doubts) {
          const hasActed = world.size > 0;
          const retry = { retry: true, force: true } as const;
          await run.resolve(callId, hasActed ? { happened: true, output: 'found outside' } : retry);
        }
      }
    }
    return ended;
  };
  return await dying.run(drive);
}

async function converse(deathAt: number) {
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

async function findFaults({ store, world, result: settled }: Awaited<ReturnType<typeof converse>>) {
  const faults: string[] = [];
  const told = settled?.map(one => (one.status === 'finished' ? `${one.agent}: ${one.text}` : one.status));
  const expected = ['billing: What for?', 'billing: Refunded.', 'front_desk: Bye.'];
  if (JSON.stringify(told) !== JSON.stringify(expected)) faults.push(`answers: ${JSON.stringify(settled)}`);
  if (world.size !== 1) faults.push(`${world.size} refunds`);
  for (const [key, times] of world) if (times > 1) faults.push(`${key} acted ${times} times`);
  const { runs } = await store.list();
  if (runs.length !== 6) faults.push(`${runs.length} runs`);
  for (const { runId, status } of runs) {
    if (status !== 'finished') faults.push(`${runId} is ${status}`);
    if (!(await replayRun(store, runId, () => {})).equal) faults.push(`${runId} does not replay`);
  }
  return faults;
}

describe('A conversation that is handed over and back', () => {
  test('loses nothing and doubles nothing, wherever the process dies', async () => {
    const { points, ...whole } = await converse(Number.POSITIVE_INFINITY);
    expect(await findFaults({ points, ...whole })).toEqual([]);
    expect(points).toBeGreaterThan(60);
    const step = TAKES_ALL ? 1 : 3;
    const faults: string[] = [];
    for (let at = 1 + (TAKES_ALL ? 0 : SAMPLE_SEED % step); at <= points; at += step)
      for (const fault of await findFaults(await converse(at))) faults.push(`died at ${at}: ${fault}`);
    expect(faults).toEqual([]);
  }, 120_000);
});
