/** Decodes ids; of none, the empty text. */
type Decode = (ids: readonly number[]) => string;

/** How many tokens may wait for the rest of a character. Characters have at most four bytes. */
const MOST_WAITING = 8;

/**
 * Decodes the tokens of one reply as they come. A token's text may depend on the token before it, and a
 * character's bytes may be in several tokens, so each token is decoded together with the ones before it.
 */
export class TokenText {
  readonly #decode: Decode;
  /** The tokens of the last text, and those whose text is not complete. */
  #window: number[] = [];
  #read = 0;

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  /** Adds tokens. Returns the text that is complete. */
  push(ids: readonly number[]): string {
    let text = '';
    for (const id of ids) {
      this.#window.push(id);
      const fresh = this.#fresh();
      const isWaiting = fresh === '' || fresh.endsWith('\uFFFD');
      if (isWaiting && this.#window.length - this.#read <= MOST_WAITING) continue;
      text += fresh;
      this.#window = this.#window.slice(this.#read);
      this.#read = this.#window.length;
    }
    return text;
  }

  /** Returns an incomplete character at the end, as `U+FFFD`. */
  end(): string {
    const text = this.#fresh();
    this.#window = [];
    this.#read = 0;
    return text;
  }

  #fresh(): string {
    const before = this.#decode(this.#window.slice(0, this.#read));
    return this.#decode(this.#window).slice(before.length);
  }
}
