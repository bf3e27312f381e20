import { join } from 'node:path';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, tool } from '../../agent/index.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { makeProgress } from '../../stores/conformance/check.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { regress } from '../../testing/index.ts';
import { time } from '../stopwatch.ts';
import { makeTemporaryFolder } from '../temporary-folder.ts';
import type { Workload } from '../workload.ts';

const RUNS = 1_000;
const TURNS = 20;
const RESULT = 'x'.repeat(2_048);
const MB = 1_048_576;

/** Recorded runs played on the agent, and written to a store. */
export const regressing: Workload = {
  name: 'regress',
  title: `${RUNS.toLocaleString('en-US')} recorded runs of ${TURNS} turns played on the scripted model (aim: under 60 s, flat memory)`,
  contenders: ['sqlite'],
  repetitions: 1,
  columns: [
    { label: 'all, s', metric: 'allS', digits: 1 },
    { label: 'a turn, CPU ms', metric: 'turnMs', digits: 2 },
    { label: 'heap after 100, MB', metric: 'earlyMb', digits: 0 },
    { label: 'heap after all, MB', metric: 'lateMb', digits: 0 },
  ],
  async measure() {
    const folder = makeTemporaryFolder();
    const [store, out] = [sqlite(join(folder, 'runs.db')), sqlite(join(folder, 'played.db'))];
    await copyRuns(store, await recordOnce());
    let earlyMb = 0;
    const played = await time(async () => {
      const { same } = await regress(makeAgent(memory()), {
        runs: { store, last: RUNS },
        out,
        onProgress: ({ done }) => {
          if (done === 100) earlyMb = heapMb();
        },
      });
      if (same !== RUNS) throw new Error(`${same} of ${RUNS} runs were the same.`);
    });
    const metrics = {
      allS: played.wallMs / 1_000,
      turnMs: played.cpuMs / RUNS / TURNS,
      earlyMb,
      lateMb: heapMb(),
    };
    await Promise.all([store.close(), out.close()]);
    return { requests: '', metrics };
  },
};

function heapMb(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / MB;
}

function makeAgent(store: Store) {
  const calls = Array.from({ length: TURNS - 1 }, (_, index) => ({
    toolCalls: [{ name: 'browse', arguments: { page: index } }],
  }));
  return createAgent({
    name: 'desk',
    store,
    durability: 'relaxed',
    model: scripted([...calls, { text: 'Done.' }]),
    tools: [
      tool({
        name: 'browse',
        description: 'Reads a page.',
        input: z.object({ page: z.number() }),
        sideEffect: 'none',
        run: () => RESULT,
      }),
    ],
  });
}

async function recordOnce(): Promise<readonly RunEvent[]> {
  const store = memory();
  const run = await makeAgent(store).start('Read the pages.');
  await run.settled();
  return (await store.read(run.id)).map(({ event }) => event);
}

async function copyRuns(store: Store, [first, ...events]: readonly RunEvent[]): Promise<void> {
  if (first?.type !== 'run.started') throw new Error('The run has no start.');
  for (let index = 0; index < RUNS; index += 1) {
    const started = { ...first, at: first.at + index, runId: `run_${index}` };
    await store.create(started, undefined, {
      events,
      status: 'finished',
      progress: makeProgress('finished'),
    });
  }
}
