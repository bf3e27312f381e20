import {
  AI_SDK,
  CONTENDERS,
  expectExecutions,
  expectText,
  HAND_LOOP_SQLITE,
  MEMORY,
  openContender,
  PEERS,
  SQLITE,
  SQLITE_ONCE,
} from '../contenders/contender.ts';
import { answerRounds, finalText, StandIn } from '../provider.ts';
import { repeatInTime, time } from '../stopwatch.ts';
import type { Workload } from '../workload.ts';

const ROUNDS = 20;
const CALLS = ROUNDS + 1;
/** The number of runs until the JIT compiler has settled, as on a server: about 30,000 turns, fewer of slow loops. */
const WARM_UP = 1_500;
const RUNS = 100;

/** The cost of a turn: the loop's own work around a model that responds immediately. */
export const turns: Workload = {
  name: 'turns',
  title: `${ROUNDS} rounds × 1 tool, ${CALLS} model calls per run (full history sent each time)`,
  contenders: [...CONTENDERS, HAND_LOOP_SQLITE, SQLITE_ONCE],
  peers: PEERS,
  repetitions: 3,
  columns: [
    { label: 'CPU µs/turn', metric: 'cpuUsPerTurn' },
    {
      label: '× hand-written',
      metric: 'cpuUsPerTurn',
      as: 'ratio',
      digits: 2,
      aims: { [MEMORY]: '1.4×', [SQLITE]: '3.5×' },
    },
    {
      label: '× AI SDK',
      metric: 'cpuUsPerTurn',
      as: 'ratio',
      to: AI_SDK,
      digits: 2,
      aims: { [MEMORY]: '0.6×' },
    },
    { label: 'added µs', metric: 'cpuUsPerTurn', as: 'added' },
    { label: 'wall µs/turn', metric: 'wallUsPerTurn' },
  ],
  async measure(name) {
    const provider = new StandIn({ answer: answerRounds(ROUNDS, 1) });
    const contender = await openContender(name, provider);
    const run = async () => expectText(await contender.run('Measure the points.'), finalText(ROUNDS));
    const requests = await provider.record(run);
    const warmedUp = await repeatInTime(WARM_UP, run);
    const { cpuMs, wallMs, result: runs } = await time(() => repeatInTime(RUNS, run));
    expectExecutions(contender, (1 + warmedUp + runs) * ROUNDS);
    await contender.close();
    const perTurn = 1000 / (runs * CALLS);
    return { requests, metrics: { cpuUsPerTurn: cpuMs * perTurn, wallUsPerTurn: wallMs * perTurn } };
  },
};
