// The Harmony format of gpt-oss models, rendered and parsed here: https://github.com/openai/harmony, docs/format.md.

/** The special tokens of the encoding `o200k_harmony`, with their ids. As text, each is `<|NAME|>`. */
export const TOKEN_IDS = {
  return: 200_002,
  constrain: 200_003,
  channel: 200_005,
  start: 200_006,
  end: 200_007,
  message: 200_008,
  call: 200_012,
} as const;

/** The name of a special token. */
export type TokenName = keyof typeof TOKEN_IDS;

/** A part of a prompt or of a reply: plain text or one special token. */
export type Piece = { text: string } | { token: TokenName };

/** The tokens that end a reply. */
export const STOP_TOKENS = ['return', 'call'] as const satisfies readonly TokenName[];

const NAMES = Object.keys(TOKEN_IDS) as TokenName[];

/** The special tokens by their text. */
export const TOKENS_BY_TEXT: ReadonlyMap<string, TokenName> = new Map(
  NAMES.map(name => [tokenText(name), name]),
);

/** Returns a special token as text. */
export function tokenText(name: TokenName): string {
  return `<|${name}|>`;
}
