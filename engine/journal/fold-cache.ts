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
  readonly #known = new Map<string, Known<Fold>>();
  readonly #mostChars: number;
  #chars = 0;

  constructor(mostChars = MOST_CHARS) {
    this.#mostChars = mostChars;
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
  knowsMore = ({ runId, createdAt, redactions, seq }: Version): boolean => {
    const known = this.#known.get(runId);
    return known?.createdAt === createdAt && known.redactions === redactions && known.seq > seq;
  };

  find({ runId, createdAt, redactions, seq }: Version): CachedFold<Fold> | undefined {
    const known = this.#known.get(runId);
    if (known === undefined) return undefined;
    this.#known.delete(runId);
    const isSame = known.createdAt === createdAt && known.redactions === redactions && known.seq <= seq;
    if (isSame) this.#known.set(runId, known);
    else this.#chars -= known.chars;
    return isSame ? known : undefined;
  }

  keep({ runId, createdAt, redactions }: Omit<Version, 'seq'>, { seq, fold, chars }: CachedFold<Fold>): void {
    this.drop(runId);
    this.#known.set(runId, { createdAt, redactions, seq, fold, chars });
    this.#chars += chars;
    for (const oldest of this.#known.keys()) {
      if (this.#chars <= this.#mostChars) return;
      this.drop(oldest);
    }
  }

  /** Replaces a fold by one of the same entries. */
  change(runId: string, redactions: number, change: (fold: Fold) => Fold): void {
    const known = this.#known.get(runId);
    if (known?.redactions === redactions) known.fold = change(known.fold);
  }

  drop(runId: string): void {
    this.#chars -= this.#known.get(runId)?.chars ?? 0;
    this.#known.delete(runId);
  }
}

/** About how many characters a JSON value has. */
export function charsOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let chars = 16;
  for (const member of Object.values(value)) chars += charsOf(member);
  return chars;
}
