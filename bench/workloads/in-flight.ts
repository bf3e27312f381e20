import {
  CONTENDERS,
  expectExecutions,
  expectText,
  MEMORY,
  openContender,
  PEERS,
  SQLITE,
} from '../contenders/contender.ts';
import { answerRounds, finalText, StandIn } from '../provider.ts';
import { repeat, time } from '../stopwatch.ts';
import type { Workload } from '../workload.ts';

const RUNS = 500;
/** The number of runs before the memory of a run is measured: the first ones load code. */
const FIRST = 100;
/** How often all runs are repeated until the JIT compiler has settled, as on a server. */
const WARM_UP = 3;
const ROUNDS = 2;
const CALL_MS = 50;

/** Many concurrent runs in one process, each waiting for its model most of the time. */
export const inFlight: Workload = {
  name: 'in-flight',
  title: `${RUNS} runs in flight, ${ROUNDS + 1} model calls of ${CALL_MS} ms each (ideal ${(ROUNDS + 1) * CALL_MS} ms)`,
  contenders: CONTENDERS,
  peers: PEERS,
  repetitions: 2,
  columns: [
    { label: 'wall ms', metric: 'wallMs' },
    {
      label: '× hand-written',
      metric: 'wallMs',
      as: 'ratio',
      digits: 2,
      aims: { [MEMORY]: '1.0×', [SQLITE]: '1.4×' },
    },
    { label: 'CPU ms/run', metric: 'cpuMsPerRun', digits: 2 },
    { label: 'RSS KB/run', metric: 'rssKbPerRun', aims: { [MEMORY]: '140' } },
  ],
  async measure(name) {
    const provider = new StandIn({ answer: answerRounds(ROUNDS, 1), delayMs: CALL_MS });
    const contender = await openContender(name, provider);
    const run = async () => expectText(await contender.run('Measure the points.'), finalText(ROUNDS));
    const requests = await provider.record(run);
    await inParallel(FIRST, run);
    const rssKbPerRun = await measureMemory(run);
    await repeat(WARM_UP, () => inParallel(RUNS, run));
    const { cpuMs, wallMs } = await time(() => inParallel(RUNS, run));
    expectExecutions(contender, (1 + FIRST + (2 + WARM_UP) * RUNS) * ROUNDS);
    await contender.close();
    return { requests, metrics: { wallMs, cpuMsPerRun: cpuMs / RUNS, rssKbPerRun } };
  },
};

/** Returns the memory that the process gets for a run in flight, in KB. Measured before the heap has grown. */
async function measureMemory(run: () => Promise<void>): Promise<number> {
  collectGarbage();
  const before = process.memoryUsage.rss();
  let peak = before;
  const look = () => {
    peak = Math.max(peak, process.memoryUsage.rss());
  };
  const looking = setInterval(look, 5);
  await inParallel(RUNS, run);
  clearInterval(looking);
  look();
  return (peak - before) / 1024 / RUNS;
}

async function inParallel(runs: number, run: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: runs }, run));
}

function collectGarbage(): void {
  if (globalThis.gc === undefined) throw new Error('This workload needs node --expose-gc.');
  globalThis.gc();
}
