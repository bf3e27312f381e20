import type { Delta } from '../protocol/effect.ts';
import type { JournalEntry } from '../protocol/event.ts';

/**
 * What happens in a run, for whoever listens in this process: entries as they become durable, deltas
 * as they come. A subscriber that comes late gets the text of the turn so far, then what follows.
 */
export type Happening =
  | { type: 'entry'; entry: JournalEntry }
  | { type: 'delta'; delta: Delta }
  /** Driving began or ended here: have a look. */
  | { type: 'nudge' };

export class Channel {
  readonly #subscribers = new Set<(happening: Happening) => void>();
  #soFar: { turn: number; attempt: number; chunks: string[] } | null = null;

  publishEntry(entry: JournalEntry): void {
    if (entry.event.type === 'turn.completed') this.#soFar = null;
    this.#tell({ type: 'entry', entry });
  }

  publishDelta(delta: Delta): void {
    if (delta.type === 'text.delta') this.#remember(delta);
    if (delta.type === 'text.discarded') this.#soFar = null;
    this.#tell({ type: 'delta', delta });
  }

  nudge(): void {
    this.#tell({ type: 'nudge' });
  }

  subscribe(listen: (happening: Happening) => void): () => void {
    this.#subscribers.add(listen);
    if (this.#soFar !== null) {
      const { turn, attempt, chunks } = this.#soFar;
      listen({ type: 'delta', delta: { type: 'text.delta', turn, attempt, text: chunks.join('') } });
    }
    return () => this.#subscribers.delete(listen);
  }

  #remember({ turn, attempt, text }: { turn: number; attempt: number; text: string }): void {
    if (this.#soFar?.turn !== turn || this.#soFar.attempt !== attempt) {
      this.#soFar = { turn, attempt, chunks: [] };
    }
    this.#soFar.chunks.push(text);
  }

  #tell(happening: Happening): void {
    for (const listen of this.#subscribers) listen(happening);
  }
}
