import type { StoredState } from '../../../machines/snapshot.ts';
import type { Delta } from '../../../protocol/effect.ts';
import type { RunView, StreamedEvent } from './request.ts';

/** A page of a journal; `first` and `last` are those of the whole journal. */
export type EntriesPage = { entries: StreamedEvent[]; first: number; last: number };

/** Which entries: the first after a `seq`, or the last before one (the newest without it). */
type EntriesPlace = { after: number; limit: number } | { before?: number; limit: number };

/** What the stream says about one run. */
export type RunNews =
  | { type: 'open' | 'away' }
  | { type: 'journal'; event: StreamedEvent }
  | { type: 'text'; turn: { turn: number; attempt: number; text: string } }
  | { type: 'delta'; delta: Delta }
  | { type: 'end' }
  | { type: 'gone' };

/** What the stream says about the list of runs and the inbox. The reader of `ready` reads both again. */
export type ListNews = { type: 'ready' | 'summary' | 'inbox' | 'removed'; data: unknown };

/** Where runs come from: a server, or a journal in this document. */
export interface Source {
  /** Whether there is a server: commands can be sent, and runs go on. */
  readonly live: boolean;
  view(runId: string): Promise<RunView>;
  entries(runId: string, place: EntriesPlace): Promise<EntriesPage>;
  state(runId: string, at: number): Promise<StoredState>;
  /** Follows a run after the entry that `after` names. Returns what ends it. */
  follow(runId: string, after: () => number, listen: (news: RunNews) => void): () => void;
  /** Follows the list of runs and the inbox. Returns what ends it. */
  followList(listen: (news: ListNews) => void): () => void;
}
