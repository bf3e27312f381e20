import type { StoredState } from '../../../machines/snapshot.ts';
import type { Delta } from '../../../protocol/effect.ts';
import type { RunView, StreamedEvent } from './request.ts';

/** A page of a journal; `first` and `last` are those of the whole journal. */
export type EntriesPage = { entries: StreamedEvent[]; first: number; last: number };

/** Selects entries: the first after a `seq`, or the last before a `seq` (without it, the newest). */
type EntriesPlace = { after: number; limit: number } | { before?: number; limit: number };

/** An event of the stream about one run. */
export type RunNews =
  | { type: 'open' | 'away' }
  | { type: 'journal'; event: StreamedEvent }
  | { type: 'text'; turn: { turn: number; attempt: number; text: string } }
  | { type: 'delta'; delta: Delta }
  | { type: 'end' }
  | { type: 'gone' };

/** An event of the stream about the list of runs and the inbox. After `ready`, readers read both again. */
export type ListNews = { type: 'ready' | 'summary' | 'inbox' | 'removed'; data: unknown };

/** A source of runs: a server, or a journal in this document. */
export interface Source {
  /** Whether the source is a server: commands can be sent, and runs continue. */
  readonly live: boolean;
  view(runId: string): Promise<RunView>;
  entries(runId: string, place: EntriesPlace): Promise<EntriesPage>;
  state(runId: string, at: number): Promise<StoredState>;
  /** Follows a run after entry `after`. Returns a function that stops following. */
  follow(runId: string, after: () => number, listen: (news: RunNews) => void): () => void;
  /** Follows the list of runs and the inbox. Returns what ends it. */
  followList(listen: (news: ListNews) => void): () => void;
}
