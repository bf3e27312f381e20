import type { Store } from '../../protocol/store.ts';

export type StoreUnderTest = {
  /** A new, empty store. */
  open(): Promise<Store>;
  /** Closes `store` and opens what it kept, as a later process would. */
  reopen?(store: Store): Promise<Store>;
};

export type StoreCheck = { name: string; run(): Promise<void> };

/** A check of one empty store. */
export type Check = { name: string; run(store: Store): Promise<void> };

/** A check of what a store keeps; `reopen` gives it as a later process finds it. */
export type DurabilityCheck = {
  name: string;
  run(store: Store, reopen: () => Promise<Store>): Promise<void>;
};
