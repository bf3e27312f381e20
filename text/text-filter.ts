/*
 * Text processing without I/O: filters for streamed text (`hide-html-comments.ts`, `citations.ts`), trimming of
 * transcripts (`trim-transcript.ts`), and shortening of large results (`cut-text.ts`).
 */

/** Changes text on its way to the reader; the transcript keeps the original. Each turn uses a new filter. */
export interface TextFilter {
  /** Takes the next piece of text and returns the text that may be shown now. */
  push(text: string): string;
  /** Returns the text held back until the end of the turn. */
  end(): string;
}

export function chainFilters(makers: readonly (() => TextFilter)[]): TextFilter {
  const filters = makers.map(make => make());
  return {
    push: text => filters.reduce((shown, filter) => filter.push(shown), text),
    end: () => filters.reduce((rest, filter) => (rest === '' ? '' : filter.push(rest)) + filter.end(), ''),
  };
}

export function filterText(text: string, makers: readonly (() => TextFilter)[]): string {
  if (makers.length === 0) return text;
  const filter = chainFilters(makers);
  return filter.push(text) + filter.end();
}

export function filterTexts(pieces: readonly string[], makers: readonly (() => TextFilter)[]): string[] {
  if (makers.length === 0) return [...pieces];
  const filter = chainFilters(makers);
  return pieces.map((text, at) => filter.push(text) + (at === pieces.length - 1 ? filter.end() : ''));
}
