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

/** A check of one empty store. */
export type Check = { name: string; run(store: Store): Promise<void> };

/** A durability check; `reopen` returns the store as a later process finds it. */
export type DurabilityCheck = {
  name: string;
  run(store: Store, reopen: () => Promise<Store>): Promise<void>;
};

/** A check of one empty store that two processes have open. */
export type SharedCheck = { name: string; run(store: Store, other: Store): Promise<void> };

/** A check of one empty store that two processes have open; `disconnect` cuts the connections of the first. */
export type ConnectionCheck = {
  name: string;
  run(store: Store, other: Store, disconnect: () => Promise<void>): Promise<void>;
};
