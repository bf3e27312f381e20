/** Texts shorter than this are encoded as fast as they are looked up, in characters. */
const SHORTEST = 64;

/** How much text is remembered, in characters: the prompts of some long conversations. */
const MOST_CHARACTERS = 8 * 1024 * 1024;

/**
 * Remembers the tokens of texts, because each request of a conversation repeats the texts of the last one.
 *
 * R1 The remembered texts have at most `limit` characters together; those used longest ago are forgotten.
 */
export class RecentTokens {
  readonly #limit: number;
  readonly #tokens = new Map<string, readonly number[]>();
  #characters = 0;

  constructor(limit: number = MOST_CHARACTERS) {
    this.#limit = limit;
  }

  /** Returns the tokens of a text, encoded by `encode` if they are not remembered. */
  of(text: string, encode: (text: string) => readonly number[]): readonly number[] {
    if (text.length < SHORTEST || text.length > this.#limit) return encode(text);
    const known = this.#tokens.get(text);
    const tokens = known ?? encode(text);
    if (known) this.#tokens.delete(text);
    else this.#characters += text.length;
    this.#tokens.set(text, tokens);
    for (const oldest of this.#tokens.keys()) {
      if (this.#characters <= this.#limit) break;
      this.#tokens.delete(oldest);
      this.#characters -= oldest.length;
    }
    return tokens;
  }
}
