// visualizer/page/data: where the page gets runs from: a server, a recorded file or the page itself; and what
// it sends.

import type { restore } from '../../../machines/snapshot.ts';
import type { Delta } from '../../../protocol/effect.ts';
import type { RunView, StreamedEvent } from './request.ts';

/** `first` and `last` are those of the journal; `state` is the one before `entries`, if they end the journal. */
export type EntriesPage = {
  entries: StreamedEvent[];
  first: number;
  last: number;
  state?: Parameters<typeof restore>[0];
};

/** Selects entries: the first after a `seq`, or some of the last. */
type EntriesPlace = { after: number; limit: number } | 'tail';

export type RunNews =
  | { type: 'open' | 'away' | 'end' | 'gone' }
  | { type: 'journal'; data: StreamedEvent }
  | { type: 'text'; data: { turn: number; attempt: number; text: string } }
  | { type: 'delta'; data: Delta };

/** An event of the stream about the list of runs and the inbox. After `ready`, readers read both again. */
export type ListNews = { type: 'ready' | 'summary' | 'inbox' | 'removed'; data: unknown };

/** How many entries the end of a journal has that a run is shown with first. */
export const TAIL = 192;

const PAGE = 2_000;

/** Reads the first `most` entries of a run, or all if there are fewer. */
export async function readFirstEntries(
  source: PageSource,
  runId: string,
  most: number,
): Promise<StreamedEvent[]> {
  const read: StreamedEvent[] = [];
  while (read.length < most) {
    const { entries, last } = await source.entries(runId, { after: read.length, limit: PAGE });
    read.push(...entries);
    if (entries.length === 0 || read.length >= last) break;
  }
  return read.slice(0, most);
}

export interface PageSource {
  /** Whether the source is a server: commands can be sent, and runs continue. */
  readonly live: boolean;
  view(runId: string): Promise<RunView>;
  entries(runId: string, place: EntriesPlace): Promise<EntriesPage>;
  /** Follows a run after entry `after`. Returns a function that stops following. */
  follow(runId: string, after: () => number, listen: (news: RunNews) => void): () => void;
  followList(listen: (news: ListNews) => void): () => void;
}
