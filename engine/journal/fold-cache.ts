import { BoundedMap } from '../../protocol/bounded-map.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { type JournalStore, readPages, readUnredacted } from './read-journal.ts';

/** What a run's journal folds to up to entry `seq`. `chars`: about how much memory it keeps. */
export type CachedFold<Fold> = { seq: number; fold: Fold; chars: number };

type Version = Pick<RunRecord, 'runId' | 'createdAt' | 'redactions' | 'seq'>;

type Known<Fold> = Pick<Version, 'createdAt' | 'redactions'> & CachedFold<Fold>;

const MOST_CHARS = 64 * 1024 * 1024;

/**
 * Folds of journals that this process has read, so that it reads, checks and folds only what follows. Those that were
 * used last stay.
 *
 * C1 A fold is found only for the run that the store has now: begun at the same time, redacted as often, and not shorter.
 * C2 The entries after a fold are read from the store, which checks that they follow the one before them.
 * C3 It holds what the store returned, before any check of who may see it.
 */
export class FoldCache<Fold> {
  readonly #known: BoundedMap<string, Known<Fold>>;

  constructor(mostChars = MOST_CHARS) {
    this.#known = new BoundedMap(mostChars);
  }

  /**
   * A run as the store has it now, and the fold of its journal; `undefined` if the store has no such run, or if `fold` returns it
   * for the first page. Throws like `readPages`.
   */
  async load(
    store: JournalStore,
    runId: string,
    fold: (
      before: Fold | undefined,
      page: readonly JournalEntry[],
    ) => Fold | undefined | Promise<Fold | undefined>,
  ): Promise<{ record: RunRecord; fold: Fold } | undefined> {
    return await readUnredacted(
      store,
      runId,
      async (span, record) => {
        if (record === undefined) this.drop(runId);
        const known = record && this.find(record);
        if (record === undefined) return undefined;
        if (known?.seq === record.seq) return { record, fold: known.fold };
        let folded = known?.fold;
        let { seq = 0, chars = 0 } = known ?? {};
        for await (const page of readPages(store, runId, seq, span)) {
          folded = await fold(folded, page);
          if (folded === undefined) return undefined;
          chars += charsOf(page);
          seq = page.at(-1)?.seq ?? seq;
        }
        if (folded === undefined) return undefined;
        this.keep(record, { seq, fold: folded, chars });
        return { record, fold: folded };
      },
      this.knowsMore,
    );
  }

  /** Whether the run has got entries since its record was read. */
  knowsMore = (record: Version): boolean => {
    const known = this.#known.peek(record.runId);
    return known !== undefined && isOf(known, record) && known.seq > record.seq;
  };

  find(record: Version): CachedFold<Fold> | undefined {
    const known = this.#known.get(record.runId);
    if (known !== undefined && isOf(known, record) && known.seq <= record.seq) return known;
    this.drop(record.runId);
    return undefined;
  }

  keep({ runId, createdAt, redactions }: Omit<Version, 'seq'>, fold: CachedFold<Fold>): void {
    this.#known.set(runId, { createdAt, redactions, ...fold }, fold.chars);
  }

  /** Replaces a fold by one of the same entries. */
  change(runId: string, redactions: number, change: (fold: Fold) => Fold): void {
    const known = this.#known.peek(runId);
    if (known?.redactions === redactions) known.fold = change(known.fold);
  }

  drop(runId: string): void {
    this.#known.delete(runId);
  }
}

function isOf({ createdAt, redactions }: Known<unknown>, record: Version): boolean {
  return createdAt === record.createdAt && redactions === record.redactions;
}

/** About how many characters a JSON value has. */
export function charsOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let chars = 16;
  for (const member of Object.values(value)) chars += charsOf(member);
  return chars;
}
