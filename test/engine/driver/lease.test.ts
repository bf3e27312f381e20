import { expect, test } from 'vitest';
import { Lease } from '../../../engine/driver/lease.ts';
import { momentOf } from '../../../engine/host/host.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeConfig, makeStarted } from '../../support/machines/builders.ts';

const LEASE_MS = 9_000;

/** Claims the run for a driver of this name, and returns its lease. */
async function claim(store: Store, host: ManualHost, name: string): Promise<Lease> {
  const owner = { id: name, host: 'here', pid: 1, startedAt: '' };
  const leasedAt = momentOf(host);
  const claimed = await store.claim('run', {
    owner,
    now: leasedAt.wall,
    leaseMs: LEASE_MS,
    isDead: () => false,
  });
  if (claimed.type !== 'claimed') throw new Error(`The claim is ${claimed.type}.`);
  return new Lease({ store, host, runId: 'run', leaseMs: LEASE_MS, epoch: claimed.epoch, leasedAt });
}

test('a lease that a driver lost to another of its own process leaves that one its lease', async () => {
  const store = memory();
  const host = new ManualHost();
  await store.create(makeStarted(makeConfig()));
  const first = await claim(store, host, 'first');
  host.jump(LEASE_MS + 1);
  const second = await claim(store, host, 'second');
  host.jump(LEASE_MS / 2);
  expect(await second.renewAfter(1 / 3)).toBe(true);
  expect(await first.renewAfter(1 / 3)).toBe(false);
  expect([first.isValid, second.isValid]).toEqual([false, true]);
});

test.each([
  { slow: [LEASE_MS + 1, LEASE_MS, 1], isValid: true, what: 'is renewed again, and stays valid' },
  { slow: [LEASE_MS, LEASE_MS, LEASE_MS], isValid: false, what: 'is not valid after a third time' },
])('a lease that the store takes longer to renew than it lasts $what', async ({ slow, isValid }) => {
  const host = new ManualHost();
  const inner = memory();
  const left = [...slow];
  const store: Store = {
    ...inner,
    async renew(leases, request) {
      const lost = await inner.renew(leases, request);
      const ms = left.shift();
      if (ms === undefined) throw new Error('The lease is renewed too often.');
      host.jump(ms);
      return lost;
    },
  };
  await store.create(makeStarted(makeConfig()));
  const lease = await claim(store, host, 'slow');
  host.jump(LEASE_MS / 2);
  expect(await lease.renewAfter(1 / 3)).toBe(true);
  expect(lease.isValid).toBe(isValid);
  expect(left).toEqual([]);
});
