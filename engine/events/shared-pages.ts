import type { JournalEntry } from '../../protocol/event.ts';
import { oncePer } from '../../protocol/once-per.ts';
import { type RunHappening, stampEvent } from './run-events.ts';

/** The most characters of journals that the readers of this process share. The newest page is kept, of any length. */
const MOST_CHARS = 8 * 1024 * 1024;

/** The entries after seq `from`, up to `last`. `isEnd`: they were the last ones when they were read. */
type SharedPage = {
  happenings: readonly RunHappening[];
  from: number;
  last: number;
  isEnd: boolean;
  chars: number;
};

/** The pages of all runs, with the most recently read one last. */
const kept = new Map<SharedPage, SharedPages>();
let keptChars = 0;

/** An event as JSON, written once for all readers. */
export const jsonOf = oncePer((happening: RunHappening) => JSON.stringify(happening));

type PagesOptions = {
  runId: string;
  read(after: number): Promise<JournalEntry[]>;
  /** Reads the entries of other processes: `clear` follows if one of them is a redaction. Rejects if the run is gone. */
  refresh(): Promise<void>;
  /** Whether more than one reader reads the run: the pages of a single one are not kept. */
  isShared(): boolean;
};

/**
 * The pages of a run's journal that its readers read at the same time.
 *
 * G1 Readers that need the same page share one read, and get the same events, so that what is derived from them is made once.
 * G2 Pages are kept while several readers read the run, and at most `MOST_CHARS` characters of all runs.
 * G3 No kept page is given out before the entries of other processes were read: after a redaction or a deletion by any
 *    process, readers get what the store has then.
 */
export class SharedPages {
  readonly #options: PagesOptions;
  #pages: SharedPage[] = [];
  readonly #reading = new Map<number, Promise<SharedPage>>();

  constructor(options: PagesOptions) {
    this.#options = options;
  }

  /** The next entries after seq `after`; empty at the end. Entries after `last` may be left out. */
  async readAfter(after: number, last: number): Promise<readonly RunHappening[]> {
    if (after >= last) return [];
    const { from, happenings } = await this.#find(after, last);
    return from === after ? happenings : happenings.filter(one => isAfter(one, after));
  }

  clear(): void {
    this.#reading.clear();
    for (const page of this.#pages) forget(page);
    this.#pages = [];
  }

  async #find(seq: number, last: number): Promise<SharedPage> {
    if (isCurrent(this.#pageWith(seq), last)) await this.#options.refresh();
    const known = this.#pageWith(seq);
    if (known !== undefined && isCurrent(known, last)) {
      keep(known, this);
      return known;
    }
    const from = known?.from ?? seq;
    const inFlight = this.#reading.get(from);
    if (inFlight !== undefined) return await inFlight;
    const reading = this.#read(from, last);
    this.#reading.set(from, reading);
    try {
      const page = await reading;
      // Not after `clear`, which may have come between.
      if (this.#reading.get(from) === reading && this.#options.isShared()) this.#keep(page);
      return page;
    } finally {
      if (this.#reading.get(from) === reading) this.#reading.delete(from);
    }
  }

  #pageWith(seq: number): SharedPage | undefined {
    return this.#pages.find(page => page.from <= seq && seq < page.last);
  }

  async #read(from: number, known: number): Promise<SharedPage> {
    const { read, runId } = this.#options;
    const entries = await read(from);
    const happenings = entries.map(entry => stampEvent(entry, runId));
    const last = entries.at(-1)?.seq ?? from;
    return { happenings, from, last, isEnd: last >= known, chars: 0 };
  }

  #keep(page: SharedPage): void {
    for (const one of page.happenings) page.chars += jsonOf(one).length;
    for (const other of this.#pages) if (other.from === page.from) forget(other);
    this.#pages = [...this.#pages.filter(({ from }) => from !== page.from), page];
    keep(page, this);
    for (const [oldest, owner] of kept) {
      if (keptChars <= MOST_CHARS || oldest === page) return;
      owner.#drop(oldest);
    }
  }

  #drop(page: SharedPage): void {
    this.#pages = this.#pages.filter(other => other !== page);
    forget(page);
  }
}

/** Whether a page has all that it can have of a journal with the entry `last`. */
function isCurrent(page: SharedPage | undefined, last: number): boolean {
  return page !== undefined && (!page.isEnd || page.last >= last);
}

function isAfter(happening: RunHappening, seq: number): boolean {
  return 'seq' in happening && happening.seq > seq;
}

function keep(page: SharedPage, owner: SharedPages): void {
  if (!kept.delete(page)) keptChars += page.chars;
  kept.set(page, owner);
}

function forget(page: SharedPage): void {
  if (kept.delete(page)) keptChars -= page.chars;
}
