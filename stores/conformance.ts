import { blobChecks, blobDurabilityChecks } from './conformance/blob-checks.ts';
import type { ConnectionCheck, StoreCheck, StoreUnderTest } from './conformance/check.ts';
import { claimChecks } from './conformance/claim-checks.ts';
import { contentChecks } from './conformance/content-checks.ts';
import { deltaChecks } from './conformance/delta-checks.ts';
import { durabilityChecks } from './conformance/durability-checks.ts';
import { feedChecks, feedDurabilityChecks, sharedFeedChecks } from './conformance/feed-checks.ts';
import { journalChecks } from './conformance/journal-checks.ts';
import { listChecks, listDurabilityChecks } from './conformance/list-checks.ts';
import { lookupChecks } from './conformance/lookup-checks.ts';
import { pruneChecks } from './conformance/prune-checks.ts';
import { removalChecks, removalDurabilityChecks } from './conformance/removal-checks.ts';
import { connectionChecks, watchChecks } from './conformance/watch-checks.ts';
import { withClock } from './conformance/with-clock.ts';
import { workChecks } from './conformance/work-checks.ts';

export type { StoreCheck, StoreUnderTest };

/**
 * Returns the conformance checks for a store, for any test runner. Each check opens its own store, rejects if the store
 * is wrong, and closes it. Durability checks are included only with `reopen`, those of a store
 * that several processes share only with `openAgain`, and those of lost connections only with `disconnect` too.
 *
 * @example
 * for (const { name, run } of storeChecks({ open: async () => memory() })) test(name, run);
 */
export function storeChecks(tested: StoreUnderTest): StoreCheck[] {
  const { open, reopen, openAgain, disconnect } = withClock(tested);
  const checks = [
    journalChecks,
    claimChecks,
    contentChecks,
    lookupChecks,
    listChecks,
    blobChecks,
    deltaChecks,
    feedChecks,
    removalChecks,
    pruneChecks,
    workChecks,
  ].flat();
  const lasting = [
    ...durabilityChecks,
    ...blobDurabilityChecks,
    ...removalDurabilityChecks,
    ...listDurabilityChecks,
    ...feedDurabilityChecks,
  ];
  return [
    ...checks.map(({ name, run }) => ({
      name,
      run: async () => {
        const store = await open();
        try {
          await run(store);
        } finally {
          await store.close();
        }
      },
    })),
    ...(reopen === undefined ? [] : lasting).map(({ name, run }) => ({
      name,
      run: async () => {
        let store = await open();
        try {
          await run(store, async () => {
            store = await (reopen?.(store) ?? store);
            return store;
          });
        } finally {
          await store.close();
        }
      },
    })),
    ...sharedChecksOf(openAgain, disconnect).map(({ name, run }) => ({
      name,
      run: async () => {
        const store = await open();
        const other = (await openAgain?.(store)) ?? store;
        try {
          await run(store, other, async () => await disconnect?.(store));
        } finally {
          await store.close();
          await other.close();
        }
      },
    })),
  ];
}

function sharedChecksOf(
  openAgain: StoreUnderTest['openAgain'],
  disconnect: StoreUnderTest['disconnect'],
): ConnectionCheck[] {
  if (openAgain === undefined) return [];
  return [...sharedFeedChecks, ...watchChecks, ...(disconnect === undefined ? [] : connectionChecks)];
}
