import { get } from 'node:http';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { sqlite } from '../../../../stores/sqlite.ts';

/** Looks at a server from a thread of its own, which the readers do not slow down: at `/healthz`, and at the lease of a run. */
export type ReaderWatchData = { folder: string; port: number; runId: string };

/** What the thread found: the longest answer of `/healthz` in ms, and how often the lease had run out. */
export type Watched = { longestHealthMs: number; lapses: number };

/** How often it looks, in ms. */
const LOOK_MS = 25;

const { folder, port, runId }: ReaderWatchData = workerData;
const store = sqlite(join(folder, 'runs.db'));
const watched: Watched = { longestHealthMs: 0, lapses: 0 };
let isOver = false;

/** On a connection of its own each time. */
async function askHealth(): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const options = { host: '127.0.0.1', port, path: '/healthz', agent: false };
  get(options, response => response.resume().once('end', resolve)).once('error', reject);
  await promise;
}

async function look(): Promise<void> {
  while (!isOver) {
    const asked = performance.now();
    await askHealth();
    watched.longestHealthMs = Math.max(watched.longestHealthMs, performance.now() - asked);
    const { leaseUntil = 0 } = (await store.get(runId)) ?? {};
    if (leaseUntil < Date.now()) watched.lapses += 1;
    await wait(LOOK_MS);
  }
}

await askHealth();
parentPort?.postMessage('watching');
const looking = look();
parentPort?.once('message', async () => {
  isOver = true;
  await looking;
  await store.close();
  parentPort?.postMessage(watched);
});
