import { setTimeout as delay } from 'node:timers/promises';
import { built } from '../../support/built.ts';
import { startPostgres } from '../../support/stores/postgres-server.ts';
import { REFUNDS, WorkerPool } from '../../support/workers/worker-pool.ts';

/** The runs before the outage. One more is started during it. */
export const RUNS = 10;

/** What a server answered while its database was away, and what became of its runs. */
export type Served = {
  /** Whether the process lived on. */
  isUp: boolean;
  /** The answers of `/readyz` before, during and after. */
  ready: number[];
  healthy: number;
  /** Payments that had begun and were not done right before. */
  unpaid: number;
  /** The answers to requests during the outage: their statuses, codes and seconds. */
  answers: {
    path: string;
    status: number;
    code: string | undefined;
    retryAfter: string | null;
    seconds: number;
  }[];
  /** Runs, with the one whose request was sent again after the outage. */
  accepted: number;
  finished: number;
  doubted: number;
  doubles: number;
};

/** Has `agentchart serve` drive runs while its database is away for so many ms. */
export async function serveThrough(awayMs: number): Promise<Served> {
  const server = await startPostgres();
  const pool = new WorkerPool(server.url);
  try {
    const pace = { modelMs: 200, toolMs: 2_000, leaseMs: 5_000 };
    const web = await pool.start(['serve', '--agent', built(REFUNDS), '--port', '0'], pace);
    const [, url = ''] = /listening on (\S+)/.exec(web.output) ?? [];
    const post = (body: object) => ({
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const ask = async (path: string, request: RequestInit = {}) => {
      const began = performance.now();
      const response = await fetch(url + path, request);
      const body = (await response.json()) as { runId?: string; error?: { code: string } };
      const seconds = (performance.now() - began) / 1_000;
      const retryAfter = response.headers.get('retry-after');
      return { path, status: response.status, code: body.error?.code, retryAfter, seconds };
    };
    const probe = async () => (await ask('/readyz')).status;
    await Promise.all(Array.from({ length: RUNS }, () => ask('/runs', post({ input: 'Refund.' }))));
    await pool.until(() => pool.noted('begin').length > 0);
    const ready = [await probe()];
    const unpaid = pool.noted('begin').length - pool.noted('paid').length;
    await server.crash();
    const back = delay(awayMs).then(() => server.start());
    ready.push(await probe());
    const healthy = (await ask('/healthz')).status;
    const answers = await Promise.all([
      ask('/runs'),
      ask('/runs/none'),
      ask('/runs', post({ input: 'Refund.', requestId: 'during' })),
    ]);
    await back;
    await pool.until(async () => (await probe()) === 200);
    ready.push(await probe());
    const again = await ask('/runs', post({ input: 'Refund.', requestId: 'during' }));
    await pool.rests(120_000);
    const { finished = 0 } = await pool.tally();
    const ids = (await pool.records()).map(({ runId }) => runId);
    const doubts = await Promise.all(ids.map(runId => pool.isInDoubt(runId)));
    const doubted = doubts.filter(isOne => isOne).length;
    const accepted = RUNS + (again.status === 201 ? 1 : 0);
    const isUp = web.child.exitCode === null;
    const doubles = pool.doubles().length;
    return { isUp, ready, healthy, unpaid, answers, accepted, finished, doubted, doubles };
  } finally {
    await pool.close();
    await server.stop();
  }
}
