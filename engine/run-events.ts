import type { Delta } from '../protocol/effect.ts';
import type { JournalEntry, RunEvent } from '../protocol/event.ts';

/** What is journaled, with its place, and what only passes by. */
export type RunHappening = (RunEvent & { runId: string; seq: number }) | Delta;

/**
 * What happens in a run, for whoever listens in this process: entries as they become durable, deltas
 * as they come. A subscriber that comes late gets what the turn said so far, then what follows.
 */
export type Happening =
  | { type: 'entry'; entry: JournalEntry }
  | { type: 'delta'; delta: Delta }
  /** Driving began or ended here: have a look. */
  | { type: 'nudge' };

type Said = Extract<Delta, { type: 'text.delta' | 'reasoning.delta' }>;

export class RunEvents {
  readonly #subscribers = new Set<(happening: Happening) => void>();
  /** What the turn said so far: neighbouring deltas of one type are one part. */
  #soFar: { turn: number; attempt: number; parts: { type: Said['type']; chunks: string[] }[] } | null = null;

  publishEntry(entry: JournalEntry): void {
    if (entry.event.type === 'turn.completed') this.#soFar = null;
    this.#tell({ type: 'entry', entry });
  }

  publishDelta(delta: Delta): void {
    if (delta.type === 'text.delta' || delta.type === 'reasoning.delta') this.#remember(delta);
    if (delta.type === 'text.discarded') this.#soFar = null;
    this.#tell({ type: 'delta', delta });
  }

  nudge(): void {
    this.#tell({ type: 'nudge' });
  }

  subscribe(listen: (happening: Happening) => void): () => void {
    this.#subscribers.add(listen);
    if (this.#soFar !== null) {
      const { turn, attempt, parts } = this.#soFar;
      for (const { type, chunks } of parts)
        listen({ type: 'delta', delta: { type, turn, attempt, text: chunks.join('') } });
    }
    return () => this.#subscribers.delete(listen);
  }

  #remember({ type, turn, attempt, text }: Said): void {
    if (this.#soFar?.turn !== turn || this.#soFar.attempt !== attempt) {
      this.#soFar = { turn, attempt, parts: [] };
    }
    const last = this.#soFar.parts.at(-1);
    if (last?.type === type) last.chunks.push(text);
    else this.#soFar.parts.push({ type, chunks: [text] });
  }

  #tell(happening: Happening): void {
    for (const listen of this.#subscribers) listen(happening);
  }
}
