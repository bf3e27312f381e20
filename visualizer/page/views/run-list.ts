import { signal } from '@preact/signals';
import { omitUndefined } from '../../../protocol/json.ts';
import { describeThrown, type RunSummary, request } from '../data/request.ts';
import type { ListNews, Source } from '../data/source.ts';

const PAGE = 200;
const GATHER_MS = 250;

type Listed = { runs: RunSummary[]; next?: string };

/** The filter of the list, from the parameters of the URL. */
export type RunFilter = {
  status: string;
  /** A part of the title. */
  text: string;
  agent: string;
  /** `NAME=VALUE`. */
  label: string;
  /** Created in the last this many hours; empty for all. */
  hours: string;
};

/** Reads the filter in an address. */
export function readFilter(query: URLSearchParams): RunFilter {
  const of = (name: string): string => query.get(name) ?? '';
  return {
    status: of('status') || 'all',
    text: of('text'),
    agent: of('agent'),
    label: of('label'),
    hours: of('hours'),
  };
}

/**
 * The runs that match a filter: those that wait first, then the newest. `next` is the cursor of the runs that are not
 * read yet.
 */
export class RunList {
  readonly #source: Source;
  readonly #filter: RunFilter;
  readonly #since: number | null;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #pages = 1;
  readonly waiting = signal<readonly RunSummary[]>([]);
  readonly others = signal<readonly RunSummary[]>([]);
  readonly next = signal<string | null>(null);
  readonly problem = signal('');
  readonly isRead = signal(false);

  constructor(source: Source, filter: RunFilter) {
    this.#source = source;
    this.#filter = filter;
    const hours = Number(filter.hours);
    this.#since = hours > 0 ? Date.now() - hours * 3_600_000 : null;
  }

  /** Reads the list and follows changes. Returns a function that stops following. */
  follow(): () => void {
    void this.read();
    const end = this.#source.followList(news => this.#take(news));
    return () => {
      clearTimeout(this.#soon);
      end();
    };
  }

  /** Reads all pages that were read before again. */
  async read(): Promise<void> {
    const { status } = this.#filter;
    try {
      const takesWaiting = status === 'all' || status === 'waiting';
      const [waiting, others] = await Promise.all([
        takesWaiting ? this.#readAll('waiting', Number.POSITIVE_INFINITY) : NONE,
        status === 'waiting' ? NONE : this.#readAll(status, this.#pages),
      ]);
      this.waiting.value = waiting.runs;
      this.others.value = others.runs.filter(run => run.status !== 'waiting');
      this.next.value = others.next ?? null;
      this.problem.value = '';
    } catch (error) {
      this.problem.value = describeThrown(error);
    }
    this.isRead.value = true;
  }

  /** Reads one more page. */
  async readMore(): Promise<void> {
    this.#pages += 1;
    await this.read();
  }

  async #readAll(status: string, most: number): Promise<Listed> {
    const runs: RunSummary[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < most; page += 1) {
      const found: Listed = await this.#readPage(status, cursor);
      runs.push(...found.runs);
      cursor = found.next;
      if (cursor === undefined) return { runs };
    }
    return { runs, ...omitUndefined({ next: cursor }) };
  }

  #readPage(status: string, cursor: string | undefined): Promise<Listed> {
    const { text, agent, label } = this.#filter;
    const query = new URLSearchParams({ limit: String(PAGE) });
    const set = (name: string, value: string): void => {
      if (value !== '') query.set(name, value);
    };
    set('status', status === 'all' ? '' : status);
    set('text', text);
    set('agent', agent);
    set('label', label);
    set('since', this.#since === null ? '' : String(this.#since));
    set('cursor', cursor ?? '');
    return request(`/runs?${query}`);
  }

  #take({ type }: ListNews): void {
    if (type === 'inbox') return;
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => void this.read(), GATHER_MS);
  }
}

const NONE: Listed = { runs: [] };
