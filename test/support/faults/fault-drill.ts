import type { Agent } from '../../../agent/agent.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { Store } from '../../../protocol/store.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { type Environment, findFaults, makeDrilledAgent, makeEnvironment, work } from './drilled-run.ts';
import { type Fault, type FaultyStore, type Method, makeFaultyStore } from './fault-store.ts';

/** Which process continues: the same one with its run, or a later one with the store. */
export type Recovery = 'same-process' | 'later-process';

export type FaultDrill = {
  /** The error of the run and the error of the store in each process, in order; the last process runs to the end. */
  reported: { error: unknown; fired: unknown }[];
  /** The number of faults that happened. */
  fired: number;
  settled: Settled;
  /** The faults of the outcome; empty on success. */
  faults: string[];
  /** The number of calls of each store method, per process. */
  counts: ReadonlyMap<Method, number>[];
};

/** Plays the drilled run over a faulty store. After each fault the run continues as `recovery` says, and meets the next fault. */
export async function runFaultDrill(
  inner: Store,
  recovery: Recovery,
  ...planned: readonly Fault[]
): Promise<FaultDrill> {
  const world = makeEnvironment();
  const drill: FaultDrill = { reported: [], fired: 0, settled: NOT_YET, faults: [], counts: [] };
  let process = makeProcess(inner, world, 1, START);
  for (let attempt = 0; ; attempt += 1) {
    const { host, faulty } = process;
    faulty.plan(planned[attempt]);
    const ended = await host.settle(work(process, inner, world).then(asSettled, asError));
    if ('error' in ended) await expectQuiet(faulty, host, world, drill.faults);
    else await host.advance(10_000);
    const fired = faulty.fired();
    if (fired !== undefined) drill.fired += 1;
    drill.counts.push(faulty.takeCounts());
    if ('settled' in ended) {
      drill.faults.push(...(await findFaults(inner, world, ended.settled)));
      return { ...drill, settled: ended.settled };
    }
    drill.reported.push({ error: ended.error, fired });
    if (fired === undefined) throw ended.error;
    faulty.plan(undefined);
    if (recovery === 'later-process') process = makeProcess(inner, world, attempt + 2, host.now() + 60_000);
  }
}

const START = Date.UTC(2026, 0, 1);
const NOT_YET: Settled = { status: 'cancelled', unsettled: [], usage: null, turns: 0 };

type Process = { host: ManualHost; faulty: FaultyStore; agent: Agent; run?: Run };

function makeProcess(inner: Store, world: Environment, number: number, now: number): Process {
  const host = Object.assign(new ManualHost({ now, name: `p${number}_` }), { leaseMs: LEASE_MS });
  const faulty = makeFaultyStore(inner, host);
  return { host, faulty, agent: makeDrilledAgent(host, faulty.store, world) };
}

/** Short, so that it is renewed while a tool runs. */
const LEASE_MS = 900;

const asSettled = (settled: Settled) => ({ settled });
const asError = (error: unknown) => ({ error });

/** Checks that after a store failure nothing continues in the background: no tool is called, and the store at most a few times. */
async function expectQuiet(
  { calls }: FaultyStore,
  host: ManualHost,
  { acts }: Environment,
  faults: string[],
): Promise<void> {
  await host.idle();
  const [called, acted] = [calls(), countActs(acts)];
  await host.advance(10_000);
  if (countActs(acts) !== acted) faults.push('a tool was called after the store had failed');
  if (calls() - called > MOST_LATER_CALLS)
    faults.push(`the store was called ${calls() - called} times after it had failed`);
}

/** Calls of a process that holds a run: to notify a parent, and to look for commands. */
const MOST_LATER_CALLS = 10;

function countActs(acts: Environment['acts']): number {
  return [...acts.values()].reduce((sum, { keys }) => sum + keys.length, 0);
}
