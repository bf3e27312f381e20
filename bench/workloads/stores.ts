import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { begin, receive } from '../../stores/conformance/check.ts';
import { POSTGRES_BIN } from '../../test/support/stores/postgres-server.ts';
import { median } from '../statistics.ts';
import { describeStart, makeIdler, TURNS } from '../stores/bench-agent.ts';
import { measureIdle } from '../stores/measure-idle.ts';
import { makePlace, openNotifier, openStore, type Place } from '../stores/open-stores.ts';
import type { Metrics, Workload } from '../workload.ts';

const APPEND_MS = 3_000;
const SLOTS = 32;
const MODELS_MS = [0, 300];
const DECISIONS = 40;

/** The figures of a store that several processes share. */
export const stores: Workload = {
  name: 'stores',
  title: `Stores that processes share: appends/s with 1 and ${SLOTS} runs; turns/s of 1, 2 and 4 workers by ms of the model; ms until a driver has a foreign message (aim: 10), and until a bare notification of a commit arrives; KB a run; calls/s of an idle run (aim: 1)`,
  contenders: POSTGRES_BIN === undefined ? ['sqlite'] : ['sqlite', 'postgres'],
  repetitions: 1,
  columns: [
    { label: 'append 1', metric: 'appends1' },
    { label: `append ${SLOTS}`, metric: 'appends32' },
    ...MODELS_MS.flatMap(ms =>
      [1, 2, 4].map(workers => ({ label: `${workers}w ${ms}ms`, metric: `turns${workers}x${ms}` })),
    ),
    { label: 'message', metric: 'messageMs', digits: 1 },
    { label: 'bare', metric: 'bareMs', digits: 1 },
    { label: 'KB/run', metric: 'kilobytes', digits: 1 },
    { label: 'calls/s', metric: 'idleCalls', digits: 2 },
  ],
  async measure(contender) {
    const metrics: Metrics = {};
    const measureIn = async (measure: (place: Place) => Promise<Metrics>) => {
      const place = await makePlace(contender);
      try {
        Object.assign(metrics, await measure(place));
      } finally {
        await place.close();
      }
    };
    await measureIn(measureAppends);
    for (const modelMs of MODELS_MS)
      for (const workers of [1, 2, 4]) await measureIn(place => measureTurns(place, workers, modelMs));
    await measureIn(measureMessages);
    await measureIn(async ({ address }) => ({ idleCalls: (await measureIdle(address)).callsPerRun }));
    return { requests: '', metrics };
  },
};

async function measureAppends({ address }: Place): Promise<Metrics> {
  const store = openStore(address);
  const appendsOf = async (runs: number) => {
    let appended = 0;
    const until = performance.now() + APPEND_MS;
    const append = async (runId: string) => {
      await store.create(begin(runId));
      for (let after = 1; performance.now() < until; after += 1) {
        await store.append(runId, { after, epoch: 0 }, [receive('x')], { status: 'running' });
        appended += 1;
      }
    };
    await Promise.all(Array.from({ length: runs }, (_, index) => append(`${runs}-${index}`)));
    return appended / (APPEND_MS / 1000);
  };
  const metrics = { appends1: await appendsOf(1), appends32: await appendsOf(SLOTS) };
  await store.close();
  return metrics;
}

/** Workers take runs of three turns until all have finished. */
async function measureTurns(place: Place, workers: number, modelMs: number): Promise<Metrics> {
  const store = openStore(place.address);
  const started = await describeStart();
  const runs = modelMs === 0 ? 300 : 3 * SLOTS * workers;
  const processes = await Promise.all(
    Array.from({ length: workers }, () => startWorker(place.address, modelMs)),
  );
  const before = performance.now();
  for (let run = 0; run < runs; run += SLOTS)
    await Promise.all(
      Array.from({ length: Math.min(SLOTS, runs - run) }, (_, index) =>
        store.create({ ...started, runId: `run_${run + index}`, at: Date.now() }),
      ),
    );
  while (((await store.count?.())?.finished ?? runs) < runs) await delay(20);
  const seconds = (performance.now() - before) / 1000;
  for (const worker of processes) {
    worker.kill('SIGKILL');
    await once(worker, 'exit');
  }
  await store.close();
  const metrics: Metrics = { [`turns${workers}x${modelMs}`]: (runs * TURNS) / seconds };
  if (modelMs === 0 && workers === 1) metrics.kilobytes = (await place.bytes()) / runs / 1024;
  return metrics;
}

async function startWorker(address: string, modelMs: number): Promise<ChildProcess> {
  const script = fileURLToPath(new URL('../stores/worker.ts', import.meta.url));
  const worker = fork(script, [address, String(modelMs), String(SLOTS)], { silent: true });
  const ended = once(worker, 'exit').then(() => Promise.reject(new Error('A worker has ended.')));
  await Promise.race([once(worker, 'message'), ended]);
  ended.catch(() => {});
  return worker;
}

/** From the append of a message through another store until the driver of the run has it. */
async function measureMessages({ address }: Place): Promise<Metrics> {
  const [store, other] = [openStore(address), openStore(address)];
  const run = await makeIdler(store).start('Wait.');
  void run.settled().catch(() => {});
  while (run.context.calls.length === 0) await delay(20);
  // The driver watches by now.
  await delay(1_000);
  const latencies: number[] = [];
  const bare: number[] = [];
  const notify = await openNotifier(address);
  const arrivals = run.events({ after: (await other.get(run.id))?.seq ?? 0 })[Symbol.asyncIterator]();
  for (let sent = 0; sent < DECISIONS; sent += 1) {
    const from = await makeIdler(other).open(run.id);
    const before = performance.now();
    await from.send(`message ${sent}`);
    for (let arrived = false; !arrived; ) {
      const { value } = await arrivals.next();
      arrived = value?.type === 'message.received';
    }
    latencies.push(performance.now() - before);
    if (notify !== undefined) bare.push(await notify.measure());
  }
  await notify?.close();
  await store.close().catch(() => {});
  await other.close();
  return { messageMs: median(latencies), ...(notify !== undefined && { bareMs: median(bare) }) };
}
