import { isTokenName, type Piece, TOKEN_IDS, type TokenName, tokenText } from './tokens.ts';

const TOKEN_TEXTS = (Object.keys(TOKEN_IDS) as TokenName[]).map(tokenText);
const LONGEST_TOKEN = Math.max(...TOKEN_TEXTS.map(text => text.length));

/**
 * Finds the special tokens in the text of a reply, however it is split. Holds text back only while it may be
 * the beginning of a special token.
 */
export class TokenScanner {
  #held = '';

  /** Adds text. Returns the pieces that are complete. */
  push(text: string): Piece[] {
    const buffer = this.#held + text;
    const pieces: Piece[] = [];
    let begin = 0;
    let at = buffer.indexOf('<');
    while (at !== -1) {
      const head = buffer.slice(at, at + LONGEST_TOKEN);
      const name = /^<\|([a-z]+)\|>/.exec(head)?.[1] ?? '';
      if (isTokenName(name)) {
        if (at > begin) pieces.push({ text: buffer.slice(begin, at) });
        pieces.push({ token: name });
        begin = at + tokenText(name).length;
      } else if (TOKEN_TEXTS.some(token => token.length > head.length && token.startsWith(head))) break;
      at = buffer.indexOf('<', Math.max(begin, at + 1));
    }
    const end = at === -1 ? buffer.length : at;
    if (end > begin) pieces.push({ text: buffer.slice(begin, end) });
    this.#held = buffer.slice(end);
    return pieces;
  }

  /** Returns the text that was held back, at the end of the reply. */
  end(): Piece[] {
    const text = this.#held;
    this.#held = '';
    return text === '' ? [] : [{ text }];
  }
}
