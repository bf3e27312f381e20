import { type Piece, tokenText } from './tokens.ts';

/**
 * Returns a prompt as one text. The server turns every `<|…|>` of that text into a special token, so those in
 * plain text are broken up by a space: `< |end|>`.
 */
export function promptText(pieces: readonly Piece[]): string {
  return pieces
    .map(piece => ('token' in piece ? tokenText(piece.token) : breakUpTokens(piece.text)))
    .join('');
}

function breakUpTokens(text: string): string {
  return text.replace(/<\|(?=\w+\|>)/g, '< |');
}
