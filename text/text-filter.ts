/** Changes the text on its way to the reader; the transcript keeps it raw. One filter serves one turn. */
export interface TextFilter {
  /** What of the text so far may be shown now. */
  push(text: string): string;
  /** What was held back, at the end of the turn's text. */
  end(): string;
}

/** The filters as one, in the order given; without filters the text passes as it is. */
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
