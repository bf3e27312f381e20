import { batch, computed, signal } from '@preact/signals';
import { type StoryEvent, StoryTeller } from '../../../engine/story/tell-story.ts';
import type { Delta } from '../../../protocol/effect.ts';
import { textOf } from '../../../protocol/message.ts';
import type { RunView, StreamedEvent } from '../data/request.ts';
import { Folded } from './journal-fold.ts';
import { attemptKey, type Block, RunStory } from './run-story.ts';

export type RunConnection = { type: 'connecting' | 'live' | 'ended' } | { type: 'away'; since: number };

const PIECE_MS = 12;

/** A text, the reasoning or the arguments of a call, as far as they were streamed; `name` of a call's tool. */
type LivePart = { kind: 'text' | 'reasoning' | 'call'; name: string; text: string };

/** The streamed output of an attempt, in the order in which it began. The text filters have been applied. */
export type LiveTurn = { turn: number; attempt: number; parts: ReadonlyMap<string, LivePart> };

/**
 * The page's model of a run: its journal, the folds of it, live output, the server's view, and the cursor, the one
 * place that all panes show.
 *
 * M1 Each entry is applied once, in order; repeated entries after a reconnection are ignored.
 * M2 After a request to cancel there is no live output.
 * M3 Without a chosen place the cursor is at the last entry and moves with it.
 */
