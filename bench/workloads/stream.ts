import {
  CONTENDERS,
  type Contender,
  expectText,
  MEMORY,
  openContender,
  PEERS,
} from '../contenders/contender.ts';
import { answerStream, StandIn, streamedText } from '../provider.ts';
import { median } from '../statistics.ts';
import { repeat, repeatInTime, time } from '../stopwatch.ts';
import type { Workload } from '../workload.ts';

const CHUNKS = 20_000;
const STREAMS = 2;
const SHORT = 200;
/** The number of short streams until the JIT compiler has settled, as on a server. */
const SHORT_WARM_UP = 600;
const SHORT_STREAMS = 100;

/** A long streamed answer: the throughput for the reader, and the time to the first delta. */
export const stream: Workload = {
  name: 'stream',
  title: `${CHUNKS.toLocaleString('en-US')} streamed chunks; the first delta of a run of ${SHORT}`,
  contenders: CONTENDERS,
  peers: PEERS,
  repetitions: 3,
  columns: [
    { label: 'chunks/s', metric: 'chunksPerSecond' },
    { label: 'CPU µs/chunk', metric: 'cpuUsPerChunk', digits: 2 },
    { label: '× hand-written', metric: 'cpuUsPerChunk', as: 'ratio', digits: 2, aims: { [MEMORY]: '1.1×' } },
    { label: 'first delta ms', metric: 'firstDeltaMs', digits: 2 },
    { label: 'added ms', metric: 'firstDeltaMs', as: 'added', digits: 2, aims: { [MEMORY]: '0.1' } },
  ],
  async measure(name) {
    const provider = new StandIn({ answer: answerStream(CHUNKS) });
    const contender = await openContender(name, provider);
    const expected = streamedText(CHUNKS);
    const read = async () => expectText(await contender.read('Tell me.', () => {}), expected);
    const requests = await provider.record(read);
    await repeat(2, read);
    const { cpuMs, wallMs } = await time(() => repeat(STREAMS, read));
    provider.answer = answerStream(SHORT);
    await repeatInTime(SHORT_WARM_UP, () => timeFirstDelta(contender));
    const firstDeltas: number[] = [];
    await repeat(SHORT_STREAMS, async () => firstDeltas.push(await timeFirstDelta(contender)));
    await contender.close();
    const chunks = CHUNKS * STREAMS;
    return {
      requests,
      metrics: {
        chunksPerSecond: (chunks / wallMs) * 1000,
        cpuUsPerChunk: (cpuMs / chunks) * 1000,
        firstDeltaMs: median(firstDeltas),
      },
    };
  },
};

async function timeFirstDelta(contender: Contender): Promise<number> {
  const begun = performance.now();
  let first = Number.NaN;
  const text = await contender.read('Tell me.', () => {
    if (Number.isNaN(first)) first = performance.now() - begun;
  });
  expectText(text, streamedText(SHORT));
  return first;
}
