import {
  CONTENDERS,
  expectExecutions,
  expectText,
  MEMORY,
  openContender,
  PEERS,
} from '../contenders/contender.ts';
import { answerRounds, finalText, StandIn } from '../provider.ts';
import { repeatInTime, time } from '../stopwatch.ts';
import type { Metrics, Workload } from '../workload.ts';

/** `warmUp` runs are not measured: the JIT compiler settles, as on a server. There are fewer runs of slow loops. */
type Shape = { metric: string; rounds: number; parallel: number; warmUp: number; runs: number };

const SHAPES: readonly Shape[] = [
  { metric: '3x16', rounds: 3, parallel: 16, warmUp: 400, runs: 40 },
  { metric: '1x64', rounds: 1, parallel: 64, warmUp: 200, runs: 40 },
  { metric: '1x256', rounds: 1, parallel: 256, warmUp: 100, runs: 20 },
];

/** Parallel tool calls: the cost of a run, and how the cost per call grows with their number. */
export const parallel: Workload = {
  name: 'parallel',
  title: 'Parallel tools (rounds × calls; times per run)',
  contenders: CONTENDERS,
  peers: PEERS,
  repetitions: 3,
  columns: [
    { label: 'CPU ms, 3×16', metric: '3x16 cpuMs', digits: 2 },
    { label: '× hand-written', metric: '3x16 cpuMs', as: 'ratio', digits: 1, aims: { [MEMORY]: '2.2×' } },
    { label: 'CPU ms, 1×64', metric: '1x64 cpuMs', digits: 2 },
    { label: 'CPU ms, 1×256', metric: '1x256 cpuMs', digits: 2, aims: { [MEMORY]: '5' } },
    { label: '× hand-written', metric: '1x256 cpuMs', as: 'ratio', digits: 1 },
    { label: 'wall ms, 3×16', metric: '3x16 wallMs', digits: 2 },
    { label: 'wall ms, 1×256', metric: '1x256 wallMs', digits: 2 },
  ],
  async measure(name) {
    const metrics: Metrics = {};
    const requests: string[] = [];
    for (const shape of SHAPES) requests.push(await measureShape(name, shape, metrics));
    return { requests: requests.join(' '), metrics };
  },
};

async function measureShape(name: string, shape: Shape, metrics: Metrics): Promise<string> {
  const { metric, rounds, parallel: calls, warmUp } = shape;
  const provider = new StandIn({ answer: answerRounds(rounds, calls) });
  const contender = await openContender(name, provider);
  const run = async () => expectText(await contender.run('Measure the points.'), finalText(rounds));
  const requests = await provider.record(run);
  const warmedUp = await repeatInTime(warmUp, run);
  const { cpuMs, wallMs, result: runs } = await time(() => repeatInTime(shape.runs, run));
  expectExecutions(contender, (1 + warmedUp + runs) * rounds * calls);
  await contender.close();
  metrics[`${metric} cpuMs`] = cpuMs / runs;
  metrics[`${metric} wallMs`] = wallMs / runs;
  return requests;
}