export class RunModel {
  readonly runId: string;
  readonly view = signal<RunView | null>(null);
  readonly connection = signal<RunConnection>({ type: 'connecting' });
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
  readonly shown = computed(() => this.foldAt(this.at.value));
  readonly before = computed(() => this.foldAt(this.at.value - 1));
  readonly ended = computed(() => {
    const status = this.view.value?.status;
    return status === 'finished' || status === 'failed' || status === 'cancelled';
  });
  readonly live = computed(() => (this.fold.context?.cancelling ? null : this.#live.value));
  /** What the agent to which the conversation was handed says, until it has answered. */
  readonly answering = computed(() => (this.fold.context?.cancelling ? '' : this.#answering.value));
  readonly path = computed(() => this.#pathNow());
  /** The text that this page got of each attempt that is over, by `attemptKey`. */
  readonly streamed = new Map<string, string>();
  readonly #live = signal<LiveTurn | null>(null);
  readonly #answering = signal('');
  readonly #items = computed(() => new Map(this.view.value?.transcript.map(item => [item.id, item])));
  readonly #read = (seq: number) => this.entry(seq);
  #teller: StoryTeller;
  #entries: (StreamedEvent | undefined)[] = [];
  #story = new RunStory(this.#read);

  constructor(runId: string) {
    this.runId = runId;
    this.#teller = new StoryTeller({ runId });
  }

  entry(seq: number): StreamedEvent | undefined {
    void this.first.value;
    return this.#entries[seq - 1];
  }

  /** The journal's story, for all panes. `told` changes with it. */
  get story(): RunStory {
    void this.told.value;
    return this.#story;
  }

  foldAt(seq: number): Folded {
    void this.last.value;
    void this.first.value;
    return seq < 1 ? Folded.start : this.#story.folds.at(seq);
  }

  get fold(): Folded {
    return this.foldAt(this.last.value);
  }

  choose(seq: number | null): void {
    const last = this.last.peek();
    this.chosen.value = seq === null ? null : Math.max(1, Math.min(seq, last));
  }

  /** The text of a reply as readers saw it at the cursor, and the model's original text if a guardrail changed it. */
  readReply(reply: Extract<Block, { kind: 'reply' }>): { text: string; before: string | null } {
    const { checked } = reply;
    const own = this.#readOwn(reply);
    if (checked === null || checked.seq > this.at.value) return { text: own, before: null };
    return { text: checked.text, before: checked.text === own ? null : own };
  }

  /** Filters apply to what readers get; until the server's view has that text, the streamed text or `…` is shown. */
  #readOwn({ item, attempt, seq }: Extract<Block, { kind: 'reply' }>): string {
    const view = this.view.value;
    const known = item.id === undefined ? undefined : this.#items.value.get(item.id);
    if (known !== undefined) return textOf(known);
    return this.streamed.get(attempt) ?? (view !== null && view.seq >= seq ? textOf(item) : '…');
  }

  /** Starts with the end of a long journal. `base` is the fold before the first of `entries`. */
  async beginAt(base: Folded, entries: readonly StreamedEvent[], pause: () => Promise<void>): Promise<void> {
    if (this.last.peek() > 0) return;
    this.#entries = new Array(base.seq);
    this.addOlder(entries);
    const story = new RunStory(this.#read, base);
    const teller = new StoryTeller({ runId: this.runId }, base.state);
    const told: StoryEvent[] = [];
    await this.#tell(base.seq + 1, event => told.push(...story.take(event, teller)), pause);
    batch(() => {
      this.#story = story;
      this.#teller = teller;
      this.first.value = base.seq + 1;
      this.last.value = story.folds.last.seq;
      this.told.value += 1;
      this.#show(told);
    });
  }

  addOlder(entries: readonly StreamedEvent[]): void {
    for (const event of entries) this.#entries[event.seq - 1] ??= event;
  }

  /** Replaces folds and story by those of the whole journal. */
  async retell(pause: () => Promise<void>): Promise<void> {
    const story = new RunStory(this.#read);
    const teller = new StoryTeller({ runId: this.runId });
    await this.#tell(1, event => story.take(event, teller), pause);
    if (story.folds.last.seq < this.last.peek()) return;
    batch(() => {
      this.#story = story;
      this.first.value = 1;
      this.told.value += 1;
    });
  }

  /** Passes the entries that are loaded on, in pieces between which the page can draw. Pauses once more after the last. */
  async #tell(
    from: number,
    take: (event: StreamedEvent) => unknown,
    pause: () => Promise<void>,
  ): Promise<void> {
    let began = performance.now();
    for (let seq = from; seq <= this.#entries.length; seq += 1) {
      const event = this.entry(seq);
      if (event === undefined) return;
      take(event);
      if (performance.now() - began < PIECE_MS && seq < this.#entries.length) continue;
      await pause();
      began = performance.now();
    }
  }

  /** Applies entries of the journal. Returns `false` if entries before them are missing. */
  takeEntries(events: readonly StreamedEvent[]): boolean {
    return batch(() => {
      for (const event of events) {
        if (event.seq <= this.last.peek()) continue;
        if (event.seq > this.last.peek() + 1) return false;
        this.#entries[event.seq - 1] = event;
        this.#show(this.#story.take(event, this.#teller));
        this.last.value = event.seq;
        this.told.value += 1;
      }
      return true;
    });
  }

  takeTextSoFar(soFar: { turn: number; attempt: number; text: string }): void {
    this.#show(this.#teller.takeTextSoFar(soFar));
  }

  takeDelta(delta: Delta): void {
    this.#show(this.#teller.takeDelta(delta));
  }

  /** Applies the server's view, unless it is older than the current one. */
  takeView(view: RunView): void {
    const known = this.view.peek();
    if (known === null || view.seq >= known.seq) this.view.value = view;
  }

  /** Live output arrives before the journal's `text.started` and `calls.started`, which wait for the next commit. */
  #pathNow(): string {
    const { path, context } = this.fold;
    const live = this.live.value;
    if (live === null || path?.startsWith('turn.') !== true) return path ?? this.view.value?.state ?? '';
    if (live.parts.values().some(({ kind }) => kind === 'call')) return 'turn.planning';
    return context?.turn.shown === false && textOfLive(live) !== '' ? 'turn.finalStreaming' : path;
  }

  /** Shows live output. A late answer is in the entry that comes with it, as the server has it without the filters. */
  #show(told: readonly StoryEvent[]): void {
    for (const one of told)
      switch (one.type) {
        case 'text':
        case 'reasoning':
        case 'call.opened':
        case 'call.arguments':
          this.#addLive(one);
          break;
        case 'turn.discarded':
        case 'turn.closed':
          this.#endLive(one);
          break;
        case 'answer.text':
          if (one.late !== true) this.#answering.value += one.text;
          break;
        case 'answer.discarded':
        case 'answer.taken':
          this.#answering.value = '';
          break;
        case 'call.progress':
          this.progress.value = new Map(this.progress.peek()).set(one.callId, one.data);
          break;
        default:
      }
  }

  #addLive(
    piece: Extract<StoryEvent, { type: 'text' | 'reasoning' | 'call.opened' | 'call.arguments' }>,
  ): void {
    const { turn, attempt } = piece;
    const place = 'part' in piece ? `${piece.part}` : `call ${piece.index}`;
    const parts = new Map(this.#live.peek()?.parts);
    const { name, text } = parts.get(place) ?? { name: '', text: '' };
    parts.set(place, {
      kind: 'part' in piece ? piece.type : 'call',
      name: 'name' in piece ? piece.name : name,
      text: 'text' in piece ? text + piece.text : text,
    });
    this.#live.value = { turn, attempt, parts };
  }

  #endLive(place: { turn: number; attempt: number }): void {
    const live = this.#live.peek();
    if (live === null || attemptKey(live) !== attemptKey(place)) return;
    const text = textOfLive(live);
    if (text !== '') this.streamed.set(attemptKey(live), text);
    this.#live.value = null;
  }
}

export function textOfLive(live: LiveTurn | null): string {
  const parts = [...(live?.parts.values() ?? [])];
  return parts.map(({ kind, text }) => (kind === 'text' ? text : '')).join('');
}
