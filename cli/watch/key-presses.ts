/** How far the two presses of a decision are apart at least, in ms. */
const APART_MS = 600;
/** How soon after the press that asked Enter is a part of a paste or of a burst, in ms. */
const BURST_MS = 100;
/** How long a second press waits for the next repeat of a held key, in ms. Terminals do not say which presses are repeats. */
const QUIET_MS = 250;

/** What a press asks. `id` differs if anything about it does. */
export type PressQuestion = { id: string; words: string; act(): void };

/**
 * Asks before it acts, as the page does (`two-presses.tsx`), by the times at which a terminal sends keys, in ms.
 *
 * P1 The first press asks. A second press of the same key acts if it is `APART_MS` after the press of that key before it;
 *    Enter acts at once, unless it comes within `BURST_MS` of that press.
 * P2 Presses of a held key count for nothing: each comes less than `APART_MS` after the one before. The first repeat may
 *    come later, so a second press acts only if no other follows it within `QUIET_MS`.
 * P3 What acts is what was asked: the question ends with another one and with `end`.
 */
export class KeyPresses {
  readonly #later: (ms: number, run: () => void) => () => void;
  /** When each key was last pressed. */
  readonly #pressedAt = new Map<string, number>();
  #asked: { question: PressQuestion; key: string; at: number } | null = null;
  #cancelSecond = () => {};

  /** `later` calls `run` after `ms`, and returns a function that prevents it. */
  constructor(later: (ms: number, run: () => void) => () => void) {
    this.#later = later;
  }

  get asked(): PressQuestion | null {
    return this.#asked?.question ?? null;
  }

  /** Counts a press of `key`, which asks `question`. */
  press(key: string, question: PressQuestion, at: number): void {
    const isRepeat = this.#isRepeat(key, at);
    this.#cancelSecond();
    const asked = this.#asked;
    if (asked === null || asked.key !== key || asked.question.id !== question.id)
      this.#asked = { question, key, at };
    else if (isRepeat) asked.at = at;
    else this.#cancelSecond = this.#later(QUIET_MS, () => this.#act());
  }

  /** Counts a press of Enter, which acts on what another key asked. */
  confirm(at: number): void {
    if (this.#asked?.key === 'Enter') return this.press('Enter', this.#asked.question, at);
    const isRepeat = this.#isRepeat('Enter', at);
    if (this.#asked === null || isRepeat || at - this.#asked.at < BURST_MS) return;
    this.#act();
  }

  end(): void {
    this.#cancelSecond();
    this.#asked = null;
  }

  #isRepeat(key: string, at: number): boolean {
    const before = this.#pressedAt.get(key) ?? Number.NEGATIVE_INFINITY;
    this.#pressedAt.set(key, at);
    return at - before < APART_MS;
  }

  #act(): void {
    const asked = this.#asked;
    this.end();
    asked?.question.act();
  }
}
