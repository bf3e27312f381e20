import { signal } from '@preact/signals';
import { describeThrown, type RunSummary, requestServer } from '../data/request.ts';
import { askTotals, type Sums, sumTotals } from '../data/totals.ts';
import { listQueries, type RunFilter, totalsParams } from './run-filter.ts';

const PAGE = 200;
const STILL_MS = 60;
const TOTALS_MS = 1_500;

type Counts = {
  /** The rows of the list by status, with the empty one for all. */
  rows: Readonly<Record<string, number>>;
  /** What the chosen runs used, also those that are folded. */
  sum: Sums;
};

type Part = { query: URLSearchParams; count: number; pages: Map<number, readonly RunSummary[]> };

/** What the row of a run stands for, as `GET /folded` says. */
export type FoldedRow = {
  runId: string;
  subAgents: number;
  together?: {
    kind: 'thread' | 'session';
    title: string;
    latest: RunSummary;
    runs: number;
    tokens: number;
    cost: number;
    activeMs: number;
  };
};

const MOST_FOLDED = 100;

/**
 * The runs of a filter, of which only those on screen are read.
 *
 * L1 A list has one part, or two: the runs that wait, then the others. At first one page of each is read.
 * L2 `count` is what the server has counted; before, one more than is known, if there is more.
 * L3 News make the page read again what is in sight. Pages out of sight are forgotten then, and read once they are in sight.
 * L4 What is shown stays until its page has been read.
 */
