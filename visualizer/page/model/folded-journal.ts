import type { StreamedEvent } from '../data/request.ts';
import { Folded } from './journal-fold.ts';

/** The number of entries between two checkpoints. */
export const CHECKPOINT_EVERY = 256;
/** How many folds near the last position are cached, so that a step folds one entry. */
const MOST_NEAR = 300;

/**
 * The folds of a journal at each of its entries: stored at checkpoints, computed between them.
 *
 * K1 `at` folds at most `CHECKPOINT_EVERY` entries.
 * K2 It depends only on the entries and the fold that it begins with.
 */
export class FoldedJournal {
  readonly #read: (seq: number) => StreamedEvent | undefined;
  readonly #checkpoints: Folded[];
  #near = new Map<number, Folded>();
  #last: Folded;

  /** `read` returns the entry at a `seq`; `begin` is the fold before the first entry that it has. */
  constructor(read: (seq: number) => StreamedEvent | undefined, begin = Folded.start) {
    this.#read = read;
    this.#checkpoints = [begin];
    this.#last = begin;
  }

  /** The fold at the last entry. */
  get last(): Folded {
    return this.#last;
  }

  /** The `seq` before the first entry. */
  get begin(): number {
    return this.#checkpoints[0]?.seq ?? 0;
  }

  /** Folds the next entry. */
  take(event: StreamedEvent): Folded {
    const folded = this.#last.take(event.seq, event);
    this.#last = folded;
    if (folded.seq % CHECKPOINT_EVERY === 0) this.#checkpoints.push(folded);
    return folded;
  }

  /** The fold at an entry; at the beginning or the end if there is no such entry. */
  at(seq: number): Folded {
    if (seq >= this.#last.seq) return this.#last;
    const known = this.#near.get(seq);
    if (known !== undefined) return known;
    const checkpoint = this.#checkpoints.findLast(one => one.seq <= seq) ?? this.#checkpoints[0];
    if (checkpoint === undefined || seq <= checkpoint.seq) return checkpoint ?? Folded.start;
    let folded = checkpoint;
    for (let near = seq - 1; near > checkpoint.seq; near -= 1) {
      const found = this.#near.get(near);
      if (found === undefined) continue;
      folded = found;
      break;
    }
    if (this.#near.size > MOST_NEAR) this.#near = new Map();
    for (let place = folded.seq + 1; place <= seq; place += 1) {
      const event = this.#read(place);
      if (event === undefined) return folded;
      folded = folded.take(place, event);
      this.#near.set(place, folded);
    }
    return folded;
  }
}
