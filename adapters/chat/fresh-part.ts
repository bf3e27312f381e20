/**
 * What a piece adds to the text so far, for streams that send the whole text again. A text too short
 * to tell may well repeat itself, and stays as it is.
 */
export function freshPart(known: string, piece: string): string {
  const telling = piece.length > known.length || (piece.length === known.length && known.length > 20);
  return telling && piece.startsWith(known) && WORD.test(known) ? piece.slice(known.length) : piece;
}

const WORD = /\p{L}{3}/u;
