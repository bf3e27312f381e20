import type { Delta } from '../../protocol/effect.ts';
import { JournalFold } from './journal-fold.ts';
import {
  attemptKey,
  type Block,
  buildConversation,
  type Entry,
  type LiveTurn,
} from './panes/conversation.ts';
import type { RunView, StreamedEvent } from './runs-api.ts';

export type Connection =
  | { type: 'connecting' }
  | { type: 'live' }
  | { type: 'away'; since: number }
  | { type: 'ended' };

/**
 * The page's model of a run: its journal, live output, and the server's view. Every change calls `changed`.
 *
 * M1 Each entry is applied once, in order; repeated entries after a reconnection are ignored.
 * M2 Live text belongs to one attempt of one turn and ends with it.
 */
export class RunModel {
  readonly runId: string;
  readonly fold = new JournalFold();
  readonly entries: Entry[] = [];
  readonly progress = new Map<string, unknown>();
  view: RunView | null = null;
  connection: Connection = { type: 'connecting' };
  #live: LiveTurn | null = null;
  #callsStarted = false;
  readonly #streamed = new Map<string, string>();
  readonly #changed: () => void;

  constructor(runId: string, changed: () => void) {
    this.runId = runId;
    this.#changed = changed;
  }

  /** The `seq` of the last entry; 0 before the first. */
  get seq(): number {
    return this.entries.at(-1)?.event.seq ?? 0;
  }

  /** Whether the server's view says that the run has ended. */
  get hasEnded(): boolean {
    const status = this.view?.status;
    return status === 'finished' || status === 'failed' || status === 'cancelled';
  }

  /**
   * The path of the current state. Streamed text arrives before the journal's `text.started`, which waits for the
   * next commit.
   */
  get path(): string {
    const path = this.fold.path ?? this.view?.state ?? '';
    const shows = this.#live !== null && this.#live.text !== '';
    return path === 'turn.planning' && shows && !this.#callsStarted ? 'turn.finalStreaming' : path;
  }

  /** The blocks of the conversation. */
  get conversation(): Block[] {
    return buildConversation({
      entries: this.entries,
      context: this.fold.context,
      view: this.view,
      live: this.#live,
      streamed: this.#streamed,
      progress: this.progress,
    });
  }

  /** Applies a journal entry. */
  takeEntry(event: StreamedEvent): void {
    if (event.seq <= this.seq) return;
    const taken = this.fold.take(event.seq, event);
    this.entries.push({ event, taken });
    if (event.type === 'calls.started') this.#callsStarted = true;
    if (event.type === 'turn.completed' || event.type === 'turn.failed') {
      this.#callsStarted = false;
      this.#endLive({ turn: taken.turn.number, attempt: taken.turn.attempt });
    }
    this.#changed();
  }

  /** Replaces the live text by the full text of the running turn so far. */
  takeTextSoFar(turn: { turn: number; attempt: number; text: string }): void {
    this.#live = { ...turn, reasoning: '' };
    this.#changed();
  }

  /** Applies live output. */
  takeDelta(delta: Delta): void {
    switch (delta.type) {
      case 'text.delta':
        this.#liveOf(delta).text += delta.text;
        break;
      case 'reasoning.delta':
        this.#liveOf(delta).reasoning += delta.text;
        break;
      case 'text.discarded':
        this.#endLive(delta);
        break;
      case 'tool.progress':
        this.progress.set(delta.callId, delta.data);
        break;
      case 'call.delta':
      case 'decided':
        return;
    }
    this.#changed();
  }

  /** Applies the server's view, unless it is older than the current one. */
  takeView(view: RunView): void {
    if (this.view !== null && view.seq < this.view.seq) return;
    this.view = view;
    this.#changed();
  }

  /** Sets the state of the event stream. */
  setConnection(connection: Connection): void {
    this.connection = connection;
    this.#changed();
  }

  #liveOf({ turn, attempt }: { turn: number; attempt: number }): LiveTurn {
    if (this.#live?.turn === turn && this.#live.attempt === attempt) return this.#live;
    this.#live = { turn, attempt, text: '', reasoning: '' };
    return this.#live;
  }

  #endLive(place: { turn: number; attempt: number }): void {
    const live = this.#live;
    if (live === null || attemptKey(live) !== attemptKey(place)) return;
    if (live.text !== '') this.#streamed.set(attemptKey(live), live.text);
    this.#live = null;
  }
}
