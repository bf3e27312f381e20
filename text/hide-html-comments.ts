import type { TextFilter } from './text-filter.ts';

/**
 * Returns a text filter that removes HTML comments, even inside code. Comments end where browsers end them (WHATWG
 * HTML, 13.2.5.43 ff.): at `-->` or `--!>`; `<!-->` and `<!--->` are complete comments. An unclosed comment hides the
 * rest of the text. The surrounding text is unchanged.
 *
 * @example
 * createAgent({ name, model, textFilters: [hideHtmlComments] })
 */
export function hideHtmlComments(): TextFilter {
  return new HtmlCommentFilter();
}

const OPEN = '<!--';
const CLOSE = /^-?>|--!?>/;

/** How many characters at the end may belong to a closing mark: `--!` of `--!>`. */
const TAIL = 3;

/**
 * H1 Outside a comment, `#held` is the beginning of `<!--` with which the text ends, or empty.
 * H2 Inside a comment, `#held` is the part of its body that can still determine its end: the full body if short, else a
 *    letter for its beginning and its last three characters. So each character is examined a bounded number of times.
 */
class HtmlCommentFilter implements TextFilter {
  #held = '';
  #inside = false;

  push(text: string): string {
    let rest = this.#held + text;
    let shown = '';
    for (;;) {
      if (this.#inside) {
        const close = CLOSE.exec(rest);
        if (close === null) {
          this.#held = rest.length > TAIL + 1 ? `x${rest.slice(-TAIL)}` : rest;
          return shown;
        }
        rest = rest.slice(close.index + close[0].length);
        this.#inside = false;
      }
      const open = rest.indexOf(OPEN);
      if (open === -1) {
        this.#held = beginningAtEnd(rest);
        return shown + rest.slice(0, rest.length - this.#held.length);
      }
      shown += rest.slice(0, open);
      rest = rest.slice(open + OPEN.length);
      this.#inside = true;
    }
  }

  end(): string {
    return this.#inside ? '' : this.#held;
  }
}

function beginningAtEnd(text: string): string {
  for (let length = OPEN.length - 1; length > 0; length -= 1) {
    const beginning = OPEN.slice(0, length);
    if (text.endsWith(beginning)) return beginning;
  }
  return '';
}
