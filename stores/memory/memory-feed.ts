import type {
  CursorRequest,
  FeedEntry,
  FeedPage,
  FeedQuery,
  StoreFeed,
  TakenCursor,
} from '../../protocol/listing/feed.ts';
import type { Owner } from '../../protocol/store.ts';
import { type FeedPlace, readFeedQuery, toCursor } from '../feed-cursor.ts';
import { decodeEntry } from '../journal-text.ts';
import { isHeld } from '../lease.ts';
import type { Run } from './memory-run.ts';

type Place = { position: number; runId: string; seq: number };

/** The feed of a memory store: the places of its entries, in order. `find` returns the run of a place. */
export class MemoryFeed implements StoreFeed {
  readonly #find: (runId: string) => Run;
  readonly #cursors = new Map<string, { cursor: string; lease: { owner: Owner; until: number } }>();
  #places: Place[] = [];
  #last: FeedPlace = { position: 0, seq: 0 };

  constructor(find: (runId: string) => Run) {
    this.#find = find;
  }

  /** Adds an entry that was just written. */
  add(runId: string, seq: number): void {
    this.#last = { position: this.#last.position + 1, seq };
    this.#places.push({ position: this.#last.position, runId, seq });
  }

  /** Drops the entries of deleted runs. */
  drop(runIds: readonly string[]): void {
    const gone = new Set(runIds);
    if (gone.size > 0) this.#places = this.#places.filter(({ runId }) => !gone.has(runId));
  }

  async read(query: FeedQuery = {}): Promise<FeedPage> {
    const { position, seq, limit } = readFeedQuery(query);
    const from = this.#firstAfter(position);
    const entries = this.#places.slice(from, from + limit).map(place => this.#readAt(place));
    return { entries, next: entries.at(-1)?.cursor ?? toCursor({ position, seq }) };
  }

  async end(): Promise<string> {
    return toCursor(this.#last);
  }

  async take(name: string, { owner, until, ...request }: CursorRequest): Promise<TakenCursor> {
    const known = this.#cursors.get(name);
    if (known?.lease.owner.id !== owner.id && isHeld(known?.lease, request))
      return structuredClone({ type: 'held', ...known?.lease }) as TakenCursor;
    const cursor = known?.cursor ?? toCursor(this.#last);
    this.#cursors.set(name, { cursor, lease: { owner: { ...owner }, until } });
    return { type: 'taken', cursor };
  }

  async save(name: string, ownerId: string, { cursor, until }: { cursor: string; until: number }) {
    const known = this.#cursors.get(name);
    if (known?.lease.owner.id !== ownerId) return false;
    this.#cursors.set(name, { cursor, lease: { ...known.lease, until } });
    return true;
  }

  #readAt({ position, runId, seq }: Place): FeedEntry {
    const { base, journal } = this.#find(runId);
    const { event } = decodeEntry(runId, seq, journal[seq - base - 1] ?? '', undefined);
    return { runId, seq, event, cursor: toCursor({ position, seq }) };
  }

  /** The index of the first place after a position; positions ascend. */
  #firstAfter(position: number): number {
    let [low, high] = [0, this.#places.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#places[middle]?.position ?? 0) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
