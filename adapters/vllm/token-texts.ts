import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';

/** Text in angle or square brackets, as most special tokens are written. */
const BRACKETED = /<[^<>\s]{1,64}>|\[[^[\]\s]{1,64}\]/g;

/**
 * The texts that a tokenizer turns into single tokens wherever they are, such as `<|im_end|>` and `<think>`.
 * Text of people and tools must not contain them.
 */
export class TokenTexts {
  readonly #bracketed: ReadonlySet<string>;
  readonly #other: readonly string[];

  /** `tokens` are the tokenizer's added tokens. Those that are neither special nor in brackets are harmless. */
  constructor(tokens: readonly { text: string; isSpecial: boolean }[]) {
    const isBracketed = (text: string) => text.match(BRACKETED)?.[0] === text;
    this.#bracketed = new Set(tokens.flatMap(({ text }) => (isBracketed(text) ? text : [])));
    this.#other = tokens.flatMap(({ text, isSpecial }) =>
      isSpecial && text.length > 1 && !isBracketed(text) ? text : [],
    );
  }

  /** Breaks up every such text by a space: `<|im_end|>` becomes `< |im_end|>`. */
  breakUp(text: string): string {
    let broken = text.replace(BRACKETED, found => (this.#bracketed.has(found) ? split(found) : found));
    for (const other of this.#other) broken = broken.replaceAll(other, split(other));
    return broken;
  }

  /** Breaks up the texts in a JSON value, including the names of its members. */
  breakUpIn(value: JsonObject): JsonObject {
    return this.#map(value) as JsonObject;
  }

  #map(value: JsonValue): JsonValue {
    if (typeof value === 'string') return this.breakUp(value);
    if (Array.isArray(value)) return value.map(member => this.#map(member));
    if (!isJsonObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.breakUp(name), this.#map(member)]),
    );
  }
}

function split(text: string): string {
  return `${text.slice(0, 1)} ${text.slice(1)}`;
}
