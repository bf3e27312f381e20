// stores/conformance: what every store must do, as checks that a test runs over it. `storeChecks`
// collects them.

import type { Store } from '../../protocol/store.ts';

/** How the conformance checks open a store. */
export type StoreUnderTest = {
  /** Opens a new, empty store. */
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

/** Checks of one empty store, by name. */
export type Checks = Record<string, (store: Store) => Promise<void>>;

/** Durability checks, by name; `reopen` returns the store as a later process finds it. */
export type DurabilityChecks = Record<string, (store: Store, reopen: () => Promise<Store>) => Promise<void>>;

/** Checks of one empty store that two processes have open, by name; `disconnect` cuts the connections of the first. */
export type SharedChecks = Record<
  string,
  (store: Store, other: Store, disconnect: () => Promise<void>) => Promise<void>
>;

/** Checks of a part that a store may have, as `find` returns it. A store without it passes. */
export function checksOf<Part>(
  find: (store: Store) => Part | undefined,
  checks: Record<string, (store: Store, part: Part) => Promise<void>>,
): Checks {
  const runWith = (run: (store: Store, part: Part) => Promise<void>) => async (store: Store) => {
    const part = find(store);
    if (part !== undefined) await run(store, part);
  };
  return Object.fromEntries(Object.entries(checks).map(([name, run]) => [name, runWith(run)]));
}
