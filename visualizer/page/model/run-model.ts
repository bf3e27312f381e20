import { batch, computed, signal } from '@preact/signals';
import type { Delta } from '../../../protocol/effect.ts';
import type { RunView, StreamedEvent } from '../data/request.ts';
import { attemptKey } from './attempt-key.ts';
import { FoldedJournal } from './folded-journal.ts';
import { Folded } from './journal-fold.ts';
import { RunStory } from './run-story.ts';

export type Connection =
  | { type: 'connecting' }
  | { type: 'live' }
  | { type: 'away'; since: number }
  | { type: 'ended' };

/** The streamed output of an attempt. The text filters have been applied to `text`. */
export type LiveTurn = { turn: number; attempt: number; text: string; reasoning: string };

/**
 * The page's model of a run: its journal, the folds of it, live output, the server's view, and the cursor, the one
 * place that all panes show.
 *
 * M1 Each entry is applied once, in order; repeated entries after a reconnection are ignored.
 * M2 Live text belongs to one attempt of one turn and ends with it, or with the run: after a request to cancel there is none.
 * M3 Without a chosen place the cursor is at the last entry and moves with it.
 */
export class RunModel {
  readonly runId: string;
  readonly view = signal<RunView | null>(null);
  readonly connection = signal<Connection>({ type: 'connecting' });
  readonly live = signal<LiveTurn | null>(null);
  readonly progress = signal<ReadonlyMap<string, unknown>>(new Map());
  /** The `seq` of the last entry; 0 before the first. */
  readonly last = signal(0);
  /** The `seq` of the first entry that is loaded. */
  readonly first = signal(1);
  /** The entry that a person chose; `null` to follow the end. */
  readonly chosen = signal<number | null>(null);
  /** Changes with the story: read it before the story. */
  readonly told = signal(0);
  readonly at = computed(() => Math.max(0, Math.min(this.chosen.value ?? this.last.value, this.last.value)));
  readonly isAtEnd = computed(() => this.at.value === this.last.value);
  /** The fold at the cursor, and the one before it. */
  readonly shown = computed(() => this.foldAt(this.at.value));
  readonly before = computed(() => this.foldAt(this.at.value - 1));
  readonly ended = computed(() => {
    const status = this.view.value?.status;
    return status === 'finished' || status === 'failed' || status === 'cancelled';
  });
  /** The path of the last state. */
  readonly path = computed(() => this.#pathNow());
  readonly streamed = new Map<string, string>();
  #entries: (StreamedEvent | undefined)[] = [];
  #folded = new FoldedJournal(seq => this.entry(seq));
  #story = new RunStory();
  #callsStarted = false;

  constructor(runId: string) {
    this.runId = runId;
  }

  /** The entry at a `seq`, if it is loaded. */
  entry(seq: number): StreamedEvent | undefined {
    void this.first.value;
    return this.#entries[seq - 1];
  }

  /** The journal's story, for all panes. `told` changes with it. */
  get story(): RunStory {
    void this.told.value;
    return this.#story;
  }

  /** The fold at an entry. */
  foldAt(seq: number): Folded {
    void this.last.value;
    void this.first.value;
    return seq < 1 ? Folded.start : this.#folded.at(seq);
  }

  /** The fold at the last entry. */
  get fold(): Folded {
    return this.foldAt(this.last.value);
  }

  /** Moves the cursor; `null` follows the end. */
  choose(seq: number | null): void {
    const last = this.last.peek();
    this.chosen.value = seq === null ? null : Math.max(1, Math.min(seq, last));
  }

  /** Starts with the end of a long journal. `base` is the fold before the first of `entries`. */
  beginAt(base: Folded, entries: readonly StreamedEvent[]): void {
    if (this.last.peek() > 0) return;
    this.#entries = new Array(base.seq);
    this.#folded = new FoldedJournal(seq => this.entry(seq), base);
    this.#story = new RunStory();
    this.first.value = base.seq + 1;
    this.last.value = base.seq;
    this.takeEntries(entries);
  }

  /** Adds the entries before the first loaded one; `retell` then updates the folds and the story. */
  addOlder(entries: readonly StreamedEvent[]): void {
    for (const event of entries) this.#entries[event.seq - 1] ??= event;
  }

  /** Replaces folds and story by those of the whole journal, in pieces between which the page can draw. */
  async retell(pause: () => Promise<void>): Promise<void> {
    const folded = new FoldedJournal(seq => this.entry(seq));
    const story = new RunStory();
    let began = performance.now();
    for (let seq = 1; seq <= this.last.peek(); seq += 1) {
      const event = this.entry(seq);
      if (event === undefined) return;
      story.take(event, folded.take(event));
      if (performance.now() - began < 12) continue;
      await pause();
      began = performance.now();
    }
    batch(() => {
      this.#folded = folded;
      this.#story = story;
      this.first.value = 1;
      this.told.value += 1;
    });
  }

  /** Applies entries of the journal. Returns `false` if entries before them are missing. */
  takeEntries(events: readonly StreamedEvent[]): boolean {
    return batch(() => {
      for (const event of events) {
        if (event.seq <= this.last.peek()) continue;
        if (event.seq > this.last.peek() + 1) return false;
        this.#takeEntry(event);
      }
      return true;
    });
  }

  #takeEntry(event: StreamedEvent): void {
    this.#entries[event.seq - 1] = event;
    const folded = this.#folded.take(event);
    this.#story.take(event, folded);
    if (event.type === 'calls.started') this.#callsStarted = true;
    if (event.type === 'turn.completed' || event.type === 'turn.failed') {
      this.#callsStarted = false;
      const { number: turn, attempt } = folded.taken.turn;
      this.#endLive({ turn, attempt });
    }
    const live = this.live.peek();
    if (live !== null && writesNoMore(folded)) this.#endLive(live);
    this.last.value = event.seq;
    this.told.value += 1;
  }

