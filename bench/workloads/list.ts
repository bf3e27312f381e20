import { join } from 'node:path';
import { omitUndefined } from '../../protocol/json.ts';
import type { RunStatus, Store } from '../../protocol/store.ts';
import { begin, makeProgress } from '../../stores/conformance/check.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { median } from '../statistics.ts';
import { repeat, time } from '../stopwatch.ts';
import { makeTemporaryFolder } from '../temporary-folder.ts';
import type { Metrics, Workload } from '../workload.ts';

const RUNS = 10_000;
const PAGES = 20;
/** The number of lists until the JIT compiler has settled, as on a server. */
const WARM_UP = 50;

const STATUSES: readonly RunStatus[] = ['finished', 'finished', 'failed', 'waiting', 'cancelled'];

const LISTS = {
  newestMs: {},
  labelMs: { labels: { user: '7' } },
  waitingMs: { labels: { tenant: 'a' }, status: 'waiting' },
  rareMs: { labels: { tenant: 'a', user: '7' }, status: 'running', agent: 'refunds' },
  textMs: { text: 'order a-99' },
  noneMs: { labels: { tenant: 'a' }, text: 'nowhere' },
} as const;

/** A page of a list of many runs: the median over its first pages, for several filters. */
export const list: Workload = {
  name: 'list',
  title: `A page of 50 of ${RUNS.toLocaleString('en-US')} runs, by filter (CPU ms, aim: under 5)`,
  contenders: ['memory', 'sqlite'],
  repetitions: 3,
  columns: Object.keys(LISTS).map(metric => ({ label: metric.replace('Ms', ''), metric, digits: 1 })),
  async measure(contender) {
    const store = contender === 'memory' ? memory() : sqlite(join(makeTemporaryFolder(), 'runs.db'));
    await fill(store);
    const metrics: Metrics = {};
    for (const [metric, filter] of Object.entries(LISTS)) metrics[metric] = await measurePages(store, filter);
    await store.close();
    return { requests: '', metrics };
  },
};

/** Half of the runs are of tenant a, one in a hundred is of user 7, and one in five waits. */
async function fill(store: Store): Promise<void> {
  const created = Array.from({ length: RUNS }, (_, index) => {
    const labels = { user: String(index % 100), tenant: index % 2 === 0 ? 'b' : 'a' };
    const started = begin(`run_${index}`, { at: 1000 + index, labels, title: `Refund order A-${index}` });
    const status = STATUSES[index % STATUSES.length] ?? 'finished';
    const progress = makeProgress(status, { why: 'the model answered without calls', endedAt: 2000 + index });
    return store.create(started, undefined, { events: [], status, progress });
  });
  await Promise.all(created);
}

async function measurePages(store: Store, filter: Parameters<Store['list']>[0]): Promise<number> {
  await repeat(WARM_UP, () => store.list(filter));
  const costs: number[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES; page += 1) {
    const { cpuMs } = await time(async () => {
      const { next } = await store.list({ ...filter, ...omitUndefined({ cursor }) });
      cursor = next;
    });
    costs.push(cpuMs);
  }
  return median(costs);
}
