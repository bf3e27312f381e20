import { computed, signal } from '@preact/signals';
import type { InboxItem } from '../../../protocol/run-view.ts';
import { describeThrown, request } from '../data/request.ts';
import type { ListNews, Source } from '../data/source.ts';

const PAGE = 100;

type Page = { items: InboxItem[]; next?: string };

/** The id of an item: a call of a run. */
export function keyOf({ runId, call }: InboxItem): string {
  return `${runId}/${call.callId}`;
}

/**
 * The open decisions of all runs, kept up to date by the browser's stream.
 *
 * I1 Items are ordered by the time at which their call began to wait, newest first. Calls of one turn keep their order.
 * I2 The stream's items of a run replace its earlier items.
 */
export class InboxModel {
  readonly #source: Source;
  readonly #runs = signal<ReadonlyMap<string, readonly InboxItem[]>>(new Map());
  readonly problem = signal('');
  readonly isRead = signal(false);
  /** The cursor of the next page; `null` at the end. */
  readonly next = signal<string | null>(null);
  readonly items = computed(() =>
    [...this.#runs.value.values()].flat().sort((left, right) => right.since - left.since),
  );

  constructor(source: Source) {
    this.#source = source;
  }

  /** Reads the first page and follows changes. Returns a function that stops following. */
  follow(): () => void {
    return this.#source.followList(news => this.#take(news));
  }

  /** Reads the next page, or the first one again. */
  async read(cursor: string | null = null): Promise<void> {
    try {
      const place = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const page = await request<Page>(`/inbox?limit=${PAGE}${place}`);
      const found = Map.groupBy(page.items, ({ runId }) => runId);
      this.#runs.value = cursor === null ? found : new Map([...this.#runs.peek(), ...found]);
      this.next.value = page.next ?? null;
      this.problem.value = '';
    } catch (error) {
      this.problem.value = describeThrown(error);
    }
    this.isRead.value = true;
  }

  /** Removes an item that was decided here, before the stream reports the decision. */
  forget(item: InboxItem): void {
    const rest =
      this.#runs
        .peek()
        .get(item.runId)
        ?.filter(one => keyOf(one) !== keyOf(item)) ?? [];
    this.#set(item.runId, rest);
  }

  #take({ type, data }: ListNews): void {
    if (type === 'ready') return void this.read();
    if (type === 'summary') return;
    const { runId, items = [] } = data as { runId: string; items?: InboxItem[] };
    this.#set(runId, items);
  }

  #set(runId: string, items: readonly InboxItem[]): void {
    const runs = new Map(this.#runs.peek());
    if (items.length === 0) runs.delete(runId);
    else runs.set(runId, items);
    this.#runs.value = runs;
  }
}
