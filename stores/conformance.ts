import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { type Checks, type StoreCheck, type StoreUnderTest, withClock } from './conformance/check.ts';
import {
  blobChecks,
  contentChecks,
  deltaChecks,
  lastingContentChecks,
} from './conformance/content-checks.ts';
import {
  connectionChecks,
  feedChecks,
  lastingFeedChecks,
  sharedFeedChecks,
  watchChecks,
} from './conformance/feed-checks.ts';
import { findChecks, textChecks, totalsChecks } from './conformance/find-checks.ts';
import {
  claimChecks,
  journalChecks,
  lastingJournalChecks,
  lookupChecks,
} from './conformance/journal-checks.ts';
import { lastingListChecks, listChecks } from './conformance/list-checks.ts';
import {
  lastingRemovalChecks,
  pruneChecks,
  redactionChecks,
  removalChecks,
} from './conformance/removal-checks.ts';
import { sharedThreadChecks, threadChecks } from './conformance/thread-checks.ts';
import { workChecks } from './conformance/work-checks.ts';

export type { StoreCheck, StoreUnderTest };

const NAMES = optionNames<StoreUnderTest>()('open reopen openAgain advance disconnect');

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
  const { reopen, openAgain, disconnect } = tested;
  const always = [
    ...[
      journalChecks,
      claimChecks,
      contentChecks,
      lookupChecks,
      listChecks,
      findChecks,
      totalsChecks,
      textChecks,
      blobChecks,
    ],
    ...[deltaChecks, feedChecks, removalChecks, redactionChecks, pruneChecks, workChecks, threadChecks],
  ];
  const lasting = [
    ...[lastingJournalChecks, lastingContentChecks, lastingRemovalChecks],
    ...[lastingListChecks, lastingFeedChecks],
  ];
  const shared = [sharedFeedChecks, watchChecks, sharedThreadChecks, disconnect ? connectionChecks : {}];
  const timed = withClock(tested);
  return [...always, ...(reopen ? lasting : []), ...(openAgain ? shared : [])]
    .flatMap(checks => Object.entries(checks))
    .map(([name, check]) => ({ name, run: () => runInNewStore(timed, check) }));
}

async function runInNewStore(
  { open, reopen, openAgain, disconnect }: StoreUnderTest,
  check: Checks[string],
): Promise<void> {
  const store = await open();
  const opened = [store];
  try {
    await check(store, {
      async reopen() {
        const later = (await reopen?.(store)) ?? store;
        opened[0] = later;
        return later;
      },
      async openAgain() {
        const other = (await openAgain?.(store)) ?? store;
        opened.push(other);
        return other;
      },
      disconnect: async () => await disconnect?.(store),
    });
  } finally {
    for (const each of opened) await each.close();
  }
}
