import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Store } from '../protocol/store.ts';
import type { Checks } from './conformance/check.ts';
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
import { workChecks } from './conformance/work-checks.ts';

export type StoreUnderTest = {
  open(): Promise<Store>;
  /** Closes `store` and opens it again, as a later process would. */
  reopen?(store: Store): Promise<Store>;
  /** Opens `store` a second time, as another process would, while the first stays open. */
  openAgain?(store: Store): Promise<Store>;
  /**
   * For a store with a clock of its own: sets this clock, and that of the process, to `now` in ms since the epoch. It
   * is called before each call that names a time, which may be earlier than the one before.
   */
  advance?(store: Store, now: number): Promise<void>;
  /** For a store with connections: cuts those of `store`, as a failure of the network would. */
  disconnect?(store: Store): Promise<void>;
};

/** A named check; `run` rejects if the store is wrong. */
export type StoreCheck = { name: string; run(): Promise<void> };

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
  const { reopen, openAgain, disconnect } = tested;
  const always = [
    ...[journalChecks, claimChecks, contentChecks, lookupChecks, listChecks, blobChecks],
    ...[deltaChecks, feedChecks, removalChecks, redactionChecks, pruneChecks, workChecks],
  ];
  const lasting = [
    ...[lastingJournalChecks, lastingContentChecks, lastingRemovalChecks],
    ...[lastingListChecks, lastingFeedChecks],
  ];
  const shared = [sharedFeedChecks, watchChecks, disconnect ? connectionChecks : {}];
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

/** The same stores, whose own clock shows the time that each call names. */
export function withClock(tested: StoreUnderTest): StoreUnderTest {
  const { open, reopen, openAgain, disconnect, advance } = tested;
  if (advance === undefined) return tested;
  const inner = new WeakMap<Store, Store>();
  const wrap = (store: Store) => {
    const timed = inTime(store, now => advance(store, now));
    inner.set(timed, store);
    return timed;
  };
  const unwrap = (timed: Store) => inner.get(timed) ?? timed;
  return {
    open: async () => wrap(await open()),
    ...(reopen && { reopen: async timed => wrap(await reopen(unwrap(timed))) }),
    ...(openAgain && { openAgain: async timed => wrap(await openAgain(unwrap(timed))) }),
    ...(disconnect && { disconnect: timed => disconnect(unwrap(timed)) }),
  };
}

/** Calls `setClock` before each call of the store, its deltas and its feed that names a time. */
function inTime<Target extends object>(target: Target, setClock: (now: number) => Promise<void>): Target {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member === 'object' && member !== null) return inTime(member, setClock);
      if (typeof member !== 'function') return member;
      if (name === 'watch' || name === 'watchWork') return member.bind(target);
      return async (...args: unknown[]) => {
        const [time] = args.flatMap(timeOf);
        if (time !== undefined) await setClock(time);
        return await Reflect.apply(member, target, args);
      };
    },
  });
}

/** The time that an argument of a call names: of a claim, a lease, a request for work, a deletion. */
function timeOf(argument: unknown): number[] {
  if (typeof argument === 'number' && argument >= 1_000) return [argument];
  const isTimed = typeof argument === 'object' && argument !== null && 'now' in argument;
  return isTimed && typeof argument.now === 'number' ? [argument.now] : [];
}
