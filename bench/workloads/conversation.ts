import {
  CONTENDERS,
  type Contender,
  expectExecutions,
  expectText,
  openContender,
  PEERS,
} from '../contenders/contender.ts';
import { answerConversation, finalText, StandIn } from '../provider.ts';
import { fitExponent, median } from '../statistics.ts';
import type { Metrics, Workload } from '../workload.ts';

const RUNS = 200;
/** The number of runs whose median is reported for the run in their middle. */
const WINDOW = 11;
const PLACES = [10, 50, 100, 195] as const;

/** A long conversation: the cost of a run after many earlier ones. Each run is a message, a tool call and an answer. */
export const conversation: Workload = {
  name: 'conversation',
  title: `A conversation of ${RUNS} runs, each continuing the one before (wall ms per run)`,
  contenders: CONTENDERS,
  peers: PEERS,
  repetitions: 2,
  columns: [
    ...PLACES.map(place => ({ label: `run ${place}`, metric: `${place} wallMs`, digits: 2 })),
    { label: `× hand-written, run ${PLACES[3]}`, metric: `${PLACES[3]} wallMs`, as: 'ratio', digits: 2 },
    { label: 'total ms', metric: 'totalMs' },
    { label: 'exponent 50–195', metric: 'exponent', digits: 2 },
  ],
  async measure(name) {
    const provider = new StandIn({ answer: answerConversation() });
    const contender = await openContender(name, provider);
    const requests = await provider.record(() => talk(contender, 20));
    await talk(contender, RUNS / 2);
    const times = await talk(contender, RUNS);
    expectExecutions(contender, 20 + 1.5 * RUNS);
    await contender.close();
    const metrics: Metrics = { totalMs: times.reduce((sum, ms) => sum + ms, 0) };
    for (const place of PLACES) metrics[`${place} wallMs`] = timeAround(times, place);
    metrics.exponent = fitExponent(
      PLACES.slice(1).map(place => ({ size: place, cost: timeAround(times, place) })),
    );
    return { requests, metrics };
  },
};

/** Returns the duration of each run of a conversation in ms. */
async function talk(contender: Contender, runs: number): Promise<number[]> {
  const say = contender.converse();
  const times: number[] = [];
  for (let run = 1; run <= runs; run += 1) {
    const begun = performance.now();
    const text = await say(`Measure point ${run}.`);
    times.push(performance.now() - begun);
    expectText(text, finalText(run));
  }
  return times;
}

function timeAround(times: readonly number[], place: number): number {
  const from = place - Math.ceil(WINDOW / 2);
  return median(times.slice(from, from + WINDOW));
}