export class RunPages {
  readonly filter: RunFilter;
  /** Changes with the runs. */
  readonly version = signal(0);
  readonly problem = signal('');
  readonly counts = signal<Counts | null>(null);
  /** By the id of the run that has the row. */
  readonly folded = signal<ReadonlyMap<string, FoldedRow>>(new Map());
  /** Whether the first pages have been read. */
  readonly isRead = signal(false);
  readonly #parts: readonly Part[];
  readonly #asked = new Set<string>();
  readonly #unfolded = new Set<string>();
  #sight: readonly [first: number, last: number] = [0, PAGE];
  #soon: ReturnType<typeof setTimeout> | undefined;
  #counted = Number.NEGATIVE_INFINITY;
  #counting: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(filter: RunFilter) {
    this.filter = filter;
    this.#parts = listQueries(filter).map(query => ({ query, count: 0, pages: new Map() }));
  }

  get count(): number {
    return this.#parts.reduce((sum, { count }) => sum + count, 0);
  }

  at(index: number): RunSummary | undefined {
    let left = index;
    for (const { count, pages } of this.#parts) {
      if (left < count) return pages.get(Math.floor(left / PAGE))?.[left % PAGE];
      left -= count;
    }
    return undefined;
  }

  /** The place of a run that has been read; -1 for others. */
  indexOf(runId: string): number {
    let before = 0;
    for (const { count, pages } of this.#parts) {
      for (const [page, runs] of pages) {
        const place = runs.findIndex(run => run.runId === runId);
        if (place >= 0) return before + page * PAGE + place;
      }
      before += count;
    }
    return -1;
  }

  /** All runs that have been read. */
  known(): RunSummary[] {
    return this.#parts.flatMap(({ pages }) => [...pages.values()].flat());
  }

  /** Reads the visible rows after scrolling stops. `last` is the row after it. */
  look(first: number, last: number): void {
    this.#sight = [first, last];
    if (!this.isRead.peek()) return;
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => {
      void this.#readAll(this.#missing());
      void this.#readFolded();
    }, STILL_MS);
  }

  /** Reads what is in sight again, and the totals. */
  async read(): Promise<void> {
    const wanted = this.#inSight();
    const isDone = await this.#readAll(wanted.length === 0 ? this.#parts.map(part => [part, 0]) : wanted);
    if (!isDone || this.#isClosed) return;
    for (const part of this.#parts)
      for (const page of part.pages.keys())
        if (page > 0 && !wanted.some(([one, shown]) => one === part && shown === page))
          part.pages.delete(page);
    this.#countSoon();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#soon);
    clearTimeout(this.#counting);
  }

  #inSight(): [Part, number][] {
    const [first, last] = this.#sight;
    const found: [Part, number][] = [];
    let before = 0;
    for (const part of this.#parts) {
      const from = Math.max(0, first - before);
      const to = Math.min(part.count, last - before);
      for (let page = Math.floor(from / PAGE); page * PAGE < to; page += 1) found.push([part, page]);
      before += part.count;
    }
    return found;
  }

  #missing(): [Part, number][] {
    return this.#inSight().filter(([part, page]) => !part.pages.has(page));
  }

  /** Reads what the rows in sight stand for, again when their runs have changed. */
  async #readFolded(): Promise<void> {
    if (!this.filter.isFolded) return;
    const [first, last] = this.#sight;
    const wanted = Array.from({ length: Math.min(last - first, MOST_FOLDED) }, (_, place) =>
      this.at(first + place),
    );
    const query = new URLSearchParams();
    for (const run of wanted) {
      const key = `${run?.runId} ${run?.seq}`;
      if (run === undefined || this.#unfolded.has(key)) continue;
      this.#unfolded.add(key);
      query.append('run', run.runId);
    }
    if (query.size === 0) return;
    const answer = await requestServer<{ rows: FoldedRow[] }>(`/folded?${query}`).catch(() => null);
    if (answer === null) return this.#unfolded.clear();
    if (this.#isClosed) return;
    this.folded.value = new Map([
      ...this.folded.peek(),
      ...answer.rows.map(row => [row.runId, row] as const),
    ]);
  }

  /** Resolves to `false` if something could not be read. */
  async #readAll(wanted: readonly (readonly [Part, number])[]): Promise<boolean> {
    try {
      await Promise.all(wanted.map(([part, page]) => this.#readPage(part, page)));
      this.problem.value = '';
    } catch (error) {
      this.problem.value = describeThrown(error);
      return false;
    } finally {
      if (!this.#isClosed) {
        this.isRead.value = true;
        this.version.value += 1;
      }
    }
    return true;
  }

  async #readPage(part: Part, page: number): Promise<void> {
    const path = `/runs?limit=${PAGE}&skip=${page * PAGE}&${part.query}`;
    if (this.#asked.has(path)) return;
    this.#asked.add(path);
    try {
      const { runs, next } = await requestServer<{ runs: RunSummary[]; next?: string }>(path);
      part.pages.set(page, runs);
      const end = page * PAGE + runs.length;
      if (next !== undefined) part.count = Math.max(part.count, end + 1);
      else if (runs.length > 0 || page === 0) part.count = end;
    } finally {
      this.#asked.delete(path);
    }
  }

  /** Starts a count unless one is running or `TOTALS_MS` have not passed. */
  #countSoon(): void {
    const wait = Math.max(0, this.#counted + TOTALS_MS - performance.now());
    this.#counting ??= setTimeout(() => void this.#count(), wait);
  }

  async #count(): Promise<void> {
    const { status, isFolded } = this.filter;
    const isInDoubt = status === 'in doubt';
    // Without totals, the list shows what it has read.
    const found = await Promise.all([
      askTotals('by=status', totalsParams(this.filter)),
      isFolded || isInDoubt
        ? askTotals(isInDoubt ? 'doubt=true' : 'by=status', totalsParams({ ...this.filter, isFolded: false }))
        : null,
    ]).catch(() => null);
    this.#counted = performance.now();
    this.#counting = undefined;
    if (found === null || this.#isClosed) return;
    const [listed, used] = found;
    const all = sumTotals(listed);
    const rows: Record<string, number> = { '': all.runs, 'in doubt': all.doubts };
    for (const row of listed) rows[row.status ?? ''] = row.runs;
    for (const part of this.#parts) {
      const { query } = part;
      const name = query.has('doubt') ? 'in doubt' : (query.get('status') ?? '');
      part.count = (rows[name] ?? 0) - (query.has('waiting') ? (rows.waiting ?? 0) : 0);
    }
    const isAll = status === '' || isInDoubt;
    this.counts.value = {
      rows,
      sum: sumTotals((used ?? listed).filter(row => isAll || row.status === status)),
    };
    this.version.value += 1;
  }
}
