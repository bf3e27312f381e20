import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerPool } from './worker-pool.ts';

/** What became of the runs, and how many kills struck a worker with runs in hand. */
export type Killed = {
  kills: number;
  struck: number;
  finished: number;
  doubted: number;
  /** Runs that neither finished nor are in doubt. */
  lost: number;
  /** Payments that began twice, or were missing in a run that finished. */
  doubles: number;
  seconds: number;
};

type KillOptions = { runs: number; workers: number; kills: number; pauseMs: number };

/** Kills workers one after another, each replaced immediately, while runs are in progress. Every payment is `once`. */
export async function killWorkers(
  pool: WorkerPool,
  { runs, workers: count, kills, pauseMs }: KillOptions,
): Promise<Killed> {
  const began = performance.now();
  const pace = { modelMs: 100, toolMs: 150, leaseMs: 2_000 };
  const start = () => pool.startWorker(pace, ['--slots', '4']);
  const workers = await Promise.all(Array.from({ length: count }, start));
  const ids = await pool.begin(Math.ceil(runs / 2));
  let struck = 0;
  for (let kill = 0; kill < kills; kill += 1) {
    // The rest arrives along the way, so that there is work at every kill.
    const due = Math.ceil(((kill + 1) * Math.floor(runs / 2)) / kills) - (ids.length - Math.ceil(runs / 2));
    ids.push(...(await pool.begin(due)));
    await delay(pauseMs);
    const at = kill % count;
    const { pid } = workers[at]?.child ?? {};
    workers[at]?.kill('SIGKILL');
    await workers[at]?.ended;
    if ((await pool.records()).some(({ owner }) => owner?.pid === pid)) struck += 1;
    workers[at] = await start();
  }
  const rested = await pool.rests(120_000);
  const begun = Map.groupBy(pool.noted('begin'), ({ runId }) => runId);
  const statusOf = new Map((await pool.records()).map(({ runId, status }) => [runId, status]));
  let [finished, doubted, lost] = [0, 0, rested ? 0 : 1];
  let doubles = pool.doubles().length;
  for (const runId of ids) {
    const status = statusOf.get(runId);
    if (status === 'finished') {
      finished += 1;
      if (begun.get(runId)?.length !== 1) doubles += 1;
    } else if (status === 'waiting' && (await pool.isInDoubt(runId))) doubted += 1;
    else lost += 1;
  }
  const seconds = Math.round((performance.now() - began) / 1_000);
  return { kills, struck, finished, doubted, lost, doubles, seconds };
}
