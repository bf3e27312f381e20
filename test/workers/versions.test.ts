import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { inAll } from '../support/sample.ts';
import { makePools, STORES } from '../support/workers/pools.ts';
import type { WorkerPool } from '../support/workers/worker-pool.ts';

const pools = makePools();

/** The runs that began to pay, by the name that they had before a migration. */
function payers(pool: WorkerPool): string[] {
  return pool.noted('begin').map(({ runId }) => runId.replace(/_m2$/, ''));
}

describe.each(STORES)('workers of two versions on %s', kind => {
  test('leave the runs of another version to those that have it, in both directions', async () => {
    const pool = await pools.make(kind);
    const [older] = await Promise.all([
      pool.startWorker({ version: '1', modelMs: 20 }),
      pool.startWorker({ version: '2', modelMs: 20 }),
    ]);
    const [ones, twos] = [await pool.begin(8, { version: '1' }), await pool.begin(8, { version: '2' })];
    expect(await pool.rests()).toBe(true);
    expect(await pool.tally()).toEqual({ finished: 16 });
    const versionOf = new Map(pool.noted('paid').map(({ runId, version }) => [runId, version]));
    expect(ones.map(runId => versionOf.get(runId))).toEqual(Array(8).fill('1'));
    expect(twos.map(runId => versionOf.get(runId))).toEqual(Array(8).fill('2'));
    older.kill('SIGTERM');
    expect(await older.ended).toBe(0);
    const [left = ''] = await pool.begin(1, { version: '1' });
    const [own = ''] = await pool.begin(1, { version: '2' });
    expect(await pool.until(async () => (await pool.store.get(own))?.status === 'finished')).toBe(true);
    await delay(500);
    expect(await pool.store.get(left)).toMatchObject({ status: 'running', epoch: 0 });
  });

  test('migrate the runs of a version whose last worker is gone, and no others', async () => {
    const pool = await pools.make(kind);
    const newer = { version: '2', migrates: true };
    const older = await pool.startWorker({ version: '1', toolMs: 1_000 }, ['--slots', '2']);
    await pool.startWorker(newer);
    const ids = await pool.begin(8, { version: '1' });
    // Both of its slots are in the middle of their second payment: no call is about to begin when it is killed.
    expect(await pool.until(() => pool.noted('begin').length >= 4)).toBe(true);
    expect(pool.noted('begin').every(({ version }) => version === '1')).toBe(true);
    older.kill('SIGKILL');
    await older.ended;
    expect(await pool.rests()).toBe(true);
    const left = ids.filter(runId => !pool.noted('begin').some(noted => noted.runId === runId));
    expect(left.length).toBeGreaterThan(0);
    for (const runId of left) {
      expect(await pool.store.get(runId)).toMatchObject({ status: 'cancelled' });
      expect(await pool.store.get(`${runId}_m2`)).toMatchObject({ status: 'finished', agentVersion: '2' });
    }
    expect(new Set(payers(pool)).size).toBe(pool.noted('begin').length);
    expect(new Set(payers(pool)).size).toBe(8);
  });

  inAll('drive a run once if the worker that migrates it is killed and the old one is back', async () => {
    const pool = await pools.make(kind);
    const ids = await pool.begin(3, { version: '1' });
    const newer = { version: '2', migrates: true };
    const killed = await pool.startWorker({ ...newer, diesMigrating: true });
    await killed.ended;
    expect(killed.child.signalCode).toBe('SIGKILL');
    expect(await pool.tally()).toEqual({ running: 3 });
    await pool.startWorker(newer);
    await pool.startWorker({ version: '1' });
    expect(await pool.rests()).toBe(true);
    expect((await pool.tally()).finished).toBe(3);
    expect(payers(pool).sort()).toEqual(ids.sort());
  });
});
