import { join } from 'node:path';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { atMost, createAgent, never, rule, tool } from '../../agent/index.ts';
import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { makeProgress } from '../../stores/conformance/check.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { backtest } from '../../testing/index.ts';
import { time } from '../stopwatch.ts';
import { makeTemporaryFolder } from '../temporary-folder.ts';
import type { Workload } from '../workload.ts';

const RUNS = 10_000;
const TURNS = 10;
const RESULT = 'x'.repeat(2_048);
/** Runs that each continue the one before: a thread as long as it gets in a year of daily work. */
const THREAD = 1_000;

/** A backtest of many stored runs, and of one long thread. */
export const backtesting: Workload = {
  name: 'backtest',
  title: `Rules tried on ${RUNS.toLocaleString('en-US')} runs of ${TURNS} turns with results of 2 KB (aim: under 60 s)`,
  contenders: ['sqlite'],
  repetitions: 1,
  columns: [
    { label: 'all, s', metric: 'allS', digits: 1 },
    { label: 'a run, CPU ms', metric: 'runMs', digits: 2 },
    {
      label: `a run of a thread of ${THREAD.toLocaleString('en-US')}, CPU ms`,
      metric: 'threadMs',
      digits: 2,
    },
    { label: 'heap, MB', metric: 'heapMb', digits: 0 },
  ],
  async measure() {
    const store = sqlite(join(makeTemporaryFolder(), 'runs.db'));
    const events = await recordOnce();
    await copyRuns(store, events, RUNS, () => ({ labels: { kind: 'single' } }));
    await copyRuns(store, events, THREAD, index => ({
      labels: { kind: 'thread' },
      ...(index > 0 && { continues: `thread_${index - 1}` }),
    }));
    const agent = makeAgent(store);
    const single = await time(() => tryOn(agent, 'single', RUNS));
    const { heapUsed } = process.memoryUsage();
    const thread = await time(() => tryOn(agent, 'thread', THREAD));
    const metrics = {
      allS: single.wallMs / 1_000,
      runMs: single.cpuMs / RUNS,
      threadMs: thread.cpuMs / THREAD,
      heapMb: heapUsed / 1_048_576,
    };
    await store.close();
    return { requests: '', metrics };
  },
};

function makeAgent(store: Store) {
  const input = z.object({ to: z.string() });
  const calls = Array.from({ length: TURNS - 1 }, (_, index) => ({
    toolCalls: [{ name: index % 3 === 0 ? 'browse' : 'mail', arguments: { to: `ada${index}` } }],
  }));
  const plain = (name: string, tags: string[]) =>
    tool({ name, description: name, input, sideEffect: 'idempotent', tags, run: () => RESULT });
  return createAgent({
    name: 'desk',
    store,
    model: scripted([...calls, { text: 'Done.' }]),
    tools: [plain('browse', ['untrusted']), plain('mail', ['leaves'])],
    rules: [
      rule({ when: never('leaves').after('untrusted'), mode: 'shadow' }),
      rule({ when: atMost(3).of('mail'), mode: 'shadow', per: 'run' }),
      rule({ name: 'function', when: ({ history }) => history.length > 5, mode: 'shadow' }),
    ],
  });
}

async function recordOnce(): Promise<readonly RunEvent[]> {
  const store = memory();
  const run = await makeAgent(store).start('Write to Ada.');
  await run.settled();
  return (await store.read(run.id)).map(({ event }) => event);
}

/** Stores so many runs with these events. */
async function copyRuns(
  store: Store,
  [first, ...events]: readonly RunEvent[],
  count: number,
  change: (index: number) => Partial<RunStarted>,
): Promise<void> {
  if (first?.type !== 'run.started') throw new Error('The run has no start.');
  for (let from = 0; from < count; from += 100) {
    const made = Array.from({ length: Math.min(100, count - from) }, (_, offset) => {
      const index = from + offset;
      const started = { ...first, at: first.at + index, ...change(index) };
      const runId = `${started.labels?.kind}_${index}`;
      const rest = { events, status: 'finished', progress: makeProgress('finished') } as const;
      return store.create({ ...started, runId }, undefined, rest);
    });
    await Promise.all(made);
  }
}

async function tryOn(agent: ReturnType<typeof makeAgent>, kind: string, expected: number): Promise<void> {
  const { runs, skipped } = await backtest(agent, { labels: { kind } });
  if (runs !== expected || skipped.length > 0) throw new Error(`${runs} of ${expected} runs were read.`);
}
