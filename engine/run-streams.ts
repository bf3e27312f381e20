import type { Delta } from '../protocol/effect.ts';
import type { JournalEntry } from '../protocol/event.ts';
import { POLL_MS } from './driver.ts';
import type { Host } from './host.ts';
import type { Happening, RunEvents, RunHappening } from './run-events.ts';

/**
 * A run for one reader, as fast as it reads.
 *
 * W1 Every entry behind `after` comes once, in order.
 * W2 At most `MOST_WAITING` happenings wait for a reader. One that falls further behind gets the entries it
 *    missed from the store, and the text of the running turn from where it stopped; other deltas are lost to it.
 */
export type StreamSource = {
  runId: string;
  events: RunEvents;
  host: Host;
  readPages(after: number): AsyncIterable<JournalEntry[]>;
  /** Why nobody drives here any more, if that is so. */
  trouble(): { error: unknown } | null;
  /** Folds what others have written, and tells whether there is more to come. */
  look(): Promise<'running' | 'at-rest' | 'ended'>;
};

/** `onBehind` is called when deltas were lost to the reader. */
export type ReadOptions = { after?: number; follow?: boolean; onBehind?(): void };

const MOST_WAITING = 1_024;

/** The journal behind `after`, then what happens as it does; ends when the run settles, or with `follow` when it ends. */
export async function* readEvents(
  source: StreamSource,
  { after = 0, follow = false, onBehind = () => {} }: ReadOptions,
): AsyncGenerator<RunHappening> {
  const waiting = new Waiting(source.events);
  try {
    let seq = after;
    for (;;) {
      if (waiting.isBehind) onBehind();
      waiting.begin();
      for await (const page of source.readPages(seq)) {
        for (const entry of page) {
          seq = entry.seq;
          yield stamp(entry, source.runId);
        }
      }
      while (!waiting.isBehind) {
        for (const happening of waiting.take()) {
          if (happening.type === 'delta') yield happening.delta;
          if (happening.type !== 'entry' || happening.entry.seq <= seq) continue;
          seq = happening.entry.seq;
          yield stamp(happening.entry, source.runId);
        }
        const status = await source.look();
        if (!waiting.isEmpty) continue;
        const trouble = follow ? null : source.trouble();
        if (status === 'running' && trouble !== null) throw trouble.error;
        if (status === 'ended' || (status === 'at-rest' && !follow)) return;
        await waiting.forMore(source.host);
      }
    }
  } finally {
    waiting.end();
  }
}

type Said = { turn: number; attempt: number; length: { 'text.delta': number; 'reasoning.delta': number } };

/** What a reader has not taken yet. */
class Waiting {
  readonly #events: RunEvents;
  #queue: Happening[] = [];
  #isBehind = false;
  #most = MOST_WAITING;
  /** How much of the running turn the reader has, in characters. */
  #said: Said | null = null;
  #wake = () => {};
  #unsubscribe = () => {};

  constructor(events: RunEvents) {
    this.#events = events;
  }

  get isBehind(): boolean {
    return this.#isBehind;
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0 && !this.#isBehind;
  }

  /** Listens, at first or anew: they give all text of the running turn, and the reader gets what it has not. */
  begin(): void {
    const soFar: Happening[] = [];
    let listen = (happening: Happening): void => void soFar.push(happening);
    this.#unsubscribe = this.#events.subscribe(happening => listen(happening));
    listen = happening => this.#put(happening);
    this.#isBehind = false;
    this.#queue = this.#withoutSaid(soFar);
    this.#most = this.#queue.length + MOST_WAITING;
  }

  *take(): Generator<Happening, void> {
    for (const happening of this.#queue.splice(0)) {
      if (this.#isBehind) return;
      this.#remember(happening);
      yield happening;
    }
  }

  async forMore(host: Host): Promise<void> {
    await new Promise<void>(resolve => {
      const cancel = host.setTimer(POLL_MS, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
    this.#wake = () => {};
  }

  end(): void {
    this.#queue = [];
    this.#unsubscribe();
  }

  #put(happening: Happening): void {
    this.#queue.push(happening);
    if (this.#queue.length > this.#most) {
      this.end();
      this.#isBehind = true;
    }
    this.#wake();
  }

  #remember(happening: Happening): void {
    if (happening.type !== 'delta' || !isSaid(happening.delta)) return;
    const { type, turn, attempt, text } = happening.delta;
    if (this.#said?.turn !== turn || this.#said.attempt !== attempt)
      this.#said = { turn, attempt, length: { 'text.delta': 0, 'reasoning.delta': 0 } };
    this.#said.length[type] += text.length;
  }

  #withoutSaid(happenings: readonly Happening[]): Happening[] {
    const left = { 'text.delta': 0, 'reasoning.delta': 0, ...this.#said?.length };
    return happenings.flatMap(happening => {
      if (happening.type !== 'delta' || !isSaid(happening.delta)) return [happening];
      const { type, turn, attempt, text } = happening.delta;
      if (this.#said?.turn !== turn || this.#said.attempt !== attempt) return [happening];
      const known = Math.min(left[type], text.length);
      left[type] -= known;
      return known === text.length
        ? []
        : [{ type: 'delta', delta: { type, turn, attempt, text: text.slice(known) } }];
    });
  }
}

function isSaid(delta: Delta): delta is Extract<Delta, { type: 'text.delta' | 'reasoning.delta' }> {
  return delta.type === 'text.delta' || delta.type === 'reasoning.delta';
}

/** The text of the run as readers see it: of past turns from the journal, of the current one as it comes. */
export async function* readText(
  source: StreamSource,
  showText: (text: string) => string,
): AsyncGenerator<string> {
  let shown = false;
  let streamed = 0;
  let completed = 0;
  let isBehind = false;
  const onBehind = () => {
    isBehind = true;
  };
  for await (const event of readEvents(source, { onBehind })) {
    if (event.type === 'text.delta' && event.turn > completed) {
      streamed += event.text.length;
      yield event.text;
    }
    if (event.type === 'text.started') shown = true;
    if (event.type !== 'turn.completed' && event.type !== 'turn.failed') continue;
    if (event.type === 'turn.completed') completed += 1;
    const isDue = event.type === 'turn.completed' && shown && (streamed === 0 || isBehind);
    const rest = isDue ? showText(event.text).slice(streamed) : '';
    if (rest !== '') yield rest;
    shown = false;
    streamed = 0;
    isBehind = false;
  }
}

function stamp({ seq, event }: JournalEntry, runId: string): RunHappening {
  return { ...event, runId, seq };
}
