import type { EngineError } from '../error.ts';
import type { RunEvent } from '../event.ts';
import type { Owner } from './owner.ts';

/** An entry of some run, with its place in the store: `cursor` is the place after it. */
export type FeedEntry = { runId: string; seq: number; event: RunEvent; cursor: string };

export type FeedQuery = {
  /** The cursor after which to start. Default: the start of the store. */
  after?: string;
  /** The maximum number of entries. Default 100. */
  limit?: number;
  /** Called for an entry that cannot be read, which is skipped. Without it, such an entry rejects the call. */
  onDamaged?(error: EngineError): void;
};

/** `next` is the cursor for the next page; equal to `after` if the page is empty. */
export type FeedPage = { entries: FeedEntry[]; next: string };

/** Who takes a cursor, and until when, in ms since the epoch. */
export type CursorRequest = {
  owner: Owner;
  now: number;
  until: number;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead(owner: Owner): boolean;
};

export type TakenCursor = { type: 'taken'; cursor: string } | { type: 'held'; owner: Owner; until: number };

/**
 * The entries of all runs of a store, in the order of their commits, and cursors that the store keeps for their
 * readers. An entry that commits after a page was read comes after that page's cursor, whichever transaction began first.
 * The entries of a deleted run are gone; places are never used again.
 */
export interface StoreFeed {
  /** Returns a page of entries. Rejects with `input-invalid` for a text that is no cursor. */
  read(query?: FeedQuery): Promise<FeedPage>;
  /** Returns the cursor after the last entry. */
  end(): Promise<string>;
  /**
   * Claims the cursor of this name for one reader among all processes. A new name starts at the end of the store. Returns
   * `held` while another owner, not known to be dead, has an unexpired lease.
   */
  take(name: string, request: CursorRequest): Promise<TakenCursor>;
  /** Keeps the cursor and extends the lease; returns false, and changes nothing, if another owner has taken it. */
  save(name: string, ownerId: string, at: { cursor: string; until: number }): Promise<boolean>;
}
