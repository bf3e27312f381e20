import { describe, expect, test } from 'vitest';
import { SharedPages } from '../../../engine/events/shared-pages.ts';
import type { JournalEntry } from '../../../protocol/event.ts';

const PAGE = 10;

/** A journal that several readers read. */
class Journal {
  entries: JournalEntry[] = [];
  reads = 0;
  refreshes = 0;
  onRefresh = () => {};
  isShared = true;
  readonly pages: SharedPages;

  constructor(entries: number, length = 10) {
    this.append(entries, length);
    this.pages = new SharedPages({
      runId: 'run_1',
      read: async after => {
        this.reads += 1;
        return this.entries.slice(after, after + PAGE);
      },
      refresh: async () => {
        this.refreshes += 1;
        this.onRefresh();
      },
      isShared: () => this.isShared,
    });
  }

  append(entries: number, length = 10): void {
    for (let left = entries; left > 0; left -= 1)
      this.entries.push({
        seq: this.entries.length + 1,
        event: { type: 'pause.requested', at: 1, by: 'x'.repeat(length) },
      });
  }

  /** Everything after `after`, as a reader reads it: the pages, and their seqs. */
  async read(after = 0) {
    const pages = [];
    for (let seq = after; ; ) {
      const page = await this.pages.readAfter(seq, this.entries.length);
      if (page.length === 0) return { pages, seqs: pages.flat().map(one => ('seq' in one ? one.seq : 0)) };
      pages.push(page);
      seq += page.length;
    }
  }
}

function countFrom(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, place) => first + place);
}

describe('the pages that readers of a run share', () => {
  test('are read once for all readers, who get the same events', async () => {
    const journal = new Journal(35);
    const [one, ...others] = await Promise.all([1, 2, 3, 4, 5].map(() => journal.read()));
    expect(journal.reads).toBe(4);
    expect(one?.seqs).toEqual(countFrom(1, 35));
    for (const { pages } of [...others, await journal.read()])
      for (const [place, page] of pages.entries()) expect(page).toBe(one?.pages[place]);
    expect(journal.reads).toBe(4);
  });

  test('serve a reader that begins in the middle of one', async () => {
    const journal = new Journal(35);
    await journal.read();
    expect((await journal.read(17)).seqs).toEqual(countFrom(18, 35));
    expect(journal.reads).toBe(4);
  });

  test('meet those of readers that began elsewhere', async () => {
    const journal = new Journal(35);
    await journal.read(3);
    expect((await journal.read()).seqs).toEqual(countFrom(1, 35));
    expect(journal.reads).toBe(4 + 1);
  });

  test('include what was appended to the last one', async () => {
    const journal = new Journal(13);
    await journal.read();
    journal.append(4);
    expect((await journal.read()).seqs).toEqual(countFrom(1, 17));
    journal.append(30);
    expect((await journal.read(15)).seqs).toEqual(countFrom(16, 47));
  });

  test('are not kept for a single reader', async () => {
    const journal = new Journal(25);
    journal.isShared = false;
    await journal.read();
    await journal.read();
    expect(journal.reads).toBe(6);
    expect(journal.refreshes).toBe(0);
  });

  test('are not given out again before the entries of other processes were read', async () => {
    const journal = new Journal(25);
    await journal.read();
    journal.entries = journal.entries.map(({ seq }) => ({
      seq,
      event: { type: 'pause.requested', at: 1, by: 'redacted' },
    }));
    journal.onRefresh = () => journal.pages.clear();
    const { pages } = await journal.read();
    expect(pages.flat().every(one => 'by' in one && one.by === 'redacted')).toBe(true);
  });

  test('of all runs together are bounded: those not read for longest are read again', async () => {
    const [first, second] = [new Journal(10, 500_000), new Journal(20, 300_000)];
    await first.read();
    await first.read();
    expect(first.reads).toBe(1);
    await second.read();
    expect((await first.read()).seqs).toEqual(countFrom(1, 10));
    expect(first.reads).toBe(2);
  });

  test('that were being read when the journal was redacted are not kept', async () => {
    const journal = new Journal(5);
    const reading = journal.read();
    journal.pages.clear();
    await reading;
    await journal.read();
    expect(journal.reads).toBe(2);
  });
});
