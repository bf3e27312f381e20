/** The size of a part, in characters. */
const LONGEST = 1_600;

/** Cuts a text into parts of at most 1,600 characters, at the end of a paragraph, line or word where there is one. */
export function* cutChunks(text: string): Generator<string, void> {
  let from = 0;
  while (from < text.length) {
    const to =
      from + LONGEST >= text.length ? text.length : from + lengthOf(text.slice(from, from + LONGEST));
    const part = text.slice(from, to).trim();
    if (part !== '') yield part;
    from = to;
  }
}

/** The length of the next part: to the last break in the second half of the piece. */
function lengthOf(piece: string): number {
  for (const mark of ['\n\n', '\n', ' ']) {
    const at = piece.lastIndexOf(mark);
    if (at >= LONGEST / 2) return at + mark.length;
  }
  return LONGEST;
}
