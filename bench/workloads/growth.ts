import {
  COMPACTED,
  CONTENDERS,
  expectExecutions,
  expectText,
  MEMORY,
  openContender,
  PEERS,
} from '../contenders/contender.ts';
import { answerCompacted, answerRounds, finalText, StandIn } from '../provider.ts';
import { fitExponent, median } from '../statistics.ts';
import { repeat, time } from '../stopwatch.ts';
import type { Metrics, Workload } from '../workload.ts';

const ROUNDS = [25, 50, 100, 200] as const;
const WARM_UP_ROUNDS = 800;
const RUNS = 2;

/** Long runs: how the cost grows with the number of rounds, when each round sends the full history. */
export const growth: Workload = {
  name: 'growth',
  title: 'Long runs, 1 tool per round (CPU ms per run; exponent 1 is linear)',
  contenders: [...CONTENDERS, COMPACTED],
  peers: PEERS,
  repetitions: 2,
  columns: [
    ...ROUNDS.map(rounds => ({ label: `${rounds} rounds`, metric: `${rounds} cpuMs`, digits: 2 })),
    { label: '× hand-written, 200', metric: '200 cpuMs', as: 'ratio', digits: 2, aims: { [MEMORY]: '1.2×' } },
    { label: 'exponent 25–200', metric: 'exponent', digits: 2 },
    { label: 'exponent 100–200', metric: 'lateExponent', digits: 2 },
    { label: '− hand-written', metric: 'lateExponent', as: 'added', digits: 2, aims: { [MEMORY]: '0.1' } },
  ],
  async measure(name) {
    const metrics: Metrics = {};
    const requests: string[] = [];
    const points: { size: number; cost: number }[] = [];
    for (const rounds of ROUNDS) {
      const answer = name === COMPACTED ? answerCompacted(rounds) : answerRounds(rounds, 1);
      const provider = new StandIn({ answer });
      const contender = await openContender(name, provider);
      const run = async () => expectText(await contender.run('Measure the points.'), finalText(rounds));
      requests.push(await provider.record(run));
      const warmUp = Math.ceil(WARM_UP_ROUNDS / ROUNDS.length / rounds);
      await repeat(warmUp, run);
      const costs: number[] = [];
      await repeat(RUNS, async () => costs.push((await time(run)).cpuMs));
      expectExecutions(contender, (1 + warmUp + RUNS) * rounds);
      await contender.close();
      const cost = median(costs);
      metrics[`${rounds} cpuMs`] = cost;
      points.push({ size: rounds, cost });
    }
    metrics.exponent = fitExponent(points);
    metrics.lateExponent = fitExponent(points.slice(-2));
    return { requests: name === COMPACTED ? '' : requests.join(' '), metrics };
  },
};