  /** Replaces the live text by the full text of the running turn so far. */
  takeTextSoFar({ turn, attempt, text }: { turn: number; attempt: number; text: string }): void {
    if (writesNoMore(this.fold)) return;
    this.live.value = { turn, attempt, text, reasoning: '' };
  }

  /** Applies live output. */
  takeDelta(delta: Delta): void {
    switch (delta.type) {
      case 'text.delta':
        this.#addLive(delta, { text: delta.text, reasoning: '' });
        return;
      case 'reasoning.delta':
        this.#addLive(delta, { text: '', reasoning: delta.text });
        return;
      case 'text.discarded':
        this.#endLive(delta);
        return;
      case 'tool.progress':
        this.progress.value = new Map(this.progress.peek()).set(delta.callId, delta.data);
        return;
      case 'call.delta':
      case 'decided':
    }
  }

  /** Applies the server's view, unless it is older than the current one. */
  takeView(view: RunView): void {
    const known = this.view.peek();
    if (known === null || view.seq >= known.seq) this.view.value = view;
  }

  /**
   * Streamed text arrives before the journal's `text.started`, which waits for the next commit.
   */
  #pathNow(): string {
    const path = this.fold.path ?? this.view.value?.state ?? '';
    const shows = this.live.value !== null && this.live.value.text !== '';
    return path === 'turn.planning' && shows && !this.#callsStarted ? 'turn.finalStreaming' : path;
  }

  #addLive(
    { turn, attempt }: { turn: number; attempt: number },
    more: { text: string; reasoning: string },
  ): void {
    if (writesNoMore(this.fold)) return;
    const now = this.live.peek();
    const same = now?.turn === turn && now.attempt === attempt;
    const { text, reasoning } = same ? now : { text: '', reasoning: '' };
    this.live.value = { turn, attempt, text: text + more.text, reasoning: reasoning + more.reasoning };
  }

  #endLive(place: { turn: number; attempt: number }): void {
    const live = this.live.peek();
    if (live === null || attemptKey(live) !== attemptKey(place)) return;
    if (live.text !== '') this.streamed.set(attemptKey(live), live.text);
    this.live.value = null;
  }
}

/** Whether no model writes: the run has ended, or is being cancelled. */
function writesNoMore({ path, context }: Folded): boolean {
  return (
    (context?.cancelling ?? null) !== null || path === 'finished' || path === 'failed' || path === 'cancelled'
  );
}
