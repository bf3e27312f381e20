import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Store } from '../protocol/store.ts';
import type { StoreCheck, StoreUnderTest } from './conformance/check.ts';
import { claimChecks } from './conformance/claim-checks.ts';
import {
  blobChecks,
  blobDurabilityChecks,
  contentChecks,
  deltaChecks,
} from './conformance/content-checks.ts';
import {
  connectionChecks,
  feedChecks,
  feedDurabilityChecks,
  sharedFeedChecks,
  watchChecks,
} from './conformance/feed-checks.ts';
import { durabilityChecks, journalChecks, lookupChecks } from './conformance/journal-checks.ts';
import { listChecks, listDurabilityChecks } from './conformance/list-checks.ts';
import { redactionChecks } from './conformance/redaction-checks.ts';
import { pruneChecks, removalChecks, removalDurabilityChecks } from './conformance/removal-checks.ts';
import { withClock } from './conformance/with-clock.ts';
import { workChecks } from './conformance/work-checks.ts';

export type { StoreCheck, StoreUnderTest };

const NAMES: NamesOf<StoreUnderTest> = {
  open: true,
  reopen: true,
  openAgain: true,
  advance: true,
  disconnect: true,
};

/**
 * Returns the conformance checks for a store, for any test runner. Each check opens its own store, rejects if the store
 * is wrong, and closes it. Durability checks are included only with `reopen`, those of a store
 * that several processes share only with `openAgain`, and those of lost connections only with `disconnect` too.
 *
 * @example
 * for (const { name, run } of storeChecks({ open: async () => memory() })) test(name, run);
 */
export function storeChecks(tested: StoreUnderTest): StoreCheck[] {
  refuseUnknownOptions('storeChecks', tested, NAMES, 'input-invalid');
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
    redactionChecks,
    pruneChecks,
    workChecks,
  ];
  const lasting = [
    durabilityChecks,
    blobDurabilityChecks,
    removalDurabilityChecks,
    listDurabilityChecks,
    feedDurabilityChecks,
  ];
  const shared = [sharedFeedChecks, watchChecks, ...(disconnect === undefined ? [] : [connectionChecks])];
  return [
    ...named(checks).map(([name, run]) => inNewStore(name, open, run)),
    ...named(reopen === undefined ? [] : lasting).map(([name, run]) =>
      inNewStore(name, open, async (store, opened) => {
        await run(store, async () => {
          const later = (await reopen?.(opened[0] ?? store)) ?? store;
          opened[0] = later;
          return later;
        });
      }),
    ),
    ...named(openAgain === undefined ? [] : shared).map(([name, run]) =>
      inNewStore(name, open, async (store, opened) => {
        const other = (await openAgain?.(store)) ?? store;
        opened.push(other);
        await run(store, other, async () => await disconnect?.(store));
      }),
    ),
  ];
}

function named<Run>(groups: readonly Record<string, Run>[]): [name: string, run: Run][] {
  return groups.flatMap(group => Object.entries(group));
}

/** A check of a new store. `run` keeps in `opened` what has to be closed. */
function inNewStore(
  name: string,
  open: () => Promise<Store>,
  run: (store: Store, opened: Store[]) => Promise<void>,
): StoreCheck {
  return {
    name,
    run: async () => {
      const store = await open();
      const opened = [store];
      try {
        await run(store, opened);
      } finally {
        for (const each of opened) await each.close();
      }
    },
  };
}
