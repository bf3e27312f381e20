import { spawnSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { readOwnerName } from '../../protocol/owner-name.ts';
import { built } from '../support/built.ts';
import { inAll, TAKES_ALL } from '../support/sample.ts';
import { POSTGRES_BIN } from '../support/stores/postgres-server.ts';
import { killWorkers } from '../support/workers/kill-workers.ts';
import { makePools, STORES } from '../support/workers/pools.ts';
import { REFUNDS } from '../support/workers/worker-pool.ts';

const OWN_NAMESPACE = ['unshare', '-r', '--pid', '--fork', '--kill-child', '--mount-proc'];
const canUnshare = spawnSync(OWN_NAMESPACE[0] ?? '', [...OWN_NAMESPACE.slice(1), 'true']).status === 0;

const pools = makePools();

describe.each(STORES)('workers on %s', kind => {
  test('workers drive runs that a server with --no-drive accepted, each exactly once; decisions go through the server', async () => {
    const pool = await pools.make(kind);
    const pace = { gated: true };
    const web = await pool.start(['serve', '--no-drive', '--agent', built(REFUNDS), '--port', '0'], pace);
    const [, url = ''] = /listening on (\S+)/.exec(web.output) ?? [];
    const post = async (path: string, body: object) =>
      await fetch(url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const begun = await Promise.all(Array.from({ length: 6 }, () => post('/runs', { input: 'Refund.' })));
    expect(begun.map(({ status }) => status)).toEqual(Array(6).fill(201));
    expect((await pool.records()).map(({ epoch }) => epoch)).toEqual(Array(6).fill(0));
    const workers = await Promise.all([pool.startWorker(pace), pool.startWorker(pace)]);
    expect(await pool.until(async () => (await pool.tally()).waiting === 6)).toBe(true);
    for (const { runId } of await pool.records()) {
      const view = (await (await fetch(`${url}/runs/${runId}`)).json()) as {
        settled: { approvals: { callId: string }[] };
      };
      const callId = view.settled.approvals[0]?.callId;
      expect((await post(`/runs/${runId}/approve`, { callId, by: 'ada' })).status).toBe(200);
    }
    expect(await pool.until(async () => (await pool.tally()).finished === 6)).toBe(true);
    expect(pool.doubles()).toEqual([]);
    const pids = new Set(pool.noted('paid').map(({ pid }) => pid));
    expect([...pids].every(pid => workers.some(({ child }) => child.pid === pid))).toBe(true);
    web.kill('SIGTERM');
    expect(await web.ended).toBe(0);
  });

  inAll('hand over under load: nothing in doubt, and others continue at once', async () => {
    const pool = await pools.make(kind);
    // A lease that ends long after the others have continued, if they do at once.
    const pace = { modelMs: 50, toolMs: 600, leaseMs: 90_000 };
    const first = await pool.startWorker(pace, ['--slots', '8']);
    const ids = await pool.begin(30);
    expect(await pool.until(() => pool.noted('paid').length >= 4)).toBe(true);
    const second = await pool.startWorker(pace, ['--slots', '16']);
    // The first may have finished all runs before the second has started.
    ids.push(...(await pool.begin(12)));
    const inHandOfFirst = async () =>
      (await pool.records()).filter(({ owner }) => owner?.pid === first.child.pid);
    expect(await pool.until(async () => (await inHandOfFirst()).length > 0)).toBe(true);
    const inHand = await inHandOfFirst();
    first.kill('SIGTERM');
    expect(await first.ended).toBe(0);
    expect(await inHandOfFirst()).toEqual([]);
    const handed = new Set(inHand.map(({ runId }) => runId));
    const isTaken = async () =>
      (await pool.records()).every(
        ({ runId, status, owner }) =>
          !handed.has(runId) || status === 'finished' || owner?.pid === second.child.pid,
      );
    expect(await pool.until(isTaken, 45_000)).toBe(true);
    expect(await pool.rests()).toBe(true);
    expect(await pool.tally()).toEqual({ finished: ids.length });
    expect(pool.doubles()).toEqual([]);
  });

  test('that are killed lose no run, and begin no payment twice', async () => {
    const pool = await pools.make(kind);
    const killed = await killWorkers(pool, { runs: 16, workers: 2, kills: 4, pauseMs: 300 });
    expect(killed).toMatchObject({ lost: 0, doubles: 0, kills: 4 });
    expect(killed.struck).toBeGreaterThan(0);
    expect(killed.finished + killed.doubted).toBe(16);
  });

  test('that are stopped for longer than their lease are fenced when they continue', async () => {
    const pool = await pools.make(kind);
    const pace = { toolMs: 300, leaseMs: 1_000 };
    const stopped = await pool.startWorker({ ...pace, toolMs: 3_000 }, ['--port', '0']);
    const [runId = ''] = await pool.begin(1);
    expect(await pool.until(() => pool.noted('begin').length === 1)).toBe(true);
    stopped.kill('SIGSTOP');
    await pool.startWorker(pace);
    expect(await pool.until(() => pool.isInDoubt(runId))).toBe(true);
    stopped.kill('SIGCONT');
    expect(await pool.until(async () => (await pool.words(runId)).includes('tool.late'))).toBe(true);
    expect(await pool.store.get(runId)).toMatchObject({ status: 'waiting' });
    expect(pool.noted('begin')).toHaveLength(1);
    expect(stopped.child.exitCode).toBeNull();
    const [, url = ''] = /probes\s+(\S+)/.exec(stopped.output) ?? [];
    expect(await readMetrics(url)).toMatchObject({
      agentchart_lease_losses_total: 1,
      agentchart_doubts_total: 1,
      'agentchart_decisions_waiting{type="doubt"}': 1,
    });
  });

  test.runIf(TAKES_ALL && canUnshare)('in other PID namespaces are not taken for dead', async () => {
    const pool = await pools.make(kind);
    const pace = { toolMs: 2_000 };
    await pool.startWorker(pace, [], OWN_NAMESPACE);
    const [runId = ''] = await pool.begin(1);
    expect(await pool.until(() => pool.noted('begin').length === 1)).toBe(true);
    await pool.startWorker(pace, [], OWN_NAMESPACE);
    expect(await pool.rests()).toBe(true);
    const claims = (await pool.store.read(runId)).flatMap(({ event }) =>
      event.type === 'run.claimed' ? [event] : [],
    );
    expect(claims.map(({ by }) => readOwnerName(by)?.pid)).toEqual([1]);
    expect(await pool.store.get(runId)).toMatchObject({ status: 'finished' });
    expect(pool.noted('begin')).toHaveLength(1);
  });
});

/** The samples of `/metrics`, by name and labels. */
async function readMetrics(url: string): Promise<Record<string, number>> {
  const lines = (await (await fetch(`${url}/metrics`)).text())
    .split('\n')
    .filter(line => /^[a-z]/.test(line));
  return Object.fromEntries(lines.map(line => [line.split(' ')[0], Number(line.split(' ')[1])]));
}

describe('while a process drains', () => {
  test.each([
    ['worker', ['worker', '--slots', '1'], /probes\s+(\S+)/],
    ['serve', ['serve'], /listening on (\S+)/],
  ])('%s answers its probes: it lives, and is not ready', async (kind, args, address) => {
    const pool = await pools.make('sqlite');
    const pace = { toolMs: 1_500 };
    const process = await pool.start([...args, '--agent', built(REFUNDS), '--port', '0'], pace);
    const [, url = ''] = address.exec(process.output) ?? [];
    const probe = async (path: string) => (await fetch(url + path)).status;
    expect(await Promise.all(['/healthz', '/readyz'].map(probe))).toEqual([200, 200]);
    await pool.begin(kind === 'worker' ? 3 : 1);
    expect(await pool.until(() => pool.noted('begin').length === 1)).toBe(true);
    const metrics = await readMetrics(url);
    expect(metrics).toMatchObject({
      'agentchart_slots{state="used"}': 1,
      agentchart_lease_losses_total: 0,
      ...(kind === 'worker' && { 'agentchart_slots{state="free"}': 0, agentchart_runs_to_take: 2 }),
    });
    expect(metrics.agentchart_append_duration_seconds_count).toBeGreaterThan(0);
    process.kill('SIGTERM');
    await process.prints('Stopping');
    expect(await pool.until(async () => (await probe('/readyz')) === 503)).toBe(true);
    expect(await probe('/healthz')).toBe(200);
    expect(pool.noted('paid')).toEqual([]);
    expect(await process.ended).toBe(0);
    expect(pool.noted('paid')).toHaveLength(1);
  });
});

describe('agentchart worker', () => {
  test('without its database exits 1 with a message, and no stack', async () => {
    const pool = await pools.make('sqlite');
    const ended = spawnSync(
      process.execPath,
      [
        built('cli/main.ts'),
        'worker',
        '--agent',
        built(REFUNDS),
        '--db',
        'postgres://nobody@127.0.0.1:1/none',
      ],
      { encoding: 'utf8', cwd: pool.folder },
    );
    expect(ended.status).toBe(1);
    expect(ended.stderr).toContain('127.0.0.1:1');
    expect(ended.stderr).not.toMatch(/^\s+at /m);
  });

  test.runIf(TAKES_ALL && POSTGRES_BIN !== undefined)(
    'survives an outage, and causes no doubt by it',
    async () => {
      const pool = await pools.make('postgres');
      const pace = { toolMs: 200, modelMs: 200, leaseMs: 2_000 };
      const workers = await Promise.all([pool.startWorker(pace), pool.startWorker(pace)]);
      await pool.begin(30);
      expect(await pool.until(() => pool.noted('begin').length >= 4)).toBe(true);
      await pools.server()?.crash();
      const unpaid = pool.noted('begin').length - pool.noted('paid').length;
      await delay(4_000);
      await pools.server()?.start();
      expect(await pool.rests()).toBe(true);
      expect({ unpaid, tally: await pool.tally() }).toMatchObject({ tally: { finished: 30 } });
      expect(pool.doubles()).toEqual([]);
      for (const worker of workers) expect(worker.child.exitCode).toBeNull();
    },
  );
});

describe('agentchart serve', () => {
  const LONGEST_ANSWER_MS = 30_000;

  test.runIf(POSTGRES_BIN !== undefined)(
    'says when to ask again while its database is cut off, whether it drives or not; a start that is repeated counts once',
    async () => {
      const { pool, proxy } = await pools.makeBehindProxy();
      const kinds = [['serve'], ['serve', '--no-drive']];
      const servers = await Promise.all(
        kinds.map(args => pool.start([...args, '--agent', built(REFUNDS), '--port', '0'])),
      );
      const urls = servers.map(({ output }) => /listening on (\S+)/.exec(output)?.[1] ?? '');
      const isReady = async () => {
        const answers = await Promise.all(urls.map(url => fetch(`${url}/readyz`)));
        return answers.every(({ status }) => status === 200);
      };
      const start = (url: string) =>
        fetch(`${url}/runs`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ input: 'Refund.', requestId: 'repeated' }),
        });
      const list = (url: string) => fetch(`${url}/runs`);
      expect(await isReady()).toBe(true);
      proxy.cutOff();
      const cutOff = performance.now();
      const answers = await Promise.all(urls.flatMap(url => [list(url), start(url)]));
      // A driver waits a minute for its store.
      expect(performance.now() - cutOff).toBeLessThan(LONGEST_ANSWER_MS);
      for (const answer of answers) {
        expect(answer.status).toBe(503);
        expect(answer.headers.get('retry-after')).toBe('5');
        expect(await answer.json()).toMatchObject({ error: { code: 'store-unavailable' } });
      }
      expect(await isReady()).toBe(false);
      proxy.rejoin();
      expect(await pool.until(isReady)).toBe(true);
      const again = await Promise.all(urls.map(start));
      expect(again.map(({ ok }) => ok)).toEqual([true, true]);
      const begun = (await Promise.all(again.map(answer => answer.json()))) as { runId: string }[];
      expect(new Set(begun.map(({ runId }) => runId)).size).toBe(1);
      expect(await pool.rests()).toBe(true);
      expect(await pool.tally()).toEqual({ finished: 1 });
      expect(pool.noted('paid')).toHaveLength(1);
      for (const { child } of servers) expect(child.exitCode).toBeNull();
    },
  );
});
