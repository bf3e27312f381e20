import type { TextFilter } from './text-filter.ts';

/**
 * A text filter that keeps HTML comments from readers, wherever they stand, in code too. A comment ends
 * where a browser says it does (WHATWG HTML, 13.2.5.43 ff.): at `-->` or `--!>`, and `<!-->` and `<!--->`
 * are whole; one that is never closed hides all that follows it. The text around a comment stays as it is.
 *
 * @example
 * createAgent({ name, model, textFilters: [hideHtmlComments] })
 */
export function hideHtmlComments(): TextFilter {
  return new HtmlCommentFilter();
}

const OPEN = '<!--';
const CLOSE = /^-?>|--!?>/;

/** How much of a comment's end can belong to its closing mark: the `--!` of `--!>`. */
const TAIL = 3;

/**
 * H1 Outside a comment `#held` is empty or a beginning of `<!--` that the text so far ends with.
 * H2 Inside one `#held` is what of its body can still decide where it ends: all of a short one, else a
 *    letter for its beginning and its last three characters. So every character is looked at a bounded
 *    number of times.
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
